"""All families of algorithms beside one measurement."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from algoformer.insight import ceilings
from algoformer.insight.fit import Fit, fit_all, skill, with_many_steps
from algoformer.insight.measured import Measured
from algoformer.insight.verdict import RUNS, FamilyShare, described_passes, iterates, rank

_TRAIN_SHARE = 0.6


@dataclass(frozen=True)
class Comparison:
    """All families beside one measurement.

    Attributes:
        train: the prompts that parameters were fitted on.
        test: the prompts that shares are measured on.
        fits: every family with its parameters.
        shares: the families in order of their shares.
        passes: the passes that are described, counted from 0.
        moves: whether anything changes from pass to pass.
        ceiling: the share that any filter common to all prompts explains at each pass.
        curve: that filter.
    """

    train: Measured
    test: Measured
    fits: list[Fit]
    shares: list[FamilyShare]
    passes: list[int]
    moves: bool
    ceiling: list[float]
    curve: ceilings.FilterCurve

    @property
    def best(self) -> Fit:
        """The fit behind the first share."""
        return next(fit for fit in self.fits if fit.family.name == self.shares[0].name)


def compare(data: Measured, *, seed: int, passes: Sequence[int] | None = None) -> Comparison:
    """Fit every family on 60 % of the prompts and judge it on the rest, over some passes."""
    chosen = list(passes) if passes is not None else described_passes(data)
    order = torch.randperm(len(data.labels) // data.outs, generator=torch.Generator().manual_seed(seed))
    cut = round(_TRAIN_SHARE * len(order))
    train, test = data.select(order[:cut]), data.select(order[cut:])
    moves = iterates(data)
    fits = fit_all(train, test, chosen, iterates=moves)
    shares = rank(fits, test, chosen, seed=seed)
    # a method may be named: it must not stand for many steps of another one
    if moves and shares[0].share >= RUNS:
        fits = [with_many_steps(fit, train, test, chosen) for fit in fits]
        shares = rank(fits, test, chosen, seed=seed)
    curve = ceilings.best_filter(train)
    # where a filter spans decades the spline falls behind: no ceiling is below a family that reached it
    misfit = (test.left_parts - test.filtered(curve(test.eigenvalues))).square().sum(-1)
    misfits = [misfit, *(fit.misfit for fit in fits if fit.family.filter)]
    ceiling = torch.stack([skill(one, test.energy) for one in misfits]).amax(0).clamp(min=0).tolist()
    return Comparison(train, test, fits, shares, chosen, moves, ceiling, curve)
