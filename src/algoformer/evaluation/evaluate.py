"""One solver, or several side by side, on fixed prompts."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import numpy as np

from algoformer.evaluation.bootstrap import curve_of
from algoformer.evaluation.errors import Progress, measure
from algoformer.evaluation.evaluation import Against, Evaluation, Plain
from algoformer.evaluation.solvers import count_parameters, own_steps, rows_at_once, setting, solver_name
from algoformer.prompt import Prompt
from algoformer.trace import Solver, Unroll


def evaluate(
    solver: Solver,
    prompt: Prompt,
    *,
    steps: int | None = None,
    window: int | None = None,
    label: str | None = None,
    scale: int | float | None = None,
    against: Against = "clean",
    batch: int = 128,
    at_once: int | None = None,
    seed: int = 0,
    resamples: int = 1000,
    progress: Progress | None = None,
    provenance: Mapping[str, Plain] | None = None,
) -> Evaluation:
    """Measure how well a solver answers, for each number of in-context samples and after each iteration.

    Errors are squared, summed over the numbers of an answer and divided by `scale`; means are over the
    prompts, with 5–95 % bootstrap bands. Where several questions belong to one sample (the layers of a
    chain of thought) they are averaged. NaN and infinity stay in the numbers and are counted in
    `Evaluation.broken`. A module runs where its parameters are and in their precision, without TF32.

    Args:
        solver: anything that answers prompts, trained or not.
        prompt: what to answer; see `evaluation_prompts`.
        steps: iterations to run; None means as many as the solver runs by itself, and 20 if it does not say.
        window: how many of the last iterations to read out; None means all.
        label: the name in tables and pictures; None means the solver's class.
        scale: None means `prompt.dim`, which is `task.scale` for every task of this library.
        against: measure against the answers without noise, or against the shown ones.
        batch: the most prompts to run at once.
        at_once: the most rows × read-out iterations to hold at once, which bounds the memory: fewer prompts
            are run at once, and long windows are read in pieces. None chooses about 1 GB on a CPU.
        seed: of the bootstrap.
        resamples: of the bootstrap.
        progress: called with how much is done and how much there is.
        provenance: to be stored with the numbers, beside device, versions and seconds.

    >>> import torch
    >>> from algoformer.evaluation import evaluation_prompts
    >>> from algoformer.tasks import LinearRegression
    >>> from algoformer.trace import constant_trace
    >>> prompt = evaluation_prompts(LinearRegression(dim=4, points=6), count=64)
    >>> zero = lambda prompt, unroll: constant_trace(torch.zeros_like(prompt.targets), unroll)
    >>> result = evaluate(zero, prompt, label="zero")
    >>> result.by_sample.x
    (0.0, 1.0, 2.0, 3.0, 4.0, 5.0)
    >>> 0.8 < result.error < 1.2
    True
    """
    scale = checked_scale(scale, prompt)
    unroll = Unroll(steps=steps if steps is not None else own_steps(solver, prompt), window=window)
    label = label if label is not None else solver_name(solver)
    began = time.monotonic()
    errors = measure(
        solver,
        prompt,
        range(unroll.first_step, unroll.steps + 1),
        whole={unroll.steps},
        scale=scale,
        against=(against,),
        batch=batch,
        at_once=rows_at_once(solver, prompt, unroll.length) if at_once is None else at_once,
        progress=progress,
    )[against]
    by_sample = errors.by_sample[unroll.steps]
    seconds = round(time.monotonic() - began, 3)
    bands: dict[str, Any] = {"label": label, "seed": seed, "resamples": resamples}
    return Evaluation(
        label=label,
        by_sample=curve_of(by_sample, axis="samples", x=errors.samples, **bands),
        by_step=curve_of(errors.by_depth, axis="iterations", x=errors.depths, **bands),
        steps=unroll.steps,
        prompts=prompt.batch,
        scale=scale,
        against=against,
        broken=_broken(by_sample, errors.by_depth),
        parameters=count_parameters(solver),
        provenance=setting(solver, prompt) | {"seconds": seconds} | dict(provenance or {}),
    )


def _broken(by_sample: np.ndarray, by_depth: np.ndarray) -> int:
    both = np.concatenate([by_sample, by_depth], axis=1)
    return int((~np.isfinite(both)).any(axis=1).sum())


def compare(
    solvers: Mapping[str, Solver],
    prompt: Prompt,
    *,
    steps: int | None = None,
    progress: Progress | None = None,
    **options: Any,
) -> list[Evaluation]:
    """Measure several solvers, by label, on the same prompts; `options` go to `evaluate`.

    With `steps=None` each runs as far as it does by itself.
    """
    results = []
    for place, (label, solver) in enumerate(solvers.items()):
        told = None if progress is None else _share_of(progress, place, len(solvers), prompt.batch)
        results.append(evaluate(solver, prompt, steps=steps, label=label, progress=told, **options))
    return results


def _share_of(progress: Progress, place: int, count: int, unit: int) -> Progress:
    # each solver counts as one unit of prompts, however many iterations it runs
    return lambda done, total: progress(place * unit + unit * done // total, count * unit)


def checked_scale(scale: int | float | None, prompt: Prompt) -> float:
    """What to divide errors by: the given number, which must be positive, or the prompt's dim."""
    if scale is None:
        return float(prompt.dim)
    if not scale > 0:
        raise ValueError(f"scale must be positive, got {scale}")
    return float(scale)
