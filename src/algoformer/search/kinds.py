"""Kinds of programs that a search chooses from: each builds a program from one point of the space."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from algoformer.common.names import Registry
from algoformer.model import presets
from algoformer.model.program import Layers, Loop, Parallel, Part, Program

if TYPE_CHECKING:
    from algoformer.search.space import Point

Layer = Mapping[str, Any]
"""Settings that all layers of a program share: heads, norm, activation, ..."""

BuildKind = Callable[["Point", int, Layer], Program]
"""Returns the program of a point, whose last loop runs a number of iterations."""


def _algoformer(point: Point, steps: int, layer: Layer) -> Program:
    return presets.algoformer(point.pre, point.loop, point.post, steps=steps, inject=point.inject, **layer)


def _two_loops(point: Point, steps: int, layer: Layer) -> Program:
    loops = {"first_steps": point.inner_steps, "steps": steps, "inject": point.inject, **layer}
    return presets.two_loops(point.loop, point.pre, point.loop, point.post, **loops)


def _nested(point: Point, steps: int, layer: Layer) -> Program:
    loops = {"inner_steps": point.inner_steps, "steps": steps, "inject": point.inject, **layer}
    return presets.nested(point.pre, point.loop, point.loop, point.post, **loops)


def _parallel(point: Point, steps: int, layer: Layer) -> Program:
    branches = [
        Loop(Layers(point.loop, **layer), steps=steps, inject=point.inject, name=name)
        for name in ("first", "second")
    ]
    parts: list[Part] = [Layers(point.pre, name="pre", **layer)] if point.pre else []
    parts.append(Parallel(*branches, name="both"))
    parts += [Layers(point.post, name="post", **layer)] if point.post else []
    return Program(*parts)


KINDS: Registry[BuildKind] = Registry(
    "kind of program",
    {"algoformer": _algoformer, "two_loops": _two_loops, "nested": _nested, "parallel": _parallel},
    register="algoformer.search.register_kind",
)
"""Kinds by name. In each, `loop` is the number of layers in every loop body.

"algoformer" has `pre` layers, a loop, `post` layers. "two_loops" runs a loop `inner_steps` times before them.
"nested" has a loop of `inner_steps` iterations inside the loop. "parallel" sums two loops side by side.
"""


def register_kind(name: str, build: BuildKind) -> None:
    """Register a kind of program, so that `SearchSpace(kind=(name,))` can search it.

    Args:
        name: what spaces call it.
        build: called with a `Point`, the iterations of the last loop and the settings of all layers.

    Raises:
        ValueError: the name belongs to another kind, or cannot be one.
    """
    KINDS.register(name, build)
