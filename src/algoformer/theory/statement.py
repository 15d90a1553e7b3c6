"""A statement of the paper, its claim about size, and how far its weights are from the algorithm."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import torch

from algoformer.model import AlgoFormer
from algoformer.nn import Layer
from algoformer.prompt import Prompt
from algoformer.theory.blueprint import layers_module
from algoformer.theory.constants import DOUBLE, Constants
from algoformer.trace import Solver, Unroll

Modules = Mapping[str, tuple[int, int]]
"""Layers and heads of each module: {"pre": (4, 2), "loop": (1, 2), "post": (1, 1)}."""

_PROMPTS_AT_ONCE = 16
"""All states of a run are held at once: 16 prompts of 82 tokens over 200 steps are 130 MiB."""


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """The sizes of a verification; `steps=None` means the statement's own number."""

    dim: int = 20
    examples: int = 40
    prompts: int = 64
    steps: int | None = None
    seed: int = 0
    constants: Constants = DOUBLE

    def __post_init__(self) -> None:
        for name in ("dim", "examples", "prompts"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}")
        if self.steps is not None and self.steps < 1:
            raise ValueError(f"steps must be at least 1, got {self.steps}")

    def generator(self) -> torch.Generator:
        """Return the generator that random prompts are drawn from."""
        return torch.Generator().manual_seed(self.seed)


@dataclass(frozen=True, kw_only=True)
class Measurement:
    """The largest deviation from the textbook over all prompts and steps, with the size of the model."""

    deviation: float
    steps: int
    width: int
    dtype: torch.dtype
    counted: Modules = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Case:
    """A model, prompts for it, and the textbook solver it must agree with at each of `steps` steps."""

    model: AlgoFormer
    textbook: Solver
    prompts: Sequence[Prompt]
    steps: int

    def measure(self) -> Measurement:
        """Run both on all prompts and compare."""
        deviation = max(
            largest_deviation(self.model, self.textbook, prompt, self.steps) for prompt in self.prompts
        )
        return measured(self.model, deviation, self.steps)


@dataclass(frozen=True, kw_only=True)
class Statement:
    """One row of the table of theorems.

    Attributes:
        name: on the command line.
        reference: where it stands in the paper, or that it goes beyond it.
        textbook: what it is compared with.
        claimed: layers and heads that the paper allows, by module.
        case: the model of a verification, its prompts and its textbook; None where there is no model.
        measure: how to compare, where running both on all prompts is not enough.
    """

    name: str
    reference: str
    textbook: str
    claimed: Modules
    case: Callable[[Sizes], Case] | None = None
    measure: Callable[[Sizes], Measurement] | None = None

    def measurement(self, sizes: Sizes) -> Measurement:
        """Build, run, compare."""
        if self.measure is not None:
            return self.measure(sizes)
        assert self.case is not None, f"statement {self.name} has nothing to verify"
        return self.case(sizes).measure()


def count_modules(model: AlgoFormer) -> Modules:
    """Layers and heads of each module, counted from the weights.

    All layers that exist count; a head counts if the product of its output and value matrices is not zero.
    """
    counted = {}
    for part, module in zip(model.program, model.body.parts, strict=True):
        layers = layers_module(module).layers
        if len(layers):
            counted[part.name] = (len(layers), max(count_heads(layer) for layer in layers))
    return counted


def count_heads(layer: Layer) -> int:
    """Return the number of heads of a layer whose output is not always zero."""
    attention = layer.attention
    values = attention.qkv.weight.view(3, attention.heads, attention.head_width, -1)[2]
    outputs = attention.output.weight.view(-1, attention.heads, attention.head_width)
    products = torch.einsum("whk,hkv->hwv", outputs, values)
    return int((products != 0).flatten(1).any(1).sum())


def within(counted: Modules, claimed: Modules) -> bool:
    """Return whether no module has more layers or heads than claimed."""
    return all(
        name in claimed and layers <= claimed[name][0] and heads <= claimed[name][1]
        for name, (layers, heads) in counted.items()
    )


@torch.no_grad()
def largest_deviation(model: Solver, textbook: Solver, prompt: Prompt, steps: int) -> float:
    """max |model - textbook| over every prompt, question, coordinate and step 1..steps; NaN counts as ∞."""
    worst = 0.0
    for start in range(0, prompt.batch, _PROMPTS_AT_ONCE):
        chunk = prompt.select(slice(start, start + _PROMPTS_AT_ONCE))
        unroll = Unroll(steps=steps)
        gaps = (model(chunk, unroll).predictions - textbook(chunk, unroll).predictions).abs()
        worst = max(worst, gaps.nan_to_num(nan=torch.inf).max().item())
    return worst


def measured(model: AlgoFormer, deviation: float, steps: int) -> Measurement:
    """Return a measurement of a model, with its size counted."""
    return Measurement(
        deviation=deviation,
        steps=steps,
        width=model.width,
        dtype=model.read_out.weight.dtype,
        counted=count_modules(model),
    )
