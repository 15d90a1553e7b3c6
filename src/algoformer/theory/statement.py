"""A statement of the paper, its claim about size, and how far its weights are from the algorithm."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from algoformer.model import AlgoFormer
from algoformer.nn import Layer
from algoformer.prompt import Prompt
from algoformer.theory.blueprint import layers_module
from algoformer.theory.checks import check_counts
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
        steps = 1 if self.steps is None else self.steps
        check_counts(dim=self.dim, examples=self.examples, prompts=self.prompts, steps=steps)

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
class Inside:
    """A comparison of the state after each step (`read`) with the textbook's (`iterates`)."""

    read: Callable[[Tensor, Prompt], Tensor]
    iterates: Callable[[Prompt], Iterator[Tensor]]


@dataclass(frozen=True, kw_only=True)
class Case:
    """A model, prompts for it, and the textbook solver it must agree with at each of `steps` steps.

    Attributes:
        passes: the loop's iterations per textbook step.
        inside: the comparison of the loop's states, where the answers alone are not enough.
    """

    model: AlgoFormer
    textbook: Solver
    prompts: Sequence[Prompt]
    steps: int
    passes: int = 1
    inside: Inside | None = None

    @torch.no_grad()
    def measure(self) -> Measurement:
        """Return the largest deviation over every prompt, question and step; NaN counts as infinite."""
        worst = 0.0
        for prompt in self.prompts:
            for start in range(0, prompt.batch, _PROMPTS_AT_ONCE):
                for gap in self._gaps(prompt.select(slice(start, start + _PROMPTS_AT_ONCE))):
                    worst = max(worst, gap.abs().nan_to_num(nan=torch.inf).max().item())
        return Measurement(
            deviation=worst,
            steps=self.steps * self.passes,
            width=self.model.width,
            dtype=self.model.read_out.weight.dtype,
            counted=count_modules(self.model),
        )

    def _gaps(self, prompt: Prompt) -> Iterator[Tensor]:
        ends = [f"loop[{step * self.passes}]" for step in range(1, self.steps + 1)]
        unroll = Unroll(steps=self.steps * self.passes, keep=() if self.inside is None else tuple(ends))
        trace = self.model(prompt, unroll)
        answers = trace.predictions[self.passes - 1 :: self.passes]
        yield answers - self.textbook(prompt, Unroll(steps=self.steps)).predictions
        if self.inside is not None:
            for end, expected in zip(ends, self.inside.iterates(prompt), strict=False):
                yield self.inside.read(trace.states[end], prompt) - expected


@dataclass(frozen=True, kw_only=True)
class Statement:
    """One row of the table of theorems.

    Attributes:
        name: its name on the command line.
        reference: its place in the paper, or a remark that it goes beyond the paper.
        textbook: the algorithm that it is compared with.
        claimed: the layers and heads that the paper allows, by module.
        case: the model of a verification, its prompts and its textbook, or what was measured without a model.
    """

    name: str
    reference: str
    textbook: str
    claimed: Modules
    case: Callable[[Sizes], Case | Measurement]


def count_modules(model: AlgoFormer) -> Modules:
    """Count the layers and heads of each module from its weights.

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
