"""Regression that sees through outliers, as a loop within a loop."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from algoformer.algorithms.prefixes import Method, Prefixes, spectrum_of


@dataclass(frozen=True, kw_only=True)
class IterativelyReweighted(Method):
    """Minimize Σ |y_j - <w, f_j>|^power by weighted least squares, again and again.

    Each outer step gives pair j the importance (r_j² + ε²)^(power/2 - 1), r_j being its residual so far,
    and the inner loop then solves the weighted problem: exactly (`inner_steps=None`) or by that many
    gradient steps of size 1/λ_max from where the last outer step ended, in float64 either way. Step t of
    the trace is outer step t; in the first all pairs count alike. ε starts at the root mean square of the
    labels and shrinks by `shrink` at every outer step down to `floor` times its start, which keeps the
    early steps from trusting their own outliers too much. Power 1 is least absolute deviations; below 1
    finds the answer with more outliers, though the problem is no longer convex.
    """

    power: float = 0.5
    shrink: float = 0.5
    floor: float = 1e-4
    inner_steps: int | None = None
    in_float64: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not 0 <= self.power < 2:
            raise ValueError(f"power must lie in [0, 2) (at 2 nothing is reweighted), got {self.power}")
        if not 0 < self.shrink <= 1:
            raise ValueError(f"shrink must lie in (0, 1], got {self.shrink}")
        if not (math.isfinite(self.floor) and 0 < self.floor <= 1):
            raise ValueError(f"floor must lie in (0, 1], got {self.floor}")
        if self.inner_steps is not None and self.inner_steps < 1:
            raise ValueError(f"inner_steps must be at least 1, or None (exact); got {self.inner_steps}")

    def iterates(self, prefixes: Prefixes) -> Iterator[Tensor]:
        """Yield the weights after each outer step, without end."""
        features, labels = prefixes.features_seen(), prefixes.labels_seen()
        seen = prefixes.seen.to(features.dtype)  # (point, sample)
        energy = labels.square().sum(dim=(-2, -1)) / prefixes.divisor[:, 0, 0]
        start = energy.where(energy > 0, torch.ones_like(energy))[..., None]
        weights, importance, share = torch.zeros_like(prefixes.cross), seen.expand(features.shape[:-1]), 1.0
        while True:
            weights = self._solve(features, labels, importance, weights)
            yield weights
            residual = (labels - features @ weights).square().sum(dim=-1)  # (batch, point, sample)
            # relative to the start, so that the largest importance stays near 1 while ε is large
            importance = seen * (residual / start + share**2) ** (self.power / 2 - 1)
            share = max(self.floor, share * self.shrink)

    def _solve(self, features: Tensor, labels: Tensor, importance: Tensor, weights: Tensor) -> Tensor:
        weighted = features * importance[..., None]
        gram, cross = weighted.mT @ features, weighted.mT @ labels
        spectrum = spectrum_of(gram)
        if self.inner_steps is None:
            return spectrum.minimum_norm(cross)
        step_size = spectrum.largest.reciprocal()[..., None, None]
        for _ in range(self.inner_steps):
            weights = weights - step_size * (gram @ weights - cross)
        return weights
