"""From shares, gates and ceilings to a verdict in words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from torch import Tensor

from algoformer.evaluation import bootstrap
from algoformer.insight.families import ZERO
from algoformer.insight.fit import Fit, skill
from algoformer.insight.gates import Gate
from algoformer.insight.measured import Measured

Status = Literal[
    "runs",
    "resembles",
    "none of these",
    "does not learn",
    "exact least squares",
    "exact ridge regression",
    "does not iterate",
]
"""The kinds of verdict."""

LEFT = 2e-3
"""Passes are described while what is left exceeds this share of the least-squares weights."""

EXACT = 1e-8
"""Below this share of what is left, weights are those of least squares."""

LEARNS = 0.05
"""Weights whose squared correlation with least squares stays below this have not learned from the prompt."""

RUNS, RESEMBLES = 0.95, 0.6
"""The smallest shares explained for the verdicts "runs" and "resembles"."""

BEYOND = 1e-3
"""A method is not run where another filter of the spectrum explains so much more of what is left."""

_FINISHED = 0.01
"""Where a solver leaves nearly nothing, a method that it runs leaves at most this share of the weights."""

_STILL = 1e-6
"""Relative movement below which a pass changes nothing."""


@dataclass(frozen=True, kw_only=True)
class FamilyShare:
    """The share that one family explains on held-out prompts, over the described passes.

    Attributes:
        name: the family's name.
        parameters: fitted values by name.
        pace: the algorithm's steps in one pass.
        offset: its steps before the first pass.
        share: the mean over passes of the share of what is left that it explains.
        low, high: the 5-95 % band of the share.
        gap_low, gap_high: the 5-95 % band of the best family's share minus this one, paired by prompt.
        by_pass: the share at every pass that was run.
    """

    name: str
    parameters: dict[str, float]
    pace: int
    offset: int
    share: float
    low: float
    high: float
    gap_low: float
    gap_high: float
    by_pass: tuple[float, ...]

    def __str__(self) -> str:
        values = [f"{name} = {value:.4g}" for name, value in self.parameters.items()]
        if self.pace != 1:
            values.append(f"{self.pace} steps a pass")
        if self.offset:
            values.append(f"{self.offset} before the first")
        return f"{self.name} ({', '.join(values)})" if values else self.name


def described_passes(data: Measured) -> list[int]:
    """Return the passes (from 0) with something left to describe; of passes at rest only the first two."""
    error = data.error.tolist()
    first = next((index for index, value in enumerate(error) if value >= LEFT), 0)
    found, still = [first], 0
    for index in range(first + 1, len(error)):
        moved = (data.values[index] - data.values[index - 1]).square().sum()
        still += bool(moved < _STILL * data.energy[index].sum())
        if error[index] < LEFT or still > 2:
            break
        found.append(index)
    return found


def iterates(data: Measured) -> bool:
    """Return whether weights move from pass to pass."""
    moved = (data.values[1:] - data.values[:-1]).square().sum((1, 2))
    return bool(len(moved) and moved.max() > _STILL * data.solved.square().sum())


def rank(fits: Sequence[Fit], test: Measured, passes: Sequence[int], *, seed: int = 0) -> list[FamilyShare]:
    """Return the families in order of their shares, the most frugal of those that are nearly best first.

    Above 0.95 a family is nearly best if it leaves at most 1.5 times as much unexplained; below, within 0.01.
    """
    chosen = list(passes)
    energy = test.energy[chosen]
    # the bootstrap works on means: a ratio of sums becomes one by linearization around its value
    columns = [_linearized(fit.misfit[chosen], energy).reshape(-1, test.outs).mean(1) for fit in fits]
    shares = [float(column.mean()) for column in columns]
    top = max(shares)
    slack = 0.5 * (1 - top) + 1e-9 if top > RUNS else 0.01
    near = [index for index, share in enumerate(shares) if share >= top - slack]
    best = min(near, key=lambda index: (fits[index].freedom, -shares[index]))
    order = sorted(range(len(fits)), key=lambda index: (index != best, -shares[index]))
    band = bootstrap(np.stack(columns, axis=1), seed=seed)
    gaps = bootstrap(np.stack([columns[best] - column for column in columns], axis=1), seed=seed)
    return [
        FamilyShare(
            name=fits[index].family.name,
            parameters=fits[index].named_parameters,
            pace=fits[index].pace,
            offset=fits[index].offset,
            share=shares[index],
            low=float(band.low[index]),
            high=float(band.high[index]),
            gap_low=float(gaps.low[index]),
            gap_high=float(gaps.high[index]),
            by_pass=tuple(skill(fits[index].misfit, test.energy).tolist()),
        )
        for index in order
    ]


def share_of_done(best: Fit, test: Measured, passes: Sequence[int]) -> float:
    """Return the share that a family explains of the measured numbers, rather than of what is left.

    All passes count together: in a pass that has done little, even a small misfit is a large part of it.
    """
    chosen = list(passes)
    done = test.values[chosen].square().sum(-1)
    return float(skill(best.misfit[chosen].flatten(), done.flatten()))


def finishes(best: Fit, test: Measured, passes: Sequence[int]) -> bool:
    """Return whether a family leaves as little as the solver does in the pass after the described ones."""
    after = passes[-1] + 1
    if after == len(test.values) or float(test.error[after]) >= LEFT:
        return True
    return float(best.misfit[after].sum() / test.solved.square().sum().clamp(min=1e-300)) < _FINISHED


def decide(
    data: Measured,
    best: Fit,
    shares: Sequence[FamilyShare],
    gates: Sequence[Gate],
    *,
    moves: bool,
    done: float,
    ceiling: float,
    finished: bool,
) -> Status:
    """Return the kind of verdict.

    Args:
        data: what was measured.
        best: the nearest family.
        shares: of all families, the nearest first.
        gates: the outcome of the symmetry tests.
        moves: whether the solver iterates.
        done: the nearest family's `share_of_done`.
        ceiling: the share that any filter explains, over the described passes.
        finished: whether the nearest family `finishes` where the solver does.
    """
    share = shares[0]
    # answers far from every solution are still those of a method if one explains them and zero does not
    zero = next(one.share for one in shares if one.name == ZERO)
    if float(data.learned.max()) < LEARNS and not (share.share >= RUNS and zero < 0.5):
        return "does not learn"
    exact = data.exact(EXACT)
    if exact is not None:
        return "exact least squares" if exact == "least squares" else "exact ridge regression"
    if not moves:
        return "does not iterate"
    failed = [gate for gate in gates if not gate.passed and gate.name not in best.family.exempt]
    lowest = min(share.by_pass[index] for index in described_passes(data))
    # small steps leave nearly everything, which every slow method explains: what was done counts as well
    near = share.share >= RUNS and share.share >= ceiling - BEYOND and min(lowest, done) >= 0.9
    if share.name == ZERO:  # these weights are not zero in every pass
        return "none of these"
    if near and finished and not failed:
        return "runs"
    return "resembles" if min(share.share, done) >= RESEMBLES else "none of these"


def _linearized(misfit: Tensor, energy: Tensor) -> np.ndarray:
    ratio = (misfit.sum(1) / energy.sum(1).clamp(min=1e-300))[:, None]  # (step, 1)
    values = 1 - ratio - (misfit - ratio * energy) / energy.mean(1, keepdim=True).clamp(min=1e-300)
    # a pass counts as -1 at worst, as it does while fitting
    return np.asarray(values.masked_fill(ratio > 2, -1.0).mean(0))
