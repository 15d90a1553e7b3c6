"""Evaluate one solver, or several, on fixed prompts."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from algoformer.evaluation.depth import errors_at
from algoformer.evaluation.errors import Progress
from algoformer.evaluation.evaluation import Against, Evaluation, Plain
from algoformer.evaluation.solvers import count_parameters, own_steps, setting, solver_name
from algoformer.evaluation.tables import summary_table
from algoformer.prompt import Prompt
from algoformer.trace import Solver, Unroll


def evaluate(
    solver: Solver,
    prompt: Prompt,
    *,
    steps: int | None = None,
    window: int | None = None,
    label: str | None = None,
    against: Against = "clean",
    batch: int = 128,
    at_once: int | None = None,
    seed: int = 0,
    resamples: int = 1000,
    progress: Progress | None = None,
    provenance: Mapping[str, Plain] | None = None,
) -> Evaluation:
    """Measure the error of a solver for each number of in-context samples and after each iteration.

    Errors are squared, summed over the numbers of an answer and divided by `prompt.divisor`; means are over
    the prompts, with 5–95 % bootstrap bands. Where several questions belong to one sample (the layers of a
    chain of thought) they are averaged. NaN and infinity stay in the numbers and are counted in
    `Evaluation.broken`. A module runs where its parameters are and in their precision, without TF32.

    Args:
        solver: any solver, trained or not.
        prompt: the prompts; see `evaluation_prompts`.
        steps: the number of iterations; None means the solver's own number, or 20 if it has none.
        window: the number of last iterations to read out; None means all.
        label: the name in tables and plots; None means the name of the solver's class.
        against: whether targets are the clean answers or the noisy ones that are shown.
        batch: the maximum number of prompts in a batch.
        at_once: the maximum number of rows × read-out iterations in memory: fewer prompts are run at once,
            and long windows are read in pieces. None chooses about 1 GB on a CPU.
        seed: the seed of the bootstrap.
        resamples: the number of bootstrap resamples.
        progress: called with the amounts of work done and in total.
        provenance: facts to store with the numbers, besides device, versions and seconds.

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
    if not isinstance(prompt, Prompt):
        raise ValueError(f"evaluate takes prompts, got {type(prompt).__name__}; use evaluation_prompts(task)")
    unroll = Unroll(steps=steps if steps is not None else own_steps(solver, prompt), window=window)
    label = label if label is not None else solver_name(solver)
    began = time.monotonic()
    found = errors_at(
        solver,
        prompt,
        depths=range(unroll.first_step, unroll.steps + 1),
        whole={unroll.steps},
        against=(against,),
        label=label,
        batch=batch,
        at_once=at_once,
        seed=seed,
        resamples=resamples,
        progress=progress,
    )[against]
    seconds = round(time.monotonic() - began, 3)
    return Evaluation(
        label=label,
        by_sample=found.by_sample[unroll.steps],
        by_step=found.by_depth,
        steps=unroll.steps,
        prompts=prompt.batch,
        scale=prompt.divisor,
        against=against,
        broken=found.broken,
        parameters=count_parameters(solver),
        unsolved=found.unsolved,
        provenance=setting(solver, prompt) | {"seconds": seconds} | dict(provenance or {}),
    )


class Comparison(list[Evaluation]):
    """Evaluations of several solvers on the same prompts; it prints as a table."""

    def __str__(self) -> str:
        return str(summary_table(self)) if self else "Comparison of no solvers"

    __repr__ = __str__


def compare(
    solvers: Mapping[str, Solver],
    prompt: Prompt,
    *,
    steps: int | None = None,
    progress: Progress | None = None,
    **options: Any,
) -> Comparison:
    """Evaluate several solvers, given by label, on the same prompts; `options` are passed to `evaluate`.

    With `steps=None` each solver runs its own number of iterations.

    Returns:
        A list of evaluations that prints as a table.
    """
    results = Comparison()
    for place, (label, solver) in enumerate(solvers.items()):
        told = None if progress is None else _share_of(progress, place, len(solvers), prompt.batch)
        results.append(evaluate(solver, prompt, steps=steps, label=label, progress=told, **options))
    return results


def _share_of(progress: Progress, place: int, count: int, unit: int) -> Progress:
    # each solver counts as one unit of prompts, however many iterations it runs
    return lambda done, total: progress(place * unit + unit * done // total, count * unit)
