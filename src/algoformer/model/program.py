"""The architecture as frozen data: layers, loops and parallel branches, nested at will."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal, TypeAlias, get_args

Injection = Literal["add", "none", "gate"]
"""How a loop's input reaches each iteration: added, only as the first state, or through learned gates."""

LARGEST = 1_000_000
"""No count in a program may exceed this: a guard against a mangled or hostile file, not a limit of taste."""


def _check_count(name: str, value: object, least: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool):
        raise ValueError(f"{name} must be a whole number, got {value!r}")
    if not least <= value <= LARGEST:
        raise ValueError(f"{name} must lie in {least}..{LARGEST}, got {value}")


def _check_name(name: object) -> None:
    if not isinstance(name, str) or (name and not name.replace("_", "").isalpha()):
        raise ValueError(f"a part's name is made of letters and underscores, got {name!r}")


@dataclass(frozen=True)
class Layers:
    """`count` distinct transformer layers, with positions added before them and a norm after them.

    This is one module of the paper (a pre-, looped or post-transformer). The defaults are GPT-2's block;
    `equation_one` gives the paper's Equation 1. A module without layers may still add positions or a norm.

    Attributes:
        count: how many layers.
        heads: attention heads of each layer.
        head_width: of one head; None means the stream's width divided by the heads.
        hidden: width of the feed-forward network; None means four times the stream.
        causal: whether a token sees only what comes before it.
        norm: whether layer norms stand before attention and feed-forward.
        scaled: whether scores are divided by √head_width.
        activation: "gelu" or "relu".
        bias: whether the layers' products have biases.
        positions: whether learned positions are added on entry (in a loop: at every iteration).
        final_norm: whether a layer norm stands at the end (in a loop: at every iteration).
        name: for addresses and outlines; empty means the part's place in its program.
    """

    count: int
    heads: int = 8
    head_width: int | None = None
    hidden: int | None = None
    causal: bool = True
    norm: bool = True
    scaled: bool = True
    activation: Literal["gelu", "relu"] = "gelu"
    bias: bool = True
    positions: bool = True
    final_norm: bool = True
    name: str = ""

    def __post_init__(self) -> None:
        _check_count("count", self.count, 0)
        _check_count("heads", self.heads, 1)
        if self.head_width is not None:
            _check_count("head_width", self.head_width, 1)
        if self.hidden is not None:
            _check_count("hidden", self.hidden, 1)
        if self.activation not in ("gelu", "relu"):
            raise ValueError(f"activation must be 'gelu' or 'relu', got {self.activation!r}")
        for flag in ("causal", "norm", "scaled", "bias", "positions", "final_norm"):
            if not isinstance(getattr(self, flag), bool):
                raise ValueError(f"{flag} must be true or false, got {getattr(self, flag)!r}")
        if self.count == 0 and not (self.positions or self.final_norm):
            raise ValueError("Layers(0) without positions and final_norm does nothing; leave it out")
        _check_name(self.name)


@dataclass(frozen=True)
class Loop:
    """One set of weights run `steps` times; its body is any program, so loops nest.

    With `inject="add"` the state starts at zero and the loop's input is added to it before every
    iteration; with "gate" each coordinate of both is scaled by a learned gate first; with "none" the
    input is the first state and is not seen again.
    """

    body: Program
    steps: int
    inject: Injection = "add"
    name: str = ""

    def __init__(
        self, body: Program | Part | Sequence[Part], steps: int, inject: Injection = "add", name: str = ""
    ) -> None:
        object.__setattr__(self, "body", as_program(body))
        object.__setattr__(self, "steps", steps)
        object.__setattr__(self, "inject", inject)
        object.__setattr__(self, "name", name)
        _check_count("steps", steps, 1)
        if inject not in get_args(Injection):
            raise ValueError(f"inject must be one of {', '.join(get_args(Injection))}, got {inject!r}")
        _check_name(name)


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
        _check_name(name)


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
            raise ValueError(f"two parts of one program are both named {sorted(twice)[0]!r}")

    def __iter__(self) -> Iterator[Part]:
        return iter(self.parts)

    def __len__(self) -> int:
        return len(self.parts)

    def __str__(self) -> str:
        return "\n".join(_outline(self))

    def to_json(self) -> str:
        """The program as JSON text."""
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
    """Whether a loop stands in this part, at any depth."""
    if isinstance(part, Parallel):
        return any(has_loop(inner) for branch in part.branches for inner in branch)
    return isinstance(part, Loop)


def traced_part(program: Program) -> int | None:
    """Which part an unroll runs: the last one with a loop in it. Later parts run on all its states."""
    looping = [index for index, part in enumerate(program) if has_loop(part)]
    return looping[-1] if looping else None


def default_steps(program: Program) -> int:
    """How often the traced loop runs unless an unroll says otherwise; 1 without a loop."""
    index = traced_part(program)
    if index is None:
        return 1
    part = program.parts[index]
    if isinstance(part, Loop):
        return part.steps
    assert isinstance(part, Parallel)
    return max(default_steps(branch) for branch in part.branches)


def _outline(program: Program, indent: str = "") -> Iterator[str]:
    broad = max(len(part.name) for part in program)
    for part in program:
        label = indent + (part.name.ljust(broad) + "  " if broad else "")
        if isinstance(part, Layers):
            yield label + describe_layers(part)
        elif isinstance(part, Loop):
            yield f"{label}⟲ {part.steps} step{'' if part.steps == 1 else 's'}, inject {part.inject}"
            yield from _outline(part.body, indent + "  ")
        else:
            yield f"{label}∥ {len(part.branches)} branches, summed"
            for number, branch in enumerate(part.branches, start=1):
                yield f"{indent}  branch {number}"
                yield from _outline(branch, indent + "    ")


def describe_layers(layers: Layers) -> str:
    """One line: how many layers and heads, and what differs from the trained default."""
    text = f"{layers.count} layer{'' if layers.count == 1 else 's'}"
    if layers.count:
        text += f" × {layers.heads} head{'' if layers.heads == 1 else 's'}"
    default = Layers(1)
    words = {
        "causal": "full attention",
        "norm": "no norm",
        "scaled": "unscaled scores",
        "bias": "no bias",
        "positions": "no positions",
        "final_norm": "no final norm",
    }
    notes = [word for name, word in words.items() if getattr(layers, name) != getattr(default, name)]
    notes += [f"{layers.activation}"] if layers.activation != default.activation else []
    notes += [f"heads {layers.head_width} wide"] if layers.head_width is not None else []
    notes += [f"hidden {layers.hidden}"] if layers.hidden is not None else []
    return ", ".join([text, *notes])


def to_data(program: Program) -> list[dict[str, Any]]:
    """The program as lists, dicts, strings and numbers."""
    return [_part_data(part) for part in program]


def _part_data(part: Part) -> dict[str, Any]:
    data: dict[str, Any] = {"part": type(part).__name__.lower()}
    if isinstance(part, Layers):
        return data | {item.name: getattr(part, item.name) for item in fields(part)}
    if isinstance(part, Loop):
        data |= {"steps": part.steps, "inject": part.inject, "name": part.name}
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
    known = {"layers": Layers, "loop": Loop, "parallel": Parallel}
    if not isinstance(kind, str) or kind not in known:
        raise ValueError(f"a part is one of {', '.join(known)}, got {kind!r}")
    allowed = {item.name for item in fields(known[kind])}
    strange = sorted(set(rest) - allowed)
    if strange:
        raise ValueError(f"{kind} has no field {strange[0]!r}; it has {', '.join(sorted(allowed))}")
    try:
        if kind == "layers":
            return Layers(**rest)
        if kind == "loop":
            return Loop(from_data(rest.pop("body"), depth=depth + 1), **rest)
        branches = [from_data(branch, depth=depth + 1) for branch in rest.pop("branches")]
        return Parallel(*branches, **rest)
    except (TypeError, KeyError) as error:
        raise ValueError(f"{kind} cannot be read: {error}") from None
