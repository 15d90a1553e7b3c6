"""Errors far beyond the trained depth."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from jaxtyping import Float

from algoformer.evaluation.curve import Curve, curve_of
from algoformer.evaluation.errors import Errors, Progress, measure
from algoformer.evaluation.evaluation import Against
from algoformer.evaluation.solvers import rows_at_once, solver_name
from algoformer.prompt import Prompt
from algoformer.trace import Solver


@dataclass(frozen=True, kw_only=True)
class DepthErrors:
    """Errors with bands: on the last sample at every depth, on all samples at a few of them.

    `by_prompt` holds the errors whose mean is `by_depth`: compare solvers on the same prompts with it.
    `broken` is the number of prompts on which some error is not finite. `unsolved` is the share of prompts
    with a wrong answer at every depth; None where answers are numbers.
    """

    by_depth: Curve
    by_sample: dict[int, Curve]
    by_prompt: Float[np.ndarray, "prompt depth"] = field(compare=False, repr=False)
    broken: int = 0
    unsolved: Curve | None = None


def errors_at(
    solver: Solver,
    prompt: Prompt,
    *,
    depths: Sequence[int],
    whole: Collection[int] = (),
    against: Sequence[Against] = ("clean",),
    label: str | None = None,
    batch: int = 128,
    at_once: int | None = None,
    seed: int = 0,
    resamples: int = 1000,
    progress: Progress | None = None,
) -> dict[Against, DepthErrors]:
    """Return the errors after chosen numbers of iterations, against each kind of answer.

    A solver with a method `at_depths` (`training.solver.open_solver` gives one) is run once, to the last of
    the depths. For any other, depths that follow one another are read from one run; after a gap it starts
    afresh.

    Args:
        solver: anything that answers prompts.
        prompt: what to answer.
        depths: where to look at the last sample.
        whole: those of the depths at which all samples are looked at.
        against: the kinds of answers to measure against.
        label: and `batch`, `at_once`, `seed`, `resamples`, `progress`: as for `evaluate`.
    """
    if not depths or list(depths) != sorted(set(depths)) or depths[0] < 1:
        raise ValueError(f"depths must be a rising list of iterations from 1 on, got {tuple(depths)}")
    strange = sorted(set(whole) - set(depths))
    if strange:
        raise ValueError(f"whole must be among the depths, got {strange[0]} beside {tuple(depths)}")
    found = measure(
        solver,
        prompt,
        depths,
        whole=whole,
        against=against,
        batch=batch,
        at_once=rows_at_once(solver, prompt, len(depths)) if at_once is None else at_once,
        progress=progress,
    )
    bands: dict[str, Any] = {"label": label if label is not None else solver_name(solver)}
    bands |= {"seed": seed, "resamples": resamples}
    return {
        kind: DepthErrors(
            by_depth=curve_of(errors.by_depth, axis="iterations", x=depths, **bands),
            by_sample={
                depth: curve_of(values, axis="samples", x=errors.samples, **bands)
                for depth, values in errors.by_sample.items()
            },
            by_prompt=errors.by_depth,
            broken=_count_broken(errors),
            unsolved=None
            if errors.unsolved is None
            else curve_of(errors.unsolved, axis="iterations", x=depths, **bands),
        )
        for kind, errors in found.items()
    }


def _count_broken(errors: Errors) -> int:
    every = np.concatenate([errors.by_depth, *errors.by_sample.values()], axis=1)
    return int((~np.isfinite(every)).any(axis=1).sum())
