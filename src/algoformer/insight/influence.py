"""The influence of each example on the answers."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from algoformer.insight.answers import Reader
from algoformer.insight.contexts import Contexts, derivative

_DISTURBANCE = 0.1
"""The change of one label, relative to the labels' root mean square."""


@dataclass(frozen=True, kw_only=True)
class Influence:
    """The mean squared derivative of an answer with respect to each label.

    Attributes:
        by_pass: (step, sample), of the solver after each pass.
        least_squares: (sample,), of least squares on the same prompts.
    """

    by_pass: Tensor
    least_squares: Tensor

    def rests_on(self, index: int) -> int:
        """Return the smallest number of first examples that have 98 % of the influence."""
        total = self.by_pass[index].cumsum(0) / self.by_pass[index].sum().clamp(min=1e-300)
        return min(int((total < 0.98).sum()) + 1, len(total))

    def importance(self, index: int) -> Tensor:
        """Return position weights p_i: in weighted least squares ∂w/∂y_i is proportional to p_i."""
        ratio = (self.by_pass[index] / self.least_squares.clamp(min=1e-300)).sqrt()
        return (ratio / ratio.max().clamp(min=1e-300)).clamp(min=1e-4)


def measure_influence(read: Reader, contexts: Contexts, *, steps: int, queries: int = 24) -> Influence:
    """Disturb one label at a time and read how far the answers move."""
    contexts = contexts.with_queries(contexts.query_rows[:, :queries])
    batch, samples, _ = contexts.labels.shape
    size = _DISTURBANCE * float(contexts.labels.square().mean().sqrt())
    changes = size * torch.eye(samples, dtype=contexts.labels.dtype)[None, :, :, None]
    changes = torch.cat([torch.zeros_like(changes[:, :1]), changes], dim=1)  # the first changes nothing
    labels = (contexts.labels[:, None] + changes).flatten(0, 1)
    repeated = contexts.repeated(samples + 1).with_labels(labels)
    answers = read(repeated, steps).unflatten(1, (batch, samples + 1))  # (step, batch, sample, query, out)
    moved = (answers[:, :, 1:] - answers[:, :, :1]) / size
    exact = contexts.query_features @ torch.linalg.pinv(contexts.features)  # (batch, query, sample)
    slope = derivative(contexts.link, exact @ contexts.labels.double())  # (batch, query, out)
    return Influence(
        by_pass=moved.square().mean((1, 3, 4)),
        least_squares=(exact.square() * slope.square().mean(-1, keepdim=True)).mean((0, 1)),
    )


def foreign_labels(read: Reader, contexts: Contexts, *, steps: int, first: int) -> tuple[float, float]:
    """Return how far answers move when labels from example `first` on come from other weights.

    The first number is the solver's mean squared change after the last pass, the second that of least
    squares, both relative to the mean square of a label as it is shown.
    """
    contexts = contexts.with_queries(contexts.query_rows[:, :16])
    inverse = torch.linalg.pinv(contexts.features)
    labels = contexts.labels.double()
    other = contexts.features @ (inverse @ labels).roll(1, 0)
    mixed = torch.cat([labels[:, :first], other[:, first:]], dim=1)
    before, after = (read(contexts.with_labels(shown), steps)[-1] for shown in (labels, mixed))
    solved = (contexts.link(contexts.query_features @ (inverse @ shown)) for shown in (labels, mixed))
    exact = next(solved) - next(solved)
    scale = contexts.link(labels).square().mean()
    return float((after - before).square().mean() / scale), float(exact.square().mean() / scale)
