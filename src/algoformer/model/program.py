"""The architecture as frozen data: layers, loops and parallel branches, nested at will."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from functools import cached_property, lru_cache
from importlib import import_module
from typing import Any, ClassVar, TypeAlias

from algoformer.common.names import check_choice
from algoformer.common.plain_data import check_count, is_number
from algoformer.common.terminal import short
from algoformer.model.halting import HALTING
from algoformer.model.injections import INJECTIONS, STARTS
from algoformer.nn import NORMS, POSITIONS
from algoformer.nn.layers import Layers as Layers
from algoformer.nn.layers import check_name


@dataclass(frozen=True)
class Loop:
    """One set of weights run `steps` times; its body is any program, so loops nest.

    With `inject="add"` the state starts at zero and the loop's input is added to it before every
    iteration; with "none" the input is the first state and is not seen again.

    Attributes:
        body: the program that runs at every iteration.
        steps: number of iterations.
        inject: how the input reaches every iteration, a name in `injections.INJECTIONS`: "add", "none",
            "gate" (learned gates), "concat" (a linear map of both) or "decay" (the state decays).
        name: for addresses and outlines; empty means the part's place in its program.
        start: the state before the first iteration, a name in `injections.STARTS`: "zeros", "input", "noise",
            "vector", or "auto" for the start that belongs to the injection.
        damp: the step size of an iteration, from the old state (0) to the body's output (1).
        step_signal: "sinusoid" adds the sinusoids of the iteration's number to the state, "none" nothing.
        halt: how the loop learns when to halt: "none", or a name in `halting.HALTING`: "gate" (an exit gate,
            Ouro) or "act" (adaptive computation time: what follows sees a weighted mean of the states).
    """

    body: Program
    steps: int
    inject: str = "add"
    name: str = ""
    start: str = "auto"
    damp: int | float = 1
    step_signal: str = "none"
    halt: str = "none"

    words: ClassVar[str] = ""
    """The words of an outline for a kind of loop of its own."""

    def __init__(
        self,
        body: Program | Part | Sequence[Part],
        steps: int,
        inject: str = "add",
        name: str = "",
        start: str = "auto",
        damp: int | float = 1,
        step_signal: str = "none",
        halt: str = "none",
    ) -> None:
        settings = {"steps": steps, "inject": inject, "name": name, "start": start, "damp": damp}
        vars(self).update(body=as_program(body), **settings, step_signal=step_signal, halt=halt)
        self._check()

    def _check(self) -> None:
        for part in self.body.parts:
            if part.name in {field.name for field in fields(self)}:
                raise ValueError(
                    f"a part inside a loop cannot be named {part.name!r}, which is a setting of the loop; "
                    "choose another name"
                )
        start_kind = self.start_kind
        inject, start = INJECTIONS.find(self.inject), STARTS.find(start_kind)
        if not (inject.sees_input or start.sees_input):
            hidden = f"with inject={self.inject!r} and start={self.start!r} a loop never sees its input"
            raise ValueError(f'{hidden}; use start="input", or inject="add"')
        check_choice("step_signal", self.step_signal, ("none", "sinusoid"))
        check_choice("halt", self.halt, ("none", *HALTING))
        if not (is_number(self.damp) and 0 < self.damp <= 1):
            raise ValueError(f"damp must be a number above 0 and at most 1, got {short(self.damp)}")
        check_count("steps", self.steps)
        check_name(self.name)

    @cached_property
    def start_kind(self) -> str:
        """The start, with "auto" resolved."""
        return INJECTIONS.find(self.inject).start if self.start == "auto" else self.start

    @cached_property
    def bodies(self) -> tuple[Program, ...]:
        """The programs inside this part: the body."""
        return (self.body,)


@dataclass(frozen=True)
class Parallel:
    """Branches that read the same stream and whose results are summed."""

    branches: tuple[Program, ...]
    name: str = ""

    def __init__(self, *branches: Program | Part | Sequence[Part], name: str = "") -> None:
        object.__setattr__(self, "branches", tuple(as_program(branch) for branch in branches))
        object.__setattr__(self, "name", name)
        if len(branches) < 2:
            raise ValueError(f"Parallel needs at least two branches, got {len(branches)}")
        check_name(name)

    @property
    def bodies(self) -> tuple[Program, ...]:
        """The programs inside this part: the branches."""
        return self.branches


Part: TypeAlias = Layers | Loop | Parallel


@dataclass(frozen=True)
class Program:
    """Parts run one after the other: the whole architecture as a value.

    >>> print(Program(Layers(1, name="pre"), Loop(Layers(1), steps=20, name="loop")))
    pre   1 layer × 8 heads
    loop  ⟲ 20 steps, inject add
      1 layer × 8 heads
    >>> Program.from_json(Program(Layers(2)).to_json()) == Program(Layers(2))
    True
    """

    parts: tuple[Part, ...]

    def __init__(self, *parts: Part) -> None:
        object.__setattr__(self, "parts", parts)
        if not parts:
            raise ValueError("a program has at least one part")
        for part in parts:
            if not isinstance(part, Part):
                raise ValueError(f"a part is Layers, Loop or Parallel, got {type(part).__name__}")
        names = [part.name for part in parts if part.name]
        twice = [name for name in names if names.count(name) > 1]
        if twice:
            raise ValueError(f"two parts of one program are both named {short(sorted(twice)[0])}")

    def __iter__(self) -> Iterator[Part]:
        return iter(self.parts)

    def __len__(self) -> int:
        return len(self.parts)

    def __str__(self) -> str:
        return "\n".join(_outline(self))

    def _repr_svg_(self) -> str:
        """Return the program as a picture, which notebooks show."""
        return import_module("algoformer.report.diagram").diagram(self)

    def to_json(self) -> str:
        """Return the program as JSON text."""
        return json.dumps(to_data(self))

    @classmethod
    def from_json(cls, text: str) -> Program:
        """Read a program back; anything that is not one raises ValueError."""
        try:
            data = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise ValueError(f"a program must be JSON: {error}") from None
        return import_module("algoformer.model.read_program").from_data(data)


def as_program(body: Program | Part | Sequence[Part]) -> Program:
    """A program from a program, a single part, or a sequence of parts."""
    if isinstance(body, Program):
        return body
    if isinstance(body, Part):
        return Program(body)
    if isinstance(body, tuple | list):
        return Program(*body)
    raise ValueError(f"a program is made of Layers, Loop and Parallel, got {type(body).__name__}")


def has_loop(part: Part) -> bool:
    """Return whether a loop stands in this part, at any depth."""
    return isinstance(part, Loop) or any(has_loop(inner) for body in part.bodies for inner in body)


@lru_cache(maxsize=256)
def modules_of(program: Program) -> tuple[Layers, ...]:
    """Return every module of layers in the program, in the order they run, each once."""
    found: list[Layers] = []
    for part in program:
        if isinstance(part, Layers):
            found.append(part)
        found += [layers for body in part.bodies for layers in modules_of(body)]
    return tuple(found)


@lru_cache(maxsize=256)
def is_causal(program: Program) -> bool:
    """Return whether every layer of the program has causal attention."""
    return all(layers.causal for layers in modules_of(program))


@lru_cache(maxsize=256)
def traced_part(program: Program) -> int | None:
    """Return which part an unroll runs: the last one with a loop. Later parts run on all its states."""
    looping = [index for index, part in enumerate(program) if has_loop(part)]
    return looping[-1] if looping else None


@lru_cache(maxsize=256)
def unrolled_loops(program: Program) -> tuple[Loop, ...]:
    """Return the loops that an unroll runs, instead of as often as they say: several in parallel branches."""
    traced = traced_part(program)
    part = None if traced is None else program.parts[traced]
    if isinstance(part, Parallel):
        return tuple(loop for branch in part.branches for loop in unrolled_loops(branch))
    return (part,) if isinstance(part, Loop) else ()


@lru_cache(maxsize=256)
def default_steps(program: Program) -> int:
    """Return how often the traced loop runs unless an unroll says otherwise; 1 without a loop."""
    return max((loop.steps for loop in unrolled_loops(program)), default=1)


@lru_cache(maxsize=256)
def halting_of(program: Program) -> str:
    """Return how the traced loop halts, a name in `halting.HALTING`; "none" without a loop of its own."""
    index = traced_part(program)
    part = None if index is None else program.parts[index]
    return part.halt if isinstance(part, Loop) else "none"


@lru_cache(maxsize=256)
def learns_to_halt(program: Program) -> bool:
    """Return whether a loop of the program, at any depth, learns when to halt."""
    return any(
        (isinstance(part, Loop) and part.halt != "none") or any(map(learns_to_halt, part.bodies))
        for part in program
    )


def _outline(program: Program, indent: str = "") -> Iterator[str]:
    broad = max(len(part.name) for part in program.parts)
    for part in program.parts:
        label = indent + (part.name.ljust(broad) + "  " if broad else "")
        if isinstance(part, Layers):
            yield label + describe_layers(part)
        elif isinstance(part, Loop):
            yield label + describe_loop(part)
            yield from _outline(part.body, indent + "  ")
        else:
            yield f"{label}∥ {len(part.branches)} branches, summed"
            for number, branch in enumerate(part.branches, start=1):
                yield f"{indent}  branch {number}"
                yield from _outline(branch, indent + "    ")


def describe_layers(layers: Layers) -> str:
    """Describe layers in one line: their number and heads, and what differs from the trained default."""
    text = f"{layers.count} layer{'' if layers.count == 1 else 's'}"
    if layers.count:
        text += f" × {layers.heads} head{'' if layers.heads == 1 else 's'}"
    words = {
        "causal": "full attention",
        "norm": NORMS[layers.norm].outline,
        "norm_at": f"norms {layers.norm_at.replace('+', ' and ')}",
        "qk_norm": f"QK norm {layers.qk_norm}",
        "scaled": "unscaled scores",
        "bias": "QKV bias only" if layers.bias == "qkv" else "no bias",
        "output_gate": "gated heads",
        "positions": POSITIONS[layers.positions].outline,
        "final_norm": "no final norm",
    }
    known = words if layers.count else ("norm", "positions", "final_norm")
    notes = [words[name] for name in known if getattr(layers, name) != getattr(Layers, name)]
    if layers.count:
        gated = "gated " if layers.gated else ""
        notes += [gated + layers.activation] if gated or layers.activation != Layers.activation else []
        notes += [f"{layers.kv_heads} KV heads"] if layers.kv_heads is not None else []
        notes += [f"heads {layers.head_width} wide"] if layers.head_width is not None else []
        notes += [f"hidden {layers.hidden}"] if layers.hidden is not None else []
    return ", ".join([text, *notes])


def describe_loop(loop: Loop) -> str:
    """Describe a loop in one line: its steps and injection, and what differs from the default."""
    text = f"⟲ {loop.steps} step{'' if loop.steps == 1 else 's'}, inject {loop.inject}"
    text += loop.words
    text += "" if loop.start == "auto" else f", start {loop.start}"
    text += "" if loop.damp == 1 else f", damp {loop.damp:g}"
    text += "" if loop.step_signal == "none" else f", {loop.step_signal} of the step added"
    return text if loop.halt == "none" else text + HALTING[loop.halt].outline


def to_data(program: Program) -> list[dict[str, Any]]:
    """The program as lists, dicts, strings and numbers."""
    return [_part_data(part) for part in program]


def _part_data(part: Part) -> dict[str, Any]:
    data: dict[str, Any] = {"part": type(part).__name__.lower()}
    if isinstance(part, Layers):
        return data | {item.name: getattr(part, item.name) for item in fields(part)}
    if isinstance(part, Loop):
        data |= {item.name: getattr(part, item.name) for item in fields(part) if item.name != "body"}
        return data | {"body": to_data(part.body)}
    return data | {"name": part.name, "branches": [to_data(branch) for branch in part.branches]}
