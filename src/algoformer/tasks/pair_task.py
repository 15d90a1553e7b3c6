"""The base class of regression tasks whose prompts are (x, y) pairs with scalar labels."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar

import torch
from jaxtyping import Float, Int
from torch import Tensor

from algoformer.problems import Problems, pairs
from algoformer.prompt import Prompt
from algoformer.tasks.checks import MAX_DIM, check_count, check_spread
from algoformer.tasks.draw import mask_dims, normal, refuse_dims


@dataclass(frozen=True, kw_only=True)
class PairTask:
    """y = <w, features(x)> + noise, with x and w standard normal and w drawn afresh for each prompt.

    The noise is on the labels that are shown and on the targets alike; `clean` is free of it. One seed
    gives the same x and w at every noise level.
    """

    dim: int = 20
    points: int = 41
    noise: float = 0.0

    out: ClassVar[int] = 1
    parts: ClassVar[int] = 2
    takes_dims: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_count("dim", self.dim, most=MAX_DIM)
        check_count("points", self.points)
        check_spread("noise", self.noise)

    @property
    def context(self) -> int:
        """The number of rows of a prompt."""
        return self.parts * self.points

    @property
    def scale(self) -> float:
        """The variance of a label without its errors."""
        return float(self.dim)

    def features(self, xs: Float[Tensor, "*batch dim"]) -> Float[Tensor, "*batch dim"]:
        """Return the features that labels are linear in: here x itself."""
        return xs

    def sample(
        self,
        batch: int,
        *,
        generator: torch.Generator,
        dtype: torch.dtype = torch.float32,
        active_dims: int | Int[Tensor, ""] | None = None,
    ) -> Prompt:
        """Draw `batch` prompts on the generator's device; the generator alone decides which."""
        if not self.takes_dims:
            refuse_dims(active_dims)
        draw = partial(normal, generator=generator, dtype=dtype)
        xs = mask_dims(draw(batch, self.points, self.dim), active_dims)
        clean = self.features(xs) @ draw(batch, self.dim, 1)
        return Prompt.of_pairs(xs, clean + self.noise * draw(batch, self.points, 1), clean=clean)

    def problems(self, prompt: Prompt) -> Problems:
        """Return the pairs (features(x), y): a linear regression."""
        raw = pairs(prompt)
        return replace(raw, features=self.features(raw.features))
