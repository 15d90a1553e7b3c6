"""`identify`: measure a solver, compare it with every family, and decide."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from algoformer.insight import ceilings, filters
from algoformer.insight.answers import Reader, answer_reader, precision_of
from algoformer.insight.contexts import Contexts, check_regression, draw_contexts
from algoformer.insight.families import Family
from algoformer.insight.filters import Spectrum
from algoformer.insight.fit import Fit, fit_all, residual_parts, skill, step_numbers
from algoformer.insight.gates import ORDER, Gate, gate_contexts, measure_gates
from algoformer.insight.identification import Identification, Refit
from algoformer.insight.influence import Influence, foreign_labels, measure_influence
from algoformer.insight.probes import ProbeTable, probe
from algoformer.insight.verdict import FamilyShare, decide, described_passes, iterates, rank
from algoformer.insight.weights import Implied, implied_weights
from algoformer.model import AlgoFormer
from algoformer.model.address import addresses
from algoformer.tasks import Task
from algoformer.trace import Solver

LEAST_PROMPTS = 24
"""With fewer prompts, bands of shares are wider than the differences between families."""

_TRAIN_SHARE = 0.6
_CURVE_POINTS = 60
_PROBED = (1, 2, 3, 4, 6, 8)
"""Passes after which states are probed, beside the last one."""


def identify(
    solver: Solver,
    task: Task,
    *,
    steps: int = 12,
    prompts: int = 96,
    queries: int | None = None,
    seed: int = 0,
    problem: int = 0,
) -> Identification:
    """Find out which textbook algorithm a solver runs on in-context linear regression.

    The weights that its answers imply are measured after each pass on held-out prompts. Every family of
    algorithms is fitted on 60 % of the prompts and judged on the rest by the share it explains of what is
    left to least squares. Symmetries of textbook methods are tested, and ceilings say what any method of a
    kind could have explained.

    Args:
        solver: anything that answers prompts: trained, hand-built or classical.
        task: a task whose prompts are labelled examples; regression is on the features that its `problems`
            name.
        steps: passes to run.
        prompts: held-out prompts.
        queries: for each prompt; by default four times the number of inputs, and at least 24; twice as many
            where a link hides half of them.
        seed: of the held-out prompts.
        problem: the regression problem inside a prompt; a chain of thought has one for each layer, from 0 on.

    Raises:
        ValueError: the task has no regression inside, or there are too few prompts or queries.
    """
    if prompts < LEAST_PROMPTS:
        raise ValueError(f"prompts must be at least {LEAST_PROMPTS} to tell families apart, got {prompts}")
    if steps < 2:
        raise ValueError(f"steps must be at least 2 to see an iteration, got {steps}")
    check_regression(task, problem)
    if queries is None:
        queries = max(24, 4 * task.dim) * (1 if task.parts == 2 else 2)
    contexts = draw_contexts(
        task, prompts=prompts, queries=queries, seed=seed, dtype=precision_of(solver), problem=problem
    )
    read = answer_reader(solver, queries=queries, query_rows=problem + 1)
    data = _measured(read, contexts, steps)
    compared = _compare(data, seed=seed)
    passes = compared.passes
    raw = bool(torch.equal(contexts.features, contexts.inputs.double()))
    gates = measure_gates(read, gate_contexts(contexts), passes, rotates=raw and problem == 0, seed=seed)
    # one pass more than what is described: the last fast pass still mixes several effects
    late = min(passes[-1] + 1, steps - 1)
    influence = measure_influence(read, contexts.head(4), steps=late + 1)
    operators: dict[str, tuple[float, ...]] = {}
    if compared.moves:
        operators = ceilings.operator_ceilings(read, contexts, steps=passes[-1] + 1, problems=3, seed=seed)
    return Identification(
        status=decide(data, compared.best, compared.shares[0], gates, moves=compared.moves),
        families=tuple(compared.shares),
        passes=(passes[0] + 1, passes[-1] + 1),
        error=tuple(data.error.tolist()),
        nonlinear=tuple(data.nonlinear.tolist()),
        gates=gates,
        ceilings={"any filter": tuple(compared.ceiling)} | operators,
        pace=ceilings.effective_times(data),
        influence=tuple(influence.by_pass[late].tolist()),
        influence_least_squares=tuple(influence.least_squares.tolist()),
        rests_on=influence.rests_on(late),
        foreign=foreign_labels(
            read, contexts.head(24), steps=late + 1, first=contexts.inputs.shape[1] * 3 // 4
        ),
        refit=_refit(data, influence, late, gates, seed=seed) if compared.moves else None,
        curves=_curves(compared),
        matching=_matching(data),
        path=_path(data, compared.best),
        setting=_setting(solver, task, steps=steps, prompts=prompts, queries=queries, seed=seed)
        | ({"problem": problem} if task.parts > 2 else {}),
        probes=None if raw else _probes(solver, task, steps, seed),
    )


def _measured(read: Reader, contexts: Contexts, steps: int) -> Implied:
    data = implied_weights(read, contexts, steps)
    if not bool(torch.isfinite(data.weights).all()):
        raise ValueError(
            f"answers are not finite within {steps} passes; run fewer steps, or use `certify` to see where"
        )
    return data


@dataclass(frozen=True)
class _Comparison:
    """All families beside one set of measured weights."""

    train: Implied
    test: Implied
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


def _compare(data: Implied, *, seed: int, passes: Sequence[int] | None = None) -> _Comparison:
    chosen = list(passes) if passes is not None else described_passes(data)
    order = torch.randperm(len(data.labels) // data.outs, generator=torch.Generator().manual_seed(seed))
    cut = round(_TRAIN_SHARE * len(order))
    train, test = data.select(order[:cut]), data.select(order[cut:])
    moves = iterates(data)
    fits = fit_all(train, test, chosen, iterates=moves)
    shares = rank(fits, test, chosen, seed=seed)
    curve = ceilings.best_filter(train)
    # where a filter spans decades the spline falls behind: no ceiling is below a family that reached it
    misfits = [ceilings.filter_misfit(curve, test), *(fit.misfit for fit in fits if fit.family.filter)]
    ceiling = torch.stack([skill(misfit, test.energy) for misfit in misfits]).amax(0).clamp(min=0).tolist()
    return _Comparison(train, test, fits, shares, chosen, moves, ceiling, curve)


def _refit(
    data: Implied, influence: Influence, late: int, gates: tuple[Gate, ...], *, seed: int
) -> Refit | None:
    if not any(gate.name == ORDER and not gate.passed for gate in gates):
        return None
    importance = influence.importance(late)
    # the passes stay those of the unweighted comparison, so that both shares are about the same passes
    again = _compare(data.reweighted(importance), seed=seed, passes=described_passes(data))
    over = [again.ceiling[index] for index in again.passes]
    return Refit(
        importance=tuple(importance.tolist()), families=tuple(again.shares[:6]), ceiling=sum(over) / len(over)
    )


def _probes(solver: Solver, task: Task, steps: int, seed: int) -> ProbeTable | None:
    """Return what can be read off after the parts before the loop, some of its passes, and those after it."""
    if not isinstance(solver, AlgoFormer) or not solver.causal:
        return None
    parts = [address for address in addresses(solver.program, steps) if "/" not in address]
    passes = {f"[{number}]" for number in range(1, steps) if number not in _PROBED}
    kept = [address for address in parts if not address.endswith(tuple(passes))]
    return probe(solver, task, addresses=kept, steps=steps, seed=seed)


def _curves(compared: _Comparison) -> dict[str, Any]:
    values = compared.train.eigenvalues.flatten()
    places = torch.quantile(values, torch.linspace(0.01, 0.99, _CURVE_POINTS, dtype=torch.float64))
    largest = compared.train.eigenvalues[:, -1].median().expand_as(places)
    smallest = compared.train.eigenvalues[:, 0].median().clamp(min=1e-12).expand_as(places)
    spectrum = Spectrum(places, largest, smallest)
    shown = [compared.shares[0].name, "gradient descent", "Newton from αI"]
    candidates = {
        fit.family.name: _filters_of(fit, spectrum, len(compared.test.weights)).tolist()
        for fit in compared.fits
        if fit.family.name in shown and fit.family.filter is not None
    }
    return {
        "eigenvalues": places.tolist(),
        "measured": compared.curve(places).tolist(),
        "candidates": candidates,
    }


def _filters_of(fit: Fit, spectrum: Spectrum, passes: int) -> Tensor:
    numbers = step_numbers(range(passes), fit.pace, fit.offset)
    ratio = fit.family.residual(spectrum, max(numbers), *fit.parameters)
    return ratio[[number - 1 for number in numbers]].nan_to_num(nan=9, posinf=9, neginf=-9).clamp(-9, 9)


_REFERENCES = {
    "gradient descent, 1.8/λmax": (
        Family(name="", filter=filters.gradient_descent, scale="largest"),
        1.8,
        256,
    ),
    "Newton, 1/λmax²": (Family(name="", filter=filters.newton_from_gram, scale="largest"), 1.0, 40),
}


def _matching(data: Implied) -> dict[str, tuple[int, ...]]:
    found = {}
    for name, (family, parameter, most) in _REFERENCES.items():
        parts = residual_parts(family, data, most, parameter)
        misfit = torch.stack([(data.left_parts - one).square().sum((1, 2)) for one in parts])
        found[name] = tuple(misfit.argmin(0).tolist())
    return found


def _path(data: Implied, best: Fit) -> dict[str, Any]:
    """Return the weights of the first prompt in the plane of its own path, w_LS at the origin."""
    left = data.left[:, 0]
    whole = torch.cat([data.solution[:1], left])
    _, _, axes = torch.linalg.svd(whole, full_matrices=False)
    numbers = step_numbers(range(len(left)), best.pace, best.offset)
    parts = residual_parts(best.family, data.select(torch.tensor([0])), max(numbers), *best.parameters)[:, 0]
    nearest = parts[[0, *numbers]] @ data.eigenvectors[0].mT
    plane = axes[:2].mT
    return {"solver": (whole @ plane).tolist(), best.family.name: (nearest @ plane).tolist()}


def _setting(solver: Solver, task: Task, **numbers: int) -> dict[str, Any]:
    name = getattr(solver, "__name__", type(solver).__name__)
    return {
        "solver": str(name),
        "task": type(task).__name__,
        "examples": task.points - 1,
        "dim": task.dim,
        **numbers,
    }
