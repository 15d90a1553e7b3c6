"""Linear regression prompts, clean or with grossly wrong labels among those that are shown."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from algoformer.common.plain_data import is_number
from algoformer.common.terminal import short
from algoformer.prompt import Prompt
from algoformer.tasks.task import PairTask, check_positive, normal


@dataclass(frozen=True, kw_only=True)
class LinearRegression(PairTask):
    """y = <w, x> + noise; x and w standard normal, w drawn afresh for each prompt.

    >>> prompt = LinearRegression(dim=3, points=5).sample(2, generator=torch.Generator().manual_seed(0))
    >>> prompt.rows.shape, prompt.targets.shape
    (torch.Size([2, 10, 3]), torch.Size([2, 5, 1]))
    """


@dataclass(frozen=True, kw_only=True)
class RobustRegression(PairTask):
    """y = <w, x> + noise, but each label is shown with a gross error with probability `outliers`.

    A gross error is normal with `outlier_scale` times the standard deviation of a true label. Only the labels
    that are shown have it: `targets` are the labels without gross errors, and `clean` those without noise
    too, so a model is rewarded for ignoring outliers. `problems` does not say which labels are wrong.

    Attributes:
        outliers: the probability of a gross error.
        outlier_scale: the standard deviation of a gross error, in units of that of a true label.
    """

    outliers: float = 0.2
    outlier_scale: float = 3.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not (is_number(self.outliers) and 0 <= self.outliers < 1):
            raise ValueError(
                f"outliers, the share of wrong labels, must lie in [0, 1), got {short(self.outliers)}"
            )
        check_positive("outlier_scale", self.outlier_scale)

    def _prompt(self, xs: Tensor, labels: Tensor, clean: Tensor, generator: torch.Generator) -> Prompt:
        gross = normal(*labels.shape, generator=generator, dtype=labels.dtype)
        chance = torch.rand(labels.shape, generator=generator, device=generator.device)
        errors = self.outlier_scale * self.dim**0.5 * gross * (chance < self.outliers)
        return replace(Prompt.of_pairs(xs, labels + errors), targets=labels, clean=clean)
