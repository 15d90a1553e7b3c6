"""Chain of thought through the layers of a random network."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn.functional import leaky_relu

from algoformer.common.plain_data import check_count
from algoformer.problems import Problems
from algoformer.prompt import Prompt
from algoformer.tasks.task import MAX_LAYERS, StateTask, check_slope, normal


@dataclass(frozen=True, kw_only=True)
class ChainOfThought(StateTask):
    """s_0 = x, s_l = leaky ReLU(W_l s_{l-1}); each sample shows x, s_1, ..., s_L, and every s_l is asked for.

    The W_l are drawn afresh for each prompt, normal with variance 2 / ((1 + slope²) dim), so that the
    states keep mean square 1 through all layers. The answer s_{l+1} is read at the row of s_l.

    Attributes:
        layers: the number of layers, and so of the states after x.
        slope: the slope of the leaky ReLU below zero.

    >>> prompt = ChainOfThought().sample(2, generator=torch.Generator().manual_seed(0))
    >>> prompt.rows.shape, prompt.points
    (torch.Size([2, 287, 20]), 246)
    """

    layers: int = 6
    slope: float = 0.01

    noise: ClassVar[float] = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_count("layers", self.layers, most=MAX_LAYERS)
        check_slope(self.slope)

    @property
    def context(self) -> int:
        """The number of rows of a prompt."""
        return self.parts * self.points

    @property
    def parts(self) -> int:
        """The number of rows of a sample: x and a state for each layer."""
        return self.layers + 1

    def _draw(self, batch: int, generator: torch.Generator, dtype: torch.dtype) -> Prompt:
        states = [normal(batch, self.points, self.dim, generator=generator, dtype=dtype)]
        weights = normal(self.layers, batch, self.dim, self.dim, generator=generator, dtype=dtype)
        weights = weights * (2 / ((1 + self.slope**2) * self.dim)) ** 0.5
        for weight in weights:
            states.append(leaky_relu(states[-1] @ weight, negative_slope=self.slope))
        samples = torch.stack(states, dim=2)  # (batch, sample, part, dim)
        targets = samples[:, :, 1:].flatten(1, 2)
        reads = tuple(row for row in range(self.context) if row % self.parts < self.layers)
        return Prompt(
            rows=samples.flatten(1, 2), targets=targets, clean=targets, reads=reads, parts=self.parts
        )

    def problems(self, prompt: Prompt) -> Problems:
        """Return one problem per layer: regression of the unfolded next state on the state.

        The leaky ReLU is one to one, so its inverse turns each layer into linear regression.
        """
        if prompt.parts != self.parts:
            raise ValueError(
                f"a chain of layers={self.layers} has samples of {self.parts} rows, got {prompt.parts}"
            )
        states = torch.stack([prompt.part(index) for index in range(self.parts)], dim=1)
        return Problems(
            features=states[:, :-1],
            labels=self._unfold(states[:, 1:]),
            questions=tuple((row % self.parts, row // self.parts) for row in prompt.reads),
            link=self._fold,
            unlink=self._unfold,
        )

    def _fold(self, values: Tensor) -> Tensor:
        return leaky_relu(values, negative_slope=self.slope)

    def _unfold(self, states: Tensor) -> Tensor:
        return leaky_relu(states, negative_slope=1 / self.slope)
