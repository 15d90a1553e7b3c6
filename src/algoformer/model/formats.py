"""Programs that are models of the formats which inference servers read: which are, and why others are not."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from algoformer.model.program import Layers, Loop, Part, Program, modules_of
from algoformer.model.two_states import TwoStates
from algoformer.nn import POSITIONS

MODERN: dict[str, Any] = {
    "causal": True,
    "norm": "rms",
    "norm_at": "in",
    "scaled": True,
    "activation": "silu",
    "gated": True,
    "bias": False,
    "positions": "rope",
    "qk_norm": "none",
    "output_gate": False,
}
"""The words of Llama's block."""

FORMATS: dict[str, dict[str, Any]] = {
    "llama": MODERN,
    "qwen2": {**MODERN, "bias": "qkv"},
    "qwen3": {**MODERN, "qk_norm": "head"},
    "olmo2": {**MODERN, "norm_at": "out", "qk_norm": "full"},
    "hrm_text": {**MODERN, "norm": "plain", "output_gate": True, "kv_heads": None},
    "gpt2": {**MODERN, "norm": "layer", "activation": "gelu", "gated": False, "bias": True}
    | {"positions": "learned", "kv_heads": None, "head_width": None},
}
"""The words that the layers of each format have, by the `model_type` of `transformers`."""

SHARED = ("heads", "head_width", "hidden", "rope_base", "norm_eps", "kv_heads")
"""Words that a format stores once for all layers."""


class Servable(NamedTuple):
    """The format in which a program can be exported.

    Attributes:
        format: a name in `FORMATS`; None if there is none.
        reason: why there is none; empty if there is one.
    """

    format: str | None
    reason: str = ""


def servable(program: Program) -> Servable:
    """Return the format in which servers without a plugin can run a program, or why there is none.

    A program without a loop can be a Llama, a Qwen 2 or 3, an OLMo 2 or a GPT-2. A loop of two states around
    the words of HRM-Text is an `hrm_text`. The formats have no other loops: unrolled into a Llama, a loop
    would become copies of its weights. A loop of one step counts as no loop, unless something in it has no
    place in a format: a gate, another injection than "add" or "none", a step size or a signal of the step.

    >>> from algoformer import programs
    >>> servable(programs.hrm_text(layers=2)).format
    'hrm_text'
    >>> servable(programs.looped(steps=4)).reason
    'a loop of 4 steps has no format; only TwoStates(..., inject="none") has one, hrm_text'
    """
    parts = list(_flat(program))
    if len(parts) == 1 and isinstance(parts[0], TwoStates):
        reason, choices = _why_not_hrm_text(parts[0]), ["hrm_text"]
    else:
        reason, choices = _why_not_unlooped(parts), [name for name in FORMATS if name != "hrm_text"]
    if reason:
        return Servable(None, reason)
    layers = modules_of(program)
    for word in SHARED:
        found = {getattr(each, word) for each in layers}
        if len(found) > 1:
            return Servable(None, f"all layers of a format have one {word}, the program's have several")
    missing = {name: _differences(layers, FORMATS[name]) for name in choices}
    nearest = min(missing, key=lambda name: len(missing[name]))
    if not missing[nearest]:
        return Servable(nearest)
    return Servable(None, f"the nearest format, {nearest}, has {', '.join(missing[nearest])}")


def _flat(program: Program) -> Iterator[Part]:
    """Yield the parts, those of loops of one step among them."""
    for part in program:
        if type(part) is Loop and part.steps == 1 and not _without_a_place(part):
            yield from _flat(part.bodies[0])
        else:
            yield part


def _without_a_place(loop: Loop) -> list[str]:
    """Return the settings by which a loop of one step is more than its body run once."""
    kept: list[str] = []
    # with one step, adding the input to zeros and starting from the input are the same
    if (loop.inject, loop.start_kind) not in (("none", "input"), ("add", "zeros")):
        kept = [f"inject={loop.inject!r}", f"start={loop.start_kind!r}"]
    none = {"damp": 1, "step_signal": "none", "halt": "none"}
    return kept + [f"{word}={getattr(loop, word)!r}" for word in none if getattr(loop, word) != none[word]]


def _why_not_hrm_text(loop: TwoStates) -> str:
    if loop.inject != "none" or loop.start_kind != "input":
        return "the loop of hrm_text has inject='none' and starts from the input"
    low = loop.body.parts[0]
    if isinstance(low, Loop) and low.damp != 1:
        return f"the low network of hrm_text has no damp, got damp={low.damp!r}"
    bodies = [loop.body.parts[0].bodies[0].parts, loop.body.parts[1:]]
    stacks = [body[0] for body in bodies if len(body) == 1 and isinstance(body[0], Layers)]
    equal = len(stacks) == 2 and stacks[0].count == stacks[1].count > 0
    if not equal or not all(stack.final_norm for stack in stacks):
        return "hrm_text has two stacks of equally many layers, each with a final norm"
    return ""


def _why_not_unlooped(parts: list[Part]) -> str:
    for part in parts:
        if type(part) is Loop and part.steps == 1:
            kept = ", ".join(_without_a_place(part))
            return f"a loop of 1 step has no format with {kept}; without it, it counts as no loop"
        if isinstance(part, Loop):
            what = f"a loop of {part.steps} step{'' if part.steps == 1 else 's'}"
            return f'{what} has no format; only TwoStates(..., inject="none") has one, hrm_text'
        if not isinstance(part, Layers):
            return "parallel branches have no format"
    stack = [part for part in parts if isinstance(part, Layers)]
    if [part.final_norm for part in stack] != [False] * (len(stack) - 1) + [True]:
        return "the formats have one final norm, behind the last layer"
    if any(part.adds_positions for part in stack[1:]):
        return "the formats add positions before the first layer only"
    if not stack[0].count or not stack[-1].count:
        return "the first and the last part need layers"
    return ""


def _differences(layers: tuple[Layers, ...], words: dict[str, Any]) -> list[str]:
    """Return the words that a format has and that some layers have not."""
    found = []
    for word, value in words.items():
        here = [getattr(each, word) for each in layers]
        if word == "positions" and POSITIONS[value].added is not None:
            here = here[:1]  # later modules of the stack add none
        if any(one != value for one in here):
            found.append(f"{word}={value!r}")
    return found
