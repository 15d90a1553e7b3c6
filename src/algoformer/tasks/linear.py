"""Linear regression prompts."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Int
from torch import Tensor

from algoformer.problems import Problems, pairs
from algoformer.prompt import Prompt
from algoformer.tasks.checks import MAX_DIM, check_count, check_spread
from algoformer.tasks.draw import mask_dims, normal
from algoformer.tasks.pair_task import PairTask


@dataclass(frozen=True, kw_only=True)
class LinearRegression(PairTask):
    """y = <w, x> + noise; x and w standard normal, w drawn afresh for each prompt.

    The noise is on the labels that are shown and on the targets alike; `clean` is free of it. One seed
    gives the same x and w at every noise level.

    >>> prompt = LinearRegression(dim=3, points=5).sample(2, generator=torch.Generator().manual_seed(0))
    >>> prompt.rows.shape, prompt.targets.shape
    (torch.Size([2, 10, 3]), torch.Size([2, 5, 1]))
    """

    def __post_init__(self) -> None:
        check_count("dim", self.dim, most=MAX_DIM)
        check_count("points", self.points)
        check_spread("noise", self.noise)

    @property
    def takes_dims(self) -> bool:
        """Fewer coordinates are an easier task of the same kind."""
        return True

    def sample(
        self,
        batch: int,
        *,
        generator: torch.Generator,
        dtype: torch.dtype = torch.float32,
        active_dims: int | Int[Tensor, ""] | None = None,
    ) -> Prompt:
        """Draw `batch` prompts on the generator's device; the generator alone decides which."""
        xs = mask_dims(normal(batch, self.points, self.dim, generator=generator, dtype=dtype), active_dims)
        weights = normal(batch, self.dim, 1, generator=generator, dtype=dtype)
        clean = xs @ weights
        noise = self.noise * normal(batch, self.points, 1, generator=generator, dtype=dtype)
        return Prompt.of_pairs(xs, clean + noise, clean=clean)

    def problems(self, prompt: Prompt) -> Problems:
        """Return the (x, y) pairs."""
        return pairs(prompt)
