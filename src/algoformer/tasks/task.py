"""What every distribution over prompts offers."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Int
from torch import Tensor

from algoformer.problems import Problems
from algoformer.prompt import Prompt


@runtime_checkable
class Task(Protocol):
    """A distribution over prompts: it draws them, and it knows which regression problems hide in them."""

    @property
    def dim(self) -> int:
        """Numbers in a row."""
        ...

    @property
    def points(self) -> int:
        """Samples in a prompt, the last query among them: 41 are 40 examples and one query."""
        ...

    @property
    def out(self) -> int:
        """Numbers in an answer."""
        ...

    @property
    def context(self) -> int:
        """Rows in a prompt."""
        ...

    @property
    def parts(self) -> int:
        """Rows in a sample."""
        ...

    @property
    def scale(self) -> float:
        """Divide a squared error, summed over `out`, by this; in regression, predicting zero then costs 1."""
        ...

    @property
    def noise(self) -> float:
        """Standard deviation of the noise on labels; 0 where there is none."""
        ...

    @property
    def takes_dims(self) -> bool:
        """Whether `sample` accepts `active_dims`: only where fewer coordinates make an easier task."""
        ...

    def sample(
        self,
        batch: int,
        *,
        generator: torch.Generator,
        dtype: torch.dtype = torch.float32,
        active_dims: int | Int[Tensor, ""] | None = None,
    ) -> Prompt:
        """Draw `batch` prompts on the generator's device; the generator alone decides which."""
        ...

    def problems(self, prompt: Prompt) -> Problems:
        """The regression problems inside `prompt`, seen with everything the task's maker knows."""
        ...
