"""Linear regression in which some labels are grossly wrong."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Int
from torch import Tensor

from algoformer.common.terminal import short
from algoformer.problems import Problems, pairs
from algoformer.prompt import Prompt
from algoformer.tasks.checks import MAX_DIM, check_count, check_positive, check_spread, is_number
from algoformer.tasks.draw import mask_dims, normal
from algoformer.tasks.pair_task import PairTask


@dataclass(frozen=True, kw_only=True)
class RobustRegression(PairTask):
    """y = <w, x> + noise, but each label is shown with a gross error with probability `outliers`.

    A gross error is normal with `outlier_scale` times the spread of a true label. Only the labels that
    are shown carry it: `targets` are the labels as they should have been (noise included, as everywhere) and
    `clean` those without noise, so a learner is rewarded for seeing through the outliers.
    """

    outliers: float = 0.2
    outlier_scale: float = 3.0

    def __post_init__(self) -> None:
        check_count("dim", self.dim, most=MAX_DIM)
        check_count("points", self.points)
        check_spread("noise", self.noise)
        if not (is_number(self.outliers) and 0 <= self.outliers < 1):
            raise ValueError(
                f"outliers, the share of wrong labels, must lie in [0, 1), got {short(self.outliers)}"
            )
        check_positive("outlier_scale", self.outlier_scale)

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
        gross = normal(batch, self.points, 1, generator=generator, dtype=dtype)
        chance = torch.rand(batch, self.points, 1, generator=generator, device=generator.device)
        errors = self.outlier_scale * self.dim**0.5 * gross * (chance < self.outliers)
        shown = Prompt.of_pairs(xs, clean + noise + errors)
        return Prompt(
            rows=shown.rows, targets=clean + noise, clean=clean, reads=shown.reads, parts=shown.parts
        )

    def problems(self, prompt: Prompt) -> Problems:
        """Return the (x, y) pairs as they are shown, without saying which labels are wrong."""
        return pairs(prompt)
