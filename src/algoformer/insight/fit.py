"""Fit every family to measured weights on some prompts and score it on others."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from algoformer.insight import filters
from algoformer.insight.families import BEST_POLYNOMIAL, FAMILIES, MANY_PACES, OFFSETS, PACES, Family
from algoformer.insight.filters import Spectrum
from algoformer.insight.local_search import local_search
from algoformer.insight.measured import Measured

_COARSE = 250
"""Eigenvalues that stand for all of them while a grid of parameters is searched."""

_AT_ONCE = 2**14
"""Filters are evaluated at so many eigenvalues together, which fit into a cache of the processor."""


@dataclass(frozen=True, kw_only=True)
class Fit:
    """A family with its fitted parameters and its schedule of steps.

    Attributes:
        family: the family's entry.
        parameters: fitted values, in the order of the family's ranges.
        pace: the algorithm's steps in one pass.
        offset: its steps before the first pass.
        misfit: |e_t - ê_t|² on held-out prompts, (step, problem), for every pass.
    """

    family: Family
    parameters: tuple[float, ...]
    pace: int
    offset: int
    misfit: Tensor

    @property
    def named_parameters(self) -> dict[str, float]:
        """The fitted values by the names of their ranges."""
        names = [one.name for one in self.family.parameters]
        return dict(zip(names, self.parameters, strict=True))

    @property
    def freedom(self) -> int:
        """The number of fitted values, the schedule included."""
        return len(self.parameters) + (self.pace != 1) + (self.offset != 0)


def fit_all(train: Measured, test: Measured, passes: Sequence[int], *, iterates: bool = True) -> list[Fit]:
    """Fit every family on `train` so that the passes (counted from 0) count alike; score on `test`.

    Without `iterates` only closed-form solutions are tried: the measured weights are the same at every pass.
    """
    found = [fit_family(family, train, test, passes) for family in FAMILIES if iterates or family.solution]
    if iterates:
        found.append(_fit_best_polynomial(train, test, passes))
    return found


def with_many_steps(fit: Fit, train: Measured, test: Measured, passes: Sequence[int]) -> Fit:
    """Return a filter's fit with more steps in a pass, and a local search for each number of them."""
    if fit.family.filter is None or fit.family.solution or not fit.parameters:
        return fit
    found = fit_family(replace(fit.family, paces=MANY_PACES), train, test, passes, thorough=True)
    return replace(found, family=fit.family)


def skill(misfit: Tensor, energy: Tensor) -> Tensor:
    """Return the share of what is left that is explained, 1 - Σ misfit / Σ energy, for each pass."""
    return 1 - misfit.sum(-1) / energy.sum(-1).clamp(min=1e-300)


def fit_family(
    family: Family, train: Measured, test: Measured, passes: Sequence[int], *, thorough: bool = False
) -> Fit:
    """Search the family's parameters and schedules on `train`; if `thorough`, around each schedule."""
    objective = _Objective(family, train, passes)
    found = objective.refined(objective.search(thorough=thorough), rounds=train.search.rounds)
    best = max(found, key=lambda one: (round(one.skill, 9), -one.pace, -one.offset))
    if train.search.polish:
        (best,) = objective.refined([best], rounds=train.search.polish)
    pace, offset = best.pace, best.offset
    parameters = tuple(float(value) for value in objective.values(best.place[None])[0])
    numbers = step_numbers(range(len(test.values)), pace, offset)
    predicted = residual_parts(family, test, max(numbers), *parameters)[numbers]
    misfit = (test.left_parts - predicted).square().sum(-1)
    return Fit(family=family, parameters=parameters, pace=pace, offset=offset, misfit=misfit)


def residual_parts(family: Family, data: Measured, steps: int, *parameters: float) -> Tensor:
    """Return what a family leaves, as `data` measures it, (step, problem, coordinate), from step 0 on."""
    if family.filter is not None:
        ratio = _bounded(family.residual(Spectrum.of(data.eigenvalues), steps, *parameters), data.limit)
        return data.filtered(torch.cat([torch.ones_like(ratio[:1]), ratio]))
    assert family.iterates is not None
    features = data.features.repeat_interleave(data.outs, 0)
    weights = family.iterates(features, data.labels, steps, *parameters)
    limit = data.limit * float(data.solution_parts.abs().max())
    parts = _bounded(data.along(data.solution - weights), limit)
    return data.seen(torch.cat([data.solution_parts[None], parts]))


def step_numbers(passes: Sequence[int], pace: int, offset: int) -> list[int]:
    """Return the algorithm's step number after each pass (passes counted from 0)."""
    return [pace * (index + 1) + offset for index in passes]


@dataclass(frozen=True, kw_only=True)
class _Candidate:
    """A schedule of steps, search coordinates of the parameters, and the mean skill there."""

    pace: int
    offset: int
    place: np.ndarray
    skill: float


class _Objective:
    """The mean skill over passes of one family on training prompts, as a function of its parameters."""

    def __init__(self, family: Family, data: Measured, passes: Sequence[int]) -> None:
        self.family, self.data, self.passes = family, data, list(passes)
        self.energy = data.energy[self.passes].sum(1)
        self.steps = max(self._last(*schedule) for schedule in family.schedules())
        self.spectrum = Spectrum.of(data.eigenvalues)

    def values(self, coordinates: np.ndarray) -> np.ndarray:
        ranges = self.family.parameters
        columns = [one.value(coordinates[:, index]) for index, one in enumerate(ranges)]
        return np.stack(columns, axis=1) if columns else np.zeros((len(coordinates), 0))

    def search(self, *, thorough: bool) -> list[_Candidate]:
        """Return the best grid point of promising schedules, one step a pass always among them."""
        ranges = self.family.parameters
        count = {0: 1, 1: self.data.search.grid}.get(len(ranges), 14)
        count = min(count, 20) if self.family.filter is None else count
        grid = np.array(list(itertools.product(*[one.grid(count, self.data.unit) for one in ranges])))
        scores = self._coarse_scores(grid) if self.family.filter is not None else self._scores(grid)
        plain, *more = [
            _Candidate(pace=pace, offset=offset, place=grid[int(row.argmax())], skill=float(row.max()))
            for (pace, offset), row in zip(self.family.schedules(), scores, strict=True)
        ]
        if not thorough:
            more = sorted(more, key=lambda one: -one.skill)[: self.data.search.starts]
        return [plain, *more]

    def refined(self, starts: Sequence[_Candidate], *, rounds: int) -> list[_Candidate]:
        """Return better places near grid points."""
        # schedules with about as many steps are evaluated together
        starts = sorted(starts, key=lambda one: (one.pace, one.offset))
        at_once = max(1, _AT_ONCE // (self.spectrum.values.numel() * (1 + len(self.family.parameters))))

        def residuals(points: Tensor, numbers: Tensor) -> Tensor:
            chosen = [starts[int(number)] for number in numbers for _ in range(points.shape[1])]
            schedules = [(one.pace, one.offset) for one in chosen]
            sequences = self._sequences(
                points.flatten(0, 1).numpy(), max(self._last(*one) for one in schedules)
            )
            return self._residuals(sequences, schedules).unflatten(0, points.shape[:2])

        places = torch.from_numpy(np.stack([one.place for one in starts]))
        places = local_search(residuals, places, rounds=rounds, at_once=at_once)
        skills = [
            self._skills(residuals(places[chosen, None], chosen)[:, 0])
            for chosen in torch.arange(len(starts)).split(at_once)
        ]
        return [
            replace(one, place=place, skill=float(skill))
            for one, place, skill in zip(starts, places.numpy(), torch.cat(skills), strict=True)
        ]

    def _last(self, pace: int, offset: int) -> int:
        return step_numbers(self.passes, pace, offset)[-1]

    def _residuals(self, sequences: Tensor, schedules: Sequence[tuple[int, int]]) -> Tensor:
        """Return (predicted - measured) / √energy, (point, pass · problem · coordinate).

        The second axis of the sequences are points, each of them with a schedule.
        """
        numbers = torch.tensor([step_numbers(self.passes, *one) for one in schedules]).mT
        chosen = sequences[numbers - 1, torch.arange(len(schedules))]
        if self.family.filter is not None:
            chosen = self.data.filtered(_bounded(chosen, self.data.limit))
        gap = (chosen - self.data.left_parts[self.passes][:, None]).flatten(2)
        return (gap / self.energy.clamp(min=1e-300).sqrt()[:, None, None]).transpose(0, 1).flatten(1)

    def _sequences(self, grid: np.ndarray, steps: int) -> Tensor:
        """Return filters (step, grid, prompt, feature), or what is left (step, grid, problem, coordinate)."""
        if self.family.filter is not None:
            return self._filters(grid, self.spectrum, steps)
        rows = self.values(grid) if self.family.parameters else self.values(grid[:1])
        parts = [residual_parts(self.family, self.data, steps, *row)[1:] for row in rows]
        return torch.stack(parts, dim=1).expand(-1, len(grid), -1, -1)

    def _filters(self, grid: np.ndarray, spectrum: Spectrum, steps: int) -> Tensor:
        shape = (-1, *[1] * spectrum.values.dim())
        parameters = [torch.from_numpy(column.copy()).reshape(shape) for column in self.values(grid).T]
        found = self.family.residual(spectrum, steps, *parameters)
        return found if parameters else found[:, None].expand(steps, len(grid), *spectrum.values.shape)

    def _skills(self, residuals: Tensor) -> Tensor:
        """Return the mean skill over passes from residuals (..., pass · problem · coordinate)."""
        shares = 1 - residuals.unflatten(-1, (len(self.passes), -1)).square().sum(-1)
        return shares.clamp(min=-1).mean(-1)

    def _scores(self, grid: np.ndarray) -> list[Tensor]:
        """Return the score of every grid point for each schedule."""
        sequences = self._sequences(grid, self.steps)
        return [
            self._skills(self._residuals(sequences, [schedule] * len(grid)))
            for schedule in self.family.schedules()
        ]

    def _coarse_scores(self, grid: np.ndarray) -> list[Tensor]:
        """Return the same of a filter, as if neighbouring eigenvalues were one."""
        spectrum, weight, cross = _binned(self.data, self.spectrum)
        filters = self._filters(grid, spectrum, self.steps)
        reference = self.data.reference(spectrum.values)
        relative = _bounded((filters - reference) / (1 - reference).clamp(min=1e-12), self.data.limit)
        squares = relative.square() @ weight if weight.dim() == 1 else (relative @ weight * relative).sum(-1)
        products = relative @ cross[self.passes].mT  # (step, grid, pass)
        found = []
        for pace, offset in self.family.schedules():
            chosen = [number - 1 for number in step_numbers(self.passes, pace, offset)]
            explained = 2 * products[chosen, :, range(len(chosen))] - squares[chosen]
            found.append((explained / self.energy[:, None]).clamp(min=-1).mean(0))
        return found


def _binned(data: Measured, spectrum: Spectrum) -> tuple[Spectrum, Tensor, Tensor]:
    """Return eigenvalues that stand for all of them, and the moments of their groups."""
    values = spectrum.values.flatten()
    order = (values / spectrum.largest.flatten()).argsort()  # neighbours in units of their prompt's largest
    count = min(_COARSE, len(order))
    group = torch.empty_like(order)
    group[order] = torch.arange(len(order)) * count // len(order)
    importance = data.importance.flatten()
    sums = importance.new_zeros(count).index_add_(0, group, importance)
    places = [
        torch.zeros_like(sums).index_add_(0, group, part.flatten() * importance) / sums.clamp(min=1e-300)
        for part in (spectrum.values, spectrum.largest, spectrum.smallest)
    ]
    return Spectrum(*places), *data.moments(group.view_as(spectrum.values), count)


def _fit_best_polynomial(train: Measured, test: Measured, passes: Sequence[int]) -> Fit:
    spectrum = Spectrum.of(train.eigenvalues)
    most = PACES[-1] * max(len(train.values), len(test.values)) + OFFSETS[-1]
    found = filters.best_polynomial_coefficients(spectrum, most)
    family = Family(
        name=BEST_POLYNOMIAL,
        filter=lambda given, steps: filters.from_recurrence(given, found[:steps]),
    )
    return fit_family(family, train, test, passes)


def _bounded(values: Tensor, limit: float) -> Tensor:
    return values.nan_to_num(nan=limit, posinf=limit, neginf=-limit).clamp_(-limit, limit)
