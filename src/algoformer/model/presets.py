"""Preset programs: the paper's three models, a loop in a loop, and two loops in a row.

>>> print(algoformer(pre=1, loop=1, post=1, steps=20))
pre   1 layer × 8 heads
loop  ⟲ 20 steps, inject add
  1 layer × 8 heads
post  1 layer × 8 heads
"""

import functools
from collections.abc import Callable
from dataclasses import fields
from inspect import signature
from typing import Any, TypeVar, cast

from algoformer.common.names import check_keywords
from algoformer.model.formats import servable as servable
from algoformer.model.loop_models import LOOP_MODELS as LOOP_MODELS
from algoformer.model.loop_models import albert as albert
from algoformer.model.loop_models import deq as deq
from algoformer.model.loop_models import hrm as hrm
from algoformer.model.loop_models import hrm_text as hrm_text
from algoformer.model.loop_models import huginn as huginn
from algoformer.model.loop_models import mor_cycle as mor_cycle
from algoformer.model.loop_models import mor_sequence as mor_sequence
from algoformer.model.loop_models import nanbeige as nanbeige
from algoformer.model.loop_models import ouro as ouro
from algoformer.model.loop_models import parcae as parcae
from algoformer.model.loop_models import retrofit as retrofit
from algoformer.model.loop_models import trm as trm
from algoformer.model.loop_models import universal as universal
from algoformer.model.program import Layers, Loop, Program

Preset = TypeVar("Preset", bound=Callable[..., Program])


def _suggests_settings(build: Preset) -> Preset:
    """Make a preset answer an unknown setting with the nearest of its own and of the layers'."""
    own, hidden = signature(build).parameters, ("layer", "count", "name")
    known = [name for name in [*own, *(item.name for item in fields(Layers))] if name not in hidden]

    @functools.wraps(build)
    def checked(*arguments: Any, **settings: Any) -> Program:
        check_keywords(build.__name__, settings, known)
        return build(*arguments, **settings)

    return cast(Preset, checked)


def _module(name: str, count: int, layer: dict[str, Any]) -> list[Layers]:
    """Return a module of layers, or nothing if its count is 0."""
    return [Layers(count, name=name, **layer)] if count else []


@_suggests_settings
def standard(layers: int = 12, **layer: Any) -> Program:
    """A plain transformer: distinct layers, no loop. `layer` goes to `Layers` (heads, causal, ...)."""
    return Program(Layers(layers, name="layers", **layer))


@_suggests_settings
def looped(layers: int = 1, *, steps: int = 20, inject: str = "add", **layer: Any) -> Program:
    """The looped transformer of Yang et al.: nothing but a loop, its input added at every step."""
    return Program(Loop(Layers(layers, **layer), steps=steps, inject=inject, name="loop"))


@_suggests_settings
def algoformer(
    pre: int = 1, loop: int = 1, post: int = 1, *, steps: int = 20, inject: str = "add", **layer: Any
) -> Program:
    """The paper's three modules: prepare, iterate, finish. `pre` or `post` may be 0, and is then left out."""
    middle = Loop(Layers(loop, **layer), steps=steps, inject=inject, name="loop")
    return Program(*_module("pre", pre, layer), middle, *_module("post", post, layer))


@_suggests_settings
def nested(
    pre: int = 1,
    inner: int = 1,
    outer: int = 1,
    post: int = 1,
    *,
    steps: int = 5,
    inner_steps: int = 4,
    inject: str = "add",
    **layer: Any,
) -> Program:
    """A loop whose body is a stack of layers (`outer`) followed by an inner loop of `inner_steps` iterations.

    Made for `tasks.RobustRegression`, whose textbook method, iteratively reweighted least squares, has the
    same shape: outer iterations compute the weights of the examples, inner ones solve the weighted problem.
    """
    body = Program(
        Layers(outer, name="outer", **layer),
        Loop(Layers(inner, **layer), steps=inner_steps, inject=inject, name="inner"),
    )
    loop = Loop(body, steps=steps, inject=inject, name="loop")
    return Program(*_module("pre", pre, layer), loop, *_module("post", post, layer))


@_suggests_settings
def two_loops(
    first: int = 1,
    between: int = 1,
    second: int = 1,
    post: int = 1,
    *,
    first_steps: int = 3,
    steps: int = 20,
    inject: str = "add",
    **layer: Any,
) -> Program:
    """Two loops in a row: one builds features layer by layer, the next regresses on them.

    Made for `tasks.RegressionWithRepresentation`: the first loop runs as often as Φ* has layers, the
    second is the iterative solver that an unroll makes longer or shorter.
    """
    features = Loop(Layers(first, **layer), steps=first_steps, inject=inject, name="features")
    loop = Loop(Layers(second, **layer), steps=steps, inject=inject, name="loop")
    return Program(features, *_module("between", between, layer), loop, *_module("post", post, layer))


def equation_one(count: int, *, heads: int, head_width: int, hidden: int, **layer: Any) -> Layers:
    """Layers as in the paper's Equation 1: no norm, ReLU, unscaled scores, full attention, any head width."""
    plain: dict[str, Any] = {
        "norm": "none",
        "scaled": False,
        "activation": "relu",
        "causal": False,
        "positions": "none",
        "final_norm": False,
    }
    return Layers(count, heads=heads, head_width=head_width, hidden=hidden, **{**plain, **layer})


PRESETS: dict[str, Callable[..., Program]] = {
    build.__name__: build for build in (standard, looped, algoformer, nested, two_loops)
}
"""Preset by name, for the command line."""
