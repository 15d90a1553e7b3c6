"""Errors far beyond the trained depth."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from algoformer.evaluation.bootstrap import curve_of
from algoformer.evaluation.curve import Curve
from algoformer.evaluation.errors import Progress, measure
from algoformer.evaluation.evaluate import checked_scale
from algoformer.evaluation.evaluation import Against
from algoformer.evaluation.solvers import rows_at_once, solver_name
from algoformer.prompt import Prompt
from algoformer.trace import Solver, Unroll


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
    the next: the memory does not grow with the depth, and the time is that of `sum(depths)` iterations.
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
    scale = checked_scale(scale, prompt)
    most = rows_at_once(solver, prompt) if at_once is None else at_once
    total = prompt.batch * sum(depths)
    columns: list[np.ndarray] = []
    for place, unroll in enumerate(unrolls):
        before = prompt.batch * sum(depths[:place])
        errors = measure(
            solver,
            prompt,
            unroll,
            scale=scale,
            against=against,
            batch=batch,
            at_once=most,
            progress=None if progress is None else _after(progress, before, total),
        )
        columns.append(errors.by_step[:, 0])
    return curve_of(
        np.stack(columns, axis=1),
        label=label if label is not None else solver_name(solver),
        axis="iterations",
        x=depths,
        seed=seed,
        resamples=resamples,
    )


def _after(progress: Progress, before: int, total: int) -> Progress:
    return lambda done, _: progress(before + done, total)
