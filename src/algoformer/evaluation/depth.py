"""Errors far beyond the trained depth."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from torch import nn

from algoformer.evaluation.bootstrap import curve_of
from algoformer.evaluation.curve import Curve
from algoformer.evaluation.errors import Progress, measure
from algoformer.evaluation.evaluate import checked_scale
from algoformer.evaluation.evaluation import Against
from algoformer.evaluation.solvers import ReadsDepths, rows_at_once, solver_name
from algoformer.prompt import Prompt
from algoformer.trace import Solver, Trace, Unroll


def depth_sweep(
    solver: Solver,
    prompt: Prompt,
    *,
    depths: Sequence[int] = (10, 20, 50, 100, 200, 500, 1000),
    label: str | None = None,
    scale: int | float | None = None,
    against: Against = "clean",
    batch: int = 128,
    at_once: int | None = None,
    seed: int = 0,
    resamples: int = 1000,
    progress: Progress | None = None,
) -> Curve:
    """The error on the last sample after each of a few chosen numbers of iterations.

    Where `evaluate` reads out every iteration, this reads one state for each depth and starts afresh for
    the next: the memory does not grow with the depth, and the time is that of `sum(depths)` iterations. A
    solver with a method `at_depths` (`training.solver.open_solver` gives one) is run once, to the last.
    The arguments are those of `evaluate`.

    >>> import torch
    >>> from algoformer.evaluation import evaluation_prompts
    >>> from algoformer.tasks import LinearRegression
    >>> from algoformer.trace import Trace
    >>> def halving(prompt, unroll):
    ...     return Trace(predictions=(1 - 0.5**unroll.steps) * prompt.targets[None], first_step=unroll.steps)
    >>> prompt = evaluation_prompts(LinearRegression(dim=4, points=6), count=64)
    >>> curve = depth_sweep(halving, prompt, depths=(1, 2, 3))
    >>> [round(curve.at(depth) / curve.at(1), 6) for depth in (1, 2, 3)]
    [1.0, 0.25, 0.0625]
    """
    if not depths or list(depths) != sorted(set(depths)):
        raise ValueError(f"depths must be a rising list of iterations, got {tuple(depths)}")
    unrolls = [Unroll(steps=depth, window=1) for depth in depths]
    most = rows_at_once(solver, prompt) if at_once is None else at_once
    options: dict[str, Any] = {"scale": checked_scale(scale, prompt), "against": against}
    options |= {"batch": batch, "at_once": most}
    if isinstance(solver, ReadsDepths):
        chosen = _AtDepths(solver, depths)
        by_depth = measure(chosen, prompt, Unroll(steps=len(depths)), progress=progress, **options).by_step
    else:
        total, columns = prompt.batch * sum(depths), []
        for place, unroll in enumerate(unrolls):
            before = prompt.batch * sum(depths[:place])
            told = None if progress is None else _after(progress, before, total)
            columns.append(measure(solver, prompt, unroll, progress=told, **options).by_step[:, 0])
        by_depth = np.stack(columns, axis=1)
    return curve_of(
        by_depth,
        label=label if label is not None else solver_name(solver),
        axis="iterations",
        x=depths,
        seed=seed,
        resamples=resamples,
    )


class _AtDepths(nn.Module):
    """The chosen depths of a solver as if they were the iterations 1, 2, 3, ..."""

    def __init__(self, solver: ReadsDepths, depths: Sequence[int]) -> None:
        super().__init__()
        self.solver, self.depths = solver, depths

    def forward(self, prompt: Prompt, unroll: Unroll) -> Trace:
        """What the solver answers at the depths that the unroll's window counts."""
        wanted = self.depths[unroll.first_step - 1 : unroll.steps]
        return Trace(predictions=self.solver.at_depths(prompt, wanted), first_step=unroll.first_step)


def _after(progress: Progress, before: int, total: int) -> Progress:
    return lambda done, _: progress(before + done, total)
