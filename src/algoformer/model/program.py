"""The architecture as frozen data: layers, loops and parallel branches, nested at will."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import lru_cache
from importlib import import_module
from typing import Any, TypeAlias

from algoformer.common.names import check_choice
from algoformer.common.terminal import short
from algoformer.model.halting import HALTING
from algoformer.model.injections import INJECTIONS, STARTS
from algoformer.nn.layers import Layers as Layers
from algoformer.nn.layers import check_count as check_count
from algoformer.nn.layers import check_name

Injection: TypeAlias = str
"""A name in the table `INJECTIONS`: how a loop's input reaches each iteration."""


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
        damp: the share of the way that an iteration moves the state; 1 means all of it.
        step_signal: "sinusoid" adds the sinusoids of the iteration's number to the state, "none" nothing.
        halt: how the loop learns when to halt, a name in `halting.HALTING`: "none", "gate" (an exit gate,
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
        check_count("steps", self.steps, 1)
        if not isinstance(self.inject, str) or self.inject not in INJECTIONS:
            INJECTIONS.name_of(self.inject)  # refuses it, and names those that exist
        if self.start != "auto":
            STARTS.name_of(self.start)
        damp = self.damp
        if isinstance(damp, bool) or not isinstance(damp, int | float) or not 0 < damp <= 1:
            raise ValueError(f"damp must be a number above 0 and at most 1, got {short(damp)}")
        if self.step_signal not in ("none", "sinusoid"):
            check_choice("step_signal", self.step_signal, ("none", "sinusoid"))
        if not isinstance(self.halt, str) or self.halt not in HALTING:
            check_choice("halt", self.halt, tuple(HALTING))
        check_name(self.name)
        for part in self.body:
            if part.name in {field.name for field in fields(self)}:
                raise ValueError(
                    f"a part inside a loop cannot be named {part.name!r}, which is a setting of the loop; "
                    "choose another name"
                )

    @property
    def start_kind(self) -> str:
        """The start, with "auto" resolved."""
        return INJECTIONS[self.inject].start if self.start == "auto" else self.start

    @property
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
        names = Counter(part.name for part in parts if part.name)
        twice = [name for name, times in names.items() if times > 1]
        if twice:
            raise ValueError(f"two parts of one program are both named {short(sorted(twice)[0])}")

    def __iter__(self) -> Iterator[Part]:
        return iter(self.parts)

    def __len__(self) -> int:
        return len(self.parts)

    def __str__(self) -> str:
        text: str = import_module("algoformer.model.outline").outline(self)
        return text

    def _repr_svg_(self) -> str:
        """Return the program as a picture, which notebooks show."""
        svg: str = import_module("algoformer.report.diagram").diagram(self)
        return svg

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
        return from_data(data)


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


def default_steps(program: Program) -> int:
    """Return how often the traced loop runs unless an unroll says otherwise; 1 without a loop."""
    return max((loop.steps for loop in unrolled_loops(program)), default=1)


@lru_cache(maxsize=256)
def halting_of(program: Program) -> str:
    """Return how the traced loop halts, a name in `halting.HALTING`; "none" without a loop of its own."""
    index = traced_part(program)
    part = None if index is None else program.parts[index]
    return part.halt if isinstance(part, Loop) else "none"


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


def from_data(data: object, *, depth: int = 0) -> Program:
    """Read what `to_data` wrote; unknown parts and fields raise ValueError."""
    if not isinstance(data, list):
        raise ValueError(f"a program is a list of parts, got {type(data).__name__}")
    if depth > 50:
        raise ValueError("a program nested more than 50 deep is not read")
    return Program(*(_part_from(item, depth) for item in data))


def _part_from(data: object, depth: int) -> Part:
    if not isinstance(data, Mapping):
        raise ValueError(f"a part is an object with the key 'part', got {type(data).__name__}")
    rest = dict(data)
    kind = rest.pop("part", None)
    from algoformer.model.two_states import TwoStates  # a Loop, and so defined after it

    known = {"layers": Layers, "loop": Loop, "twostates": TwoStates, "parallel": Parallel}
    if not isinstance(kind, str) or kind not in known:
        raise ValueError(f"a part is one of {', '.join(known)}, got {short(kind)}")
    allowed = {item.name for item in fields(known[kind])}
    strange = sorted(set(rest) - allowed)
    if strange:
        raise ValueError(f"{kind} has no field {short(strange[0])}; it has {', '.join(sorted(allowed))}")
    try:
        if kind == "parallel":
            branches = [from_data(branch, depth=depth + 1) for branch in rest.pop("branches")]
            return Parallel(*branches, **rest)
        if kind != "layers":
            rest["body"] = from_data(rest["body"], depth=depth + 1)
        return known[kind](**rest)
    except (TypeError, KeyError) as error:
        raise ValueError(f"{kind} cannot be read: {str(error)[:300]}") from None
