"""The protocol of tasks."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Int
from torch import Tensor

from algoformer.problems import Problems
from algoformer.prompt import Prompt


@runtime_checkable
class Task(Protocol):
    """A distribution over prompts that also names the regression problems inside them."""

    @property
    def dim(self) -> int:
        """The number of coordinates of a row."""
        ...

    @property
    def points(self) -> int:
        """The number of samples in a prompt, including the last query: 41 are 40 examples and a query."""
        ...

    @property
    def out(self) -> int:
        """The number of coordinates of an answer."""
        ...

    @property
    def context(self) -> int:
        """The number of rows of a prompt."""
        ...

    @property
    def parts(self) -> int:
        """The number of rows of a sample."""
        ...

    @property
    def scale(self) -> float:
        """The divisor of squared errors summed over `out`; predicting zero then has error 1 in regression."""
        ...

    @property
    def noise(self) -> float:
        """The standard deviation of the noise on labels; 0 without noise."""
        ...

    @property
    def takes_dims(self) -> bool:
        """True if `sample` accepts `active_dims`: only where fewer coordinates make an easier task."""
        ...

    def sample(
        self,
        batch: int,
        *,
        generator: torch.Generator,
        dtype: torch.dtype = torch.float32,
        active_dims: int | Int[Tensor, ""] | None = None,
    ) -> Prompt:
        """Draw `batch` prompts on the generator's device, from the generator alone."""
        ...

    def problems(self, prompt: Prompt) -> Problems:
        """Return the regression problems inside `prompt`, with the task's true features."""
        ...
