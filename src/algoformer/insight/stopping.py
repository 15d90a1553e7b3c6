"""The choice of a stopping rule that keeps the error at the lowest cost."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

TOLERANCES = (0.3, 0.1, 0.03, 0.01, 3e-3, 1e-3, 3e-4, 1e-4, 1e-5, 1e-6)
"""Largest movements of an answer, relative to its root mean square, at which to stop."""

ALLOWED_LOSS = 0.05
"""A rule is good enough if its error exceeds the lowest of a fixed depth by at most this share."""


@dataclass(frozen=True, kw_only=True)
class StoppingRule:
    """A stopping rule with its cost and its loss, measured on held-out prompts.

    Attributes:
        rule: "fixed:20", or "converged:0.001" for stopping when an answer moves by no more than that.
        passes: the mean number of passes.
        loss: the relative increase of the mean squared error over the best fixed depth.
    """

    rule: str
    passes: float
    loss: float

    def __str__(self) -> str:
        return f"{self.rule} ({self.passes:.1f} passes on average, error {self.loss:+.1%})"


def recommend(answers: Tensor | None, errors: Tensor) -> StoppingRule:
    """Return the cheapest rule whose loss is small.

    Answers are (step, batch, number), errors (step, batch). Both hold every pass from 1 on. Fixed depths and
    tolerances on the movement of an answer are compared; without answers, fixed depths alone.
    """
    means = errors.mean(1)
    best = float(means.min())
    if not math.isfinite(best):  # the answers of some prompt are not finite after any pass
        return StoppingRule(rule="fixed:1", passes=1.0, loss=0.0)
    floor = max(best, 1e-12)
    rules = [
        StoppingRule(rule=f"fixed:{step + 1}", passes=step + 1.0, loss=(float(means[step]) - best) / floor)
        for step in range(len(means))
    ]
    if answers is not None:
        rules += _tolerances(answers, errors, best)
    good = [rule for rule in rules if rule.loss <= ALLOWED_LOSS]
    return min(good, key=lambda rule: rule.passes)


def _tolerances(answers: Tensor, errors: Tensor, best: float) -> list[StoppingRule]:
    rules, floor = [], max(best, 1e-12)
    scale = float(answers[-1].square().mean().sqrt()) if bool(torch.isfinite(answers[-1]).all()) else 1.0
    movement = (answers[1:] - answers[:-1]).abs().amax(-1)
    for share in TOLERANCES:
        tolerance = float(f"{share * scale:.1g}")
        quiet = movement <= tolerance
        last = torch.where(quiet.any(0), quiet.float().argmax(0) + 1, len(movement))  # the index of a pass
        loss = (float(errors.gather(0, last[None])[0].mean()) - best) / floor
        passes = float((last + 1).double().mean())
        rules.append(StoppingRule(rule=f"converged:{tolerance:g}", passes=passes, loss=loss))
    return rules
