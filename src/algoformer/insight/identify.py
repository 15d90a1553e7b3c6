"""`identify`: measure a solver, compare it with every family, and decide."""

from __future__ import annotations

from typing import Any

import torch

from algoformer.common.plain_data import check_count
from algoformer.evaluation.solvers import solver_name
from algoformer.insight.answers import check_solver
from algoformer.insight.ceilings import effective_times
from algoformer.insight.comparison import compare
from algoformer.insight.contexts import check_regression
from algoformer.insight.curves import curves_of, matching_of, path_of
from algoformer.insight.examples import OnExamples
from algoformer.insight.findings import Findings
from algoformer.insight.gates import ORDER
from algoformer.insight.identification import Identification, Refit
from algoformer.insight.measured import Measured
from algoformer.insight.on_series import OnSeries
from algoformer.insight.probes import ProbeTable, probe
from algoformer.insight.verdict import decide, described_passes, finishes, share_of_done
from algoformer.model import AlgoFormer
from algoformer.model.address import addresses
from algoformer.tasks import Task
from algoformer.trace import Solver

_PROMPTS, _ANSWERS = 96, 4000

LEAST_PROMPTS = 24
"""With fewer prompts, bands of shares are wider than the differences between families."""

_PROBED = (1, 2, 3, 4, 6, 8)
"""Passes after which states are probed, beside the last one."""


def identify(
    solver: Solver,
    task: Task,
    *,
    steps: int = 12,
    prompts: int | None = None,
    queries: int | None = None,
    seed: int = 0,
    problem: int = 0,
) -> Identification:
    """Find out which textbook algorithm a solver runs on in-context linear regression.

    The weights that its answers imply are measured after each pass on held-out prompts; of a series, which
    can be asked one question only, the answer itself. Every family of algorithms is fitted on 60 % of the
    prompts and judged on the rest by the share it explains of what is left to least squares, in a series to
    ridge regression with the strength that its noise asks for. Symmetries of textbook methods are tested,
    and ceilings say what any method of a kind could have explained.

    Args:
        solver: anything that answers prompts: trained, hand-built or classical.
        task: a task whose prompts are labelled examples, or series; regression is on the features that its
            `problems` name.
        steps: passes to run.
        prompts: held-out prompts; by default 96, or for series as many as give 4,000 answers.
        queries: for each prompt; by default four times the number of inputs, and at least 24; twice as many
            where a link hides half of them. A series has one.
        seed: of the held-out prompts.
        problem: the regression problem inside a prompt; a chain of thought has one for each layer, from 0 on.

    Raises:
        ValueError: the task has no regression inside, or there are too few prompts or queries.
    """
    check_solver(solver)
    series = task.parts == 1
    if prompts is None:
        prompts = max(_PROMPTS, _ANSWERS // task.out) if series else _PROMPTS
    check_count("prompts", prompts)
    check_count("steps", steps)
    if prompts < LEAST_PROMPTS:
        raise ValueError(f"prompts must be at least {LEAST_PROMPTS} to tell families apart, got {prompts}")
    if steps < 2:
        raise ValueError(f"steps must be at least 2 to see an iteration, got {steps}")
    check_regression(task, problem)
    numbers = {"steps": steps, "prompts": prompts, "seed": seed}
    if series:
        if queries is not None:
            raise ValueError(f"queries must be None for a series, which asks one question; got {queries}")
        return _identified(OnSeries.of(solver, task, **numbers), solver, task, numbers)
    if queries is None:
        queries = max(24, 4 * task.dim) * (1 if task.parts == 2 else 2)
    instrument = OnExamples.of(solver, task, queries=queries, problem=problem, **numbers)
    numbers |= {"queries": queries} | ({"problem": problem} if task.parts > 2 else {})
    return _identified(instrument, solver, task, numbers)


def _identified(
    instrument: OnExamples | OnSeries, solver: Solver, task: Task, numbers: dict[str, int]
) -> Identification:
    """Compare what an instrument measured with every family, examine the solver, and decide."""
    seed, data = numbers["seed"], instrument.data
    if not bool(torch.isfinite(data.values).all()):
        raise ValueError(
            f"answers are not finite within {len(data.values)} passes; run fewer steps, or use `certify` to "
            "see where"
        )
    compared = compare(data, seed=seed)
    found, passes = instrument.examine(compared, seed=seed), compared.passes
    done = share_of_done(compared.best, compared.test, passes)
    status = decide(
        data,
        compared.best,
        compared.shares,
        found.gates,
        moves=compared.moves,
        done=done,
        ceiling=sum(compared.ceiling[index] for index in passes) / len(passes),
        finished=finishes(compared.best, compared.test, passes),
    )
    setting: dict[str, Any] = {"solver": solver_name(solver), "task": type(task).__name__}
    setting |= {"examples": data.features.shape[1], "dim": task.dim}
    return Identification(
        status=status,
        families=tuple(compared.shares),
        passes=(passes[0] + 1, passes[-1] + 1),
        error=tuple(data.error.tolist()),
        nonlinear=found.nonlinear,
        gates=found.gates,
        ceilings={"any filter": tuple(compared.ceiling)} | found.operators,
        pace=effective_times(data)[: passes[-1] + 1],
        influence=tuple(found.influence.by_pass[found.late].tolist()),
        influence_least_squares=tuple(found.influence.least_squares.tolist()),
        rests_on=found.influence.rests_on(found.late),
        foreign=found.foreign,
        refit=_refit(data, found, seed=seed) if compared.moves else None,
        curves=curves_of(compared),
        matching=matching_of(data),
        path=path_of(data, compared.best),
        setting=setting | numbers,
        probes=_probes(solver, task, numbers["steps"], seed) if instrument.own_features else None,
        measured=found.measured,
        reference=data.reference_name,
        untested=found.untested,
        done=done,
    )


def _refit(data: Measured, found: Findings, *, seed: int) -> Refit | None:
    unordered = any(gate.name == ORDER and not gate.passed for gate in found.gates)
    if found.importance is None or not unordered:
        return None
    # the passes stay those of the unweighted comparison, so that both shares are about the same passes
    again = compare(data.reweighted(found.importance), seed=seed, passes=described_passes(data))
    over = [again.ceiling[index] for index in again.passes]
    return Refit(
        importance=tuple(found.importance.tolist()),
        families=tuple(again.shares[:6]),
        ceiling=sum(over) / len(over),
    )


def _probes(solver: Solver, task: Task, steps: int, seed: int) -> ProbeTable | None:
    """Return what can be read off after the parts before the loop, some of its passes, and those after it."""
    if not isinstance(solver, AlgoFormer) or not solver.causal:
        return None
    parts = [address for address in addresses(solver.program, steps) if "/" not in address]
    passes = {f"[{number}]" for number in range(1, steps) if number not in _PROBED}
    kept = [address for address in parts if not address.endswith(tuple(passes))]
    return probe(solver, task, addresses=kept, steps=steps, seed=seed)
