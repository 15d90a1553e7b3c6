"""Symmetries that every textbook method has: they are tested before a method may be named."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from algoformer.insight.answers import Reader
from algoformer.insight.contexts import Contexts
from algoformer.insight.weights import Implied, implied_weights

LINEAR = "linear in the query"
CONSTANT = "answer 0 at input 0"
ADDITIVE = "additive in the labels"
ORDER = "order of examples"
ROTATION = "rotation of inputs"
SCALE = "scale of labels"
SPAN = "labels off the span"
MEASUREMENT = "other queries"
TURNED = "rotation of the series"
SHUFFLED = "states in random order"

Measure = Callable[[Contexts], Implied]
"""Measures the implied weights on contexts."""

_OFF_SPAN = 0.1
"""The size of the label disturbance off the span, relative to the labels."""

_NUMBERS = 320
"""Prompts × features that a gate is measured on, at least."""


@dataclass(frozen=True, kw_only=True)
class Gate:
    """The outcome of one symmetry test, averaged over the described passes.

    A correlation passes at or above its threshold; a violation passes below it.
    """

    name: str
    value: float
    threshold: float
    correlation: bool

    @property
    def passed(self) -> bool:
        """True if the solver has this symmetry."""
        return self.value >= self.threshold if self.correlation else self.value < self.threshold


def gate_contexts(contexts: Contexts) -> Contexts:
    """Return as many of the prompts as the gates are measured on."""
    return contexts.head(max(16, -(-_NUMBERS // contexts.inputs.shape[-1])))


def measure_gates(
    read: Reader, contexts: Contexts, passes: Sequence[int], *, rotates: bool, seed: int
) -> tuple[Gate, ...]:
    """Test the symmetries of a solver at the given passes (counted from 0).

    Correlations are between what is left before and after a change that a textbook method does not notice.
    `rotates` says that the task's features are its inputs, so that a rotation of inputs is such a change.
    """
    generator = torch.Generator().manual_seed(seed)
    chosen, steps = list(passes), max(passes) + 1

    def measured(changed: Contexts) -> Implied:
        return implied_weights(read, changed, steps)

    base = measured(contexts)
    gates = [_violation(LINEAR, float(base.nonlinear[chosen].mean()))]
    gates.append(_violation(CONSTANT, float(base.constant[chosen].mean())))
    gates.append(_violation(ADDITIVE, _not_additive(measured, contexts, base, chosen)))
    shape = contexts.inputs.shape[:2]
    order = torch.rand(shape, generator=generator).argsort(1)
    gates.append(correlation(ORDER, base.left, measured(contexts.reordered(order)).left, chosen))
    if rotates:
        dim = contexts.inputs.shape[-1]
        turn = torch.linalg.qr(torch.randn(shape[0], dim, dim, generator=generator).double())[0]
        turned = measured(contexts.rotated(turn)).left
        outs = contexts.labels.shape[-1]
        back = torch.einsum("bij,tbj->tbi", turn.repeat_interleave(outs, 0), turned)
        gates.append(correlation(ROTATION, base.left, back, chosen))
    halved = measured(contexts.with_labels(contexts.labels / 2))
    scale = correlation(SCALE, base.left, 2 * halved.left, chosen)
    # of small steps nearly all is left at any scale: what was done must scale as well
    gates.append(replace(scale, value=min(scale.value, _agreement(base, halved, chosen))))
    if shape[1] > contexts.features.shape[-1]:
        gates.append(_violation(SPAN, _off_span(measured, contexts, base, chosen, generator)))
    other = measured(contexts.with_queries(contexts.query_rows.roll(1, 0)))
    gates.append(correlation(MEASUREMENT, base.left, other.left, chosen, threshold=0.0))
    return tuple(gates)


def _violation(name: str, value: float) -> Gate:
    return Gate(name=name, value=value, threshold=0.05, correlation=False)


def correlation(name: str, one: Tensor, other: Tensor, passes: list[int], *, threshold: float = 0.98) -> Gate:
    """Return the test that what is left before and after a change correlates, over some passes."""
    one, other = one[passes].flatten(1), other[passes].flatten(1)
    norms = one.square().sum(1) * other.square().sum(1)
    value = ((one * other).sum(1) / norms.clamp(min=1e-300).sqrt()).mean()
    return Gate(name=name, value=float(value), threshold=threshold, correlation=True)


def _agreement(base: Implied, halved: Implied, passes: list[int]) -> float:
    """Return <a, b> / max(|a|², |b|²) of weights and twice those of half the labels, averaged over passes."""
    one, other = base.weights[passes].flatten(1), 2 * halved.weights[passes].flatten(1)
    none = 1e-12 * base.solution.square().sum()
    larger = torch.maximum(one.square().sum(1), other.square().sum(1))
    return float((((one * other).sum(1) + none) / (larger + none)).mean())


def _not_additive(measured: Measure, contexts: Contexts, base: Implied, passes: list[int]) -> float:
    # labels of a second set of weights on the same examples, and the normalized sum of both
    outs = contexts.labels.shape[-1]
    weights = base.solution.unflatten(0, (-1, outs)).roll(1, 0)  # (batch, out, feature)
    second = (contexts.features @ weights.mT).to(contexts.labels.dtype)
    other = measured(contexts.with_labels(second))
    both = measured(contexts.with_labels((contexts.labels + second) / 2**0.5))
    gap = both.left - (base.left + other.left) / 2**0.5
    scale = base.energy.sum(1) + other.energy.sum(1)
    shares = gap.square().sum((1, 2)) / scale.clamp(min=1e-300)
    return float(shares[passes].mean())


def _off_span(
    measured: Measure, contexts: Contexts, base: Implied, passes: list[int], generator: torch.Generator
) -> float:
    features, labels = contexts.features, contexts.labels.double()
    noise = torch.randn(labels.shape, generator=generator).double()
    noise = noise - features @ (torch.linalg.pinv(features) @ noise)
    size = labels.square().sum(1, keepdim=True).sqrt() / noise.square().sum(1, keepdim=True).sqrt()
    disturbed = measured(contexts.with_labels(labels + _OFF_SPAN * size * noise))
    change = (disturbed.weights - base.weights).square().sum((1, 2))
    shares = change / (_OFF_SPAN**2 * base.solution.square().sum())
    return float(shares[passes].mean())
