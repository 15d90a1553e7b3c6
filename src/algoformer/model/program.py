"""The architecture as frozen data: layers, loops and parallel branches, nested at will."""

from __future__ import annotations

import json
import keyword
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, TypeAlias

from algoformer.common.names import check_choice
from algoformer.model.injections import INJECTIONS, STARTS
from algoformer.nn import ACTIVATIONS, NORMS, POSITIONS, QK_NORMS, check_places

Injection: TypeAlias = str
"""A name in the table `INJECTIONS`: how a loop's input reaches each iteration."""

LARGEST = 1_000_000
"""No count in a program may exceed this: a guard against a mangled or hostile file, not a limit of taste."""


def _check_count(name: str, value: object, least: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool):
        raise ValueError(f"{name} must be a whole number, got {value!r}")
    if not least <= value <= LARGEST:
        raise ValueError(f"{name} must lie in {least}..{LARGEST}, got {value}")


def _check_name(name: object) -> None:
    if name == "":
        return
    shown = repr(name) if len(repr(name)) <= 60 else f"{repr(name)[:60]}…"
    if not isinstance(name, str) or not (name.isascii() and name.replace("_", "").isalpha()):
        raise ValueError(f"a part's name is made of ASCII letters and underscores, got {shown}")
    if keyword.iskeyword(name) or name.startswith("__"):
        raise ValueError(f"a part cannot be named {shown}, which is a word of Python; choose another name")
    if name == "width":
        raise ValueError(
            "a part cannot be named 'width', which is a setting of the model; choose another name"
        )


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
        causal: whether a token attends only to itself and to earlier tokens.
        norm: the norm of attention and feed-forward, a name in `nn.NORMS`: "layer", "rms", "none", ...
        scaled: whether scores are divided by √head_width.
        activation: the activation of the feed-forward network, a name in `nn.ACTIVATIONS`.
        bias: whether the layers' products have biases; "qkv" gives them to queries, keys and values alone.
        positions: the positions, a name in `nn.POSITIONS`: "learned" (added on entry, in a loop at every
            iteration), "rope" (rotates queries and keys), "none", ...
        final_norm: whether a norm stands at the end (in a loop: at every iteration); it is of the same kind
            as the others, or a layer norm where there are no others.
        name: for addresses and outlines; empty means the part's place in its program.
        rope_base: base of the angles of "rope".
        norm_at: where the norms stand: "in" for f(norm(x)), "out" for x + norm(f(x)), "after" for
            norm(x + f(x)), or several, such as "in+out".
        norm_eps: what a norm adds to the mean square before it takes the root.
        kv_heads: heads of keys and values; fewer than `heads` is grouped-query attention, None means as many.
        qk_norm: the RMS norm of queries and keys: "none", over each "head", over all heads ("full"), or
            "plain", over each head without weights.
        output_gate: whether what the heads read is multiplied by the sigmoid of a linear map of the stream.
        gated: whether the feed-forward network is gated (GLU; with `activation="silu"` SwiGLU).

    Programs of older versions have true and false for `norm` and `positions`; they are still read.
    """

    count: int
    heads: int = 8
    head_width: int | None = None
    hidden: int | None = None
    causal: bool = True
    norm: str | bool = "layer"
    scaled: bool = True
    activation: str = "gelu"
    bias: bool | str = True
    positions: str | bool = "learned"
    final_norm: bool = True
    name: str = ""
    rope_base: int | float = 10_000
    norm_at: str = "in"
    norm_eps: float = 1e-5
    kv_heads: int | None = None
    qk_norm: str = "none"
    output_gate: bool = False
    gated: bool = False

    def __post_init__(self) -> None:
        _check_count("count", self.count, 0)
        _check_count("heads", self.heads, 1)
        for field in ("head_width", "hidden", "kv_heads"):
            if getattr(self, field) is not None:
                _check_count(field, getattr(self, field), 1)
        base = self.rope_base
        if isinstance(base, bool) or not isinstance(base, int | float) or not 1 < base < 1e12:
            raise ValueError(f"rope_base must be a number between 1 and 1e12, got {base!r}")
        for table in (NORMS, ACTIVATIONS, POSITIONS):
            object.__setattr__(self, table.field, table.name_of(getattr(self, table.field)))
        object.__setattr__(self, "norm_at", check_places(self.norm_at))
        check_choice("qk_norm", self.qk_norm, QK_NORMS)
        if not isinstance(self.norm_eps, int | float) or not 0 <= self.norm_eps < 1:
            raise ValueError(f"norm_eps must be a number of at least 0 and below 1, got {self.norm_eps!r}")
        if self.kv_heads is not None and self.heads % self.kv_heads:
            raise ValueError(
                f"heads must be a multiple of kv_heads, got heads={self.heads} and kv_heads={self.kv_heads}"
            )
        if not isinstance(self.bias, bool) and self.bias != "qkv":
            raise ValueError(f"bias must be true, false or 'qkv', got {self.bias!r}")
        for flag in ("causal", "scaled", "final_norm", "output_gate", "gated"):
            if not isinstance(getattr(self, flag), bool):
                raise ValueError(f"{flag} must be true or false, got {getattr(self, flag)!r}")
        if self.count == 0 and not (self.adds_positions or self.final_norm):
            raise ValueError("Layers(0) without positions and final_norm does nothing; leave it out")
        _check_name(self.name)

    @property
    def adds_positions(self) -> bool:
        """Whether positions are added to the stream on entry."""
        return POSITIONS[self.positions].added is not None

    @property
    def key_heads(self) -> int:
        """Number of heads of keys and values."""
        return self.kv_heads or self.heads

    @property
    def ends_with_norm(self) -> bool:
        """Whether the last thing done to the stream is a norm."""
        after = self.count > 0 and "after" in self.norm_at and self.norm != "none"
        return self.final_norm or after

    @property
    def final_norm_kind(self) -> str:
        """The kind of the final norm; "none" if there is none."""
        if not self.final_norm:
            return "none"
        return "layer" if self.norm == "none" else NORMS.name_of(self.norm)

    @property
    def bodies(self) -> tuple[Program, ...]:
        """The programs inside this part: none."""
        return ()


@dataclass(frozen=True)
class Loop:
    """One set of weights run `steps` times; its body is any program, so loops nest.

    With `inject="add"` the state starts at zero and the loop's input is added to it before every
    iteration; with "gate" each coordinate of both is scaled by a learned gate first; with "none" the
    input is the first state and is not seen again. `inject` is a name in `injections.INJECTIONS`, `start` one
    in `injections.STARTS`, or "auto" for the start that belongs to the injection. `damp` moves the state by
    that share of the way to what the body makes of it; 1 means all of it. `step_signal="sinusoid"` adds the
    sinusoids of the iteration's number to the state before every iteration.
    """

    body: Program
    steps: int
    inject: str = "add"
    name: str = ""
    start: str = "auto"
    damp: int | float = 1
    step_signal: str = "none"

    def __init__(
        self,
        body: Program | Part | Sequence[Part],
        steps: int,
        inject: str = "add",
        name: str = "",
        start: str = "auto",
        damp: int | float = 1,
        step_signal: str = "none",
    ) -> None:
        object.__setattr__(self, "body", as_program(body))
        object.__setattr__(self, "steps", steps)
        object.__setattr__(self, "inject", inject)
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "start", start)
        object.__setattr__(self, "damp", damp)
        object.__setattr__(self, "step_signal", step_signal)
        _check_count("steps", steps, 1)
        INJECTIONS.name_of(inject)
        if start != "auto":
            STARTS.name_of(start)
        if isinstance(damp, bool) or not isinstance(damp, int | float) or not 0 < damp <= 1:
            raise ValueError(f"damp must be a number above 0 and at most 1, got {damp!r}")
        check_choice("step_signal", step_signal, ("none", "sinusoid"))
        _check_name(name)
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
        _check_name(name)

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
    """Return whether a loop stands in this part, at any depth."""
    return isinstance(part, Loop) or any(has_loop(inner) for body in part.bodies for inner in body)


def traced_part(program: Program) -> int | None:
    """Return which part an unroll runs: the last one with a loop. Later parts run on all its states."""
    looping = [index for index, part in enumerate(program) if has_loop(part)]
    return looping[-1] if looping else None


def default_steps(program: Program) -> int:
    """Return how often the traced loop runs unless an unroll says otherwise; 1 without a loop."""
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
            yield label + describe_loop(part)
            yield from _outline(part.body, indent + "  ")
        else:
            yield f"{label}∥ {len(part.branches)} branches, summed"
            for number, branch in enumerate(part.branches, start=1):
                yield f"{indent}  branch {number}"
                yield from _outline(branch, indent + "    ")


def describe_loop(loop: Loop) -> str:
    """Describe a loop in one line: its steps and injection, and what differs from the default."""
    text = f"⟲ {loop.steps} step{'' if loop.steps == 1 else 's'}, inject {loop.inject}"
    text += "" if loop.start == "auto" else f", start {loop.start}"
    text += "" if loop.damp == 1 else f", damp {loop.damp:g}"
    return text + ("" if loop.step_signal == "none" else f", {loop.step_signal} of the step added")


def describe_layers(layers: Layers) -> str:
    """Describe layers in one line: their number and heads, and what differs from the trained default."""
    text = f"{layers.count} layer{'' if layers.count == 1 else 's'}"
    if layers.count:
        text += f" × {layers.heads} head{'' if layers.heads == 1 else 's'}"
    default = Layers(1)
    words = {
        "causal": "full attention",
        "norm": NORMS[layers.norm].outline,
        "norm_at": f"norms {layers.norm_at.replace('+', ' and ')}",
        "qk_norm": f"QK norm {layers.qk_norm}",
        "scaled": "unscaled scores",
        "bias": "bias of QKV only" if layers.bias == "qkv" else "no bias",
        "output_gate": "gated heads",
        "positions": POSITIONS[layers.positions].outline,
        "final_norm": "no final norm",
    }
    if not layers.count:
        words = {name: words[name] for name in ("norm", "positions", "final_norm")}
    notes = [word for name, word in words.items() if getattr(layers, name) != getattr(default, name)]
    if not layers.count:
        return ", ".join([text, *notes])
    gated = "gated " if layers.gated else ""
    notes += [gated + layers.activation] if gated or layers.activation != default.activation else []
    notes += [f"{layers.kv_heads} KV heads"] if layers.kv_heads is not None else []
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
