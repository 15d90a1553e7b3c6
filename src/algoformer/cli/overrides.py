"""A program as options: `--model.loop.steps 30` for any program, derived from the program itself."""

from __future__ import annotations

from dataclasses import fields, make_dataclass, replace
from typing import Annotated, Any

import tyro

from algoformer.model.program import Injection, Layers, Loop, Parallel, Part, Program

LAYER_HELP = {
    "count": "How many layers.",
    "heads": "Attention heads of each layer.",
    "head_width": "Of one head; None divides the stream's width by the heads.",
    "hidden": "Width of the feed-forward network; None is four times the stream.",
    "causal": "Whether a token sees only what comes before it.",
    "norm": "Layer norms before attention and feed-forward.",
    "scaled": "Whether scores are divided by the root of the head's width.",
    "activation": "Of the feed-forward network.",
    "bias": "Whether products have biases.",
    "positions": "Add learned positions on entry (in a loop: at every iteration).",
    "final_norm": "A layer norm at the end (in a loop: at every iteration).",
}


def model_settings(program: Program, width: int) -> Any:
    """An object with a field for every setting of the program, grouped as its parts are."""
    kinds: list[tuple[str, Any, Any]] = [("width", _option(int, "Of the stream."), width)]
    kinds += _program_fields(program)
    return make_dataclass("model", kinds, frozen=True)()


def apply_settings(program: Program, settings: Any) -> Program:
    """The program with the values that the settings hold now."""
    return Program(
        *(_apply_part(part, getattr(settings, _word(part, index))) for index, part in enumerate(program))
    )


def _word(part: Part, index: int) -> str:
    return part.name or f"part{index}"


def _program_fields(program: Program) -> list[tuple[str, Any, Any]]:
    return [_group(_word(part, index), _part_fields(part)) for index, part in enumerate(program)]


def _group(name: str, kinds: list[tuple[str, Any, Any]]) -> tuple[str, Any, Any]:
    kind = make_dataclass(name, kinds, frozen=True)
    return name, kind, kind()


def _part_fields(part: Part) -> list[tuple[str, Any, Any]]:
    if isinstance(part, Layers):
        return _layer_fields(part)
    if isinstance(part, Parallel):
        return [
            _group(f"branch{number}", _program_fields(branch)) for number, branch in enumerate(part.branches)
        ]
    own: list[tuple[str, Any, Any]] = [
        ("steps", _option(int, "How often the loop runs."), part.steps),
        ("inject", _option(Injection, "How its input reaches each iteration."), part.inject),
    ]
    alone = _only_layers(part)
    return own + (_layer_fields(alone) if alone is not None else _program_fields(part.body))


def _layer_fields(layers: Layers) -> list[tuple[str, Any, Any]]:
    hints = {"head_width": int | None, "hidden": int | None, "count": int, "heads": int}
    return [
        (name, _option(hints.get(name, _kind(layers, name)), text), getattr(layers, name))
        for name, text in LAYER_HELP.items()
    ]


def _kind(layers: Layers, name: str) -> Any:
    from typing import Literal

    return Literal["gelu", "relu"] if name == "activation" else type(getattr(layers, name))


def _option(kind: Any, text: str) -> Any:
    return Annotated[kind, tyro.conf.arg(help=text)]


def _only_layers(loop: Loop) -> Layers | None:
    """The loop's body, if it is one unnamed module: its options then stand directly under the loop's name."""
    first = loop.body.parts[0]
    return first if len(loop.body) == 1 and isinstance(first, Layers) and not first.name else None


def _apply_part(part: Part, settings: Any) -> Part:
    if isinstance(part, Layers):
        names = {field.name for field in fields(settings)} & set(LAYER_HELP)
        return replace(part, **{name: getattr(settings, name) for name in names})
    if isinstance(part, Parallel):
        branches = [
            apply_settings(branch, getattr(settings, f"branch{number}"))
            for number, branch in enumerate(part.branches)
        ]
        return Parallel(*branches, name=part.name)
    alone = _only_layers(part)
    body = Program(_apply_part(alone, settings)) if alone is not None else apply_settings(part.body, settings)
    return Loop(body, steps=settings.steps, inject=settings.inject, name=part.name)
