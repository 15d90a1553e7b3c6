"""Fit every family to measured weights on some prompts and score it on others."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from algoformer.insight import filters
from algoformer.insight.families import BEST_POLYNOMIAL, FAMILIES, OFFSETS, PACES, Family
from algoformer.insight.filters import Spectrum
from algoformer.insight.weights import Implied

_LIMIT = 1e3
"""Filters are clamped to this: a diverging candidate is bad, not infinite."""

_COARSE = 250
"""Eigenvalues that stand for all of them while a grid of parameters is searched."""

_ROUNDS = 12
"""Iterations of the local search for parameters."""


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


def fit_all(train: Implied, test: Implied, passes: Sequence[int], *, iterates: bool = True) -> list[Fit]:
    """Fit every family on `train` so that the passes (counted from 0) count alike; score on `test`.

    With `iterates=False` only closed-form solutions are tried: the measured weights are the same at every
    pass.
    """
    found = [fit_family(family, train, test, passes) for family in FAMILIES if iterates or family.solution]
    if iterates:
        found.append(_fit_best_polynomial(train, test, passes))
    return found


def skill(misfit: Tensor, energy: Tensor) -> Tensor:
    """Return the share of what is left that is explained, 1 - Σ misfit / Σ energy, for each pass."""
    return 1 - misfit.sum(-1) / energy.sum(-1).clamp(min=1e-300)


def fit_family(family: Family, train: Implied, test: Implied, passes: Sequence[int]) -> Fit:
    """Search the family's parameters and schedules on `train`."""
    objective = _Objective(family, train, passes)
    starts = objective.search()
    best = max(
        (objective.refine(*start) for start in starts), key=lambda one: (round(one[0], 9), -one[1], -one[2])
    )
    _, pace, offset, coordinate = best
    parameters = tuple(float(value) for value in objective.values(coordinate[None])[0])
    return Fit(
        family=family,
        parameters=parameters,
        pace=pace,
        offset=offset,
        misfit=misfit_of(family, test, parameters, pace, offset),
    )


def misfit_of(family: Family, data: Implied, parameters: Sequence[float], pace: int, offset: int) -> Tensor:
    """Return |e_t - ê_t|² for every pass and problem of `data`."""
    numbers = step_numbers(range(len(data.weights)), pace, offset)
    return _misfit(data, residual_parts(family, data, max(numbers), *parameters)[numbers])


def residual_parts(family: Family, data: Implied, steps: int, *parameters: float) -> Tensor:
    """Return what a family leaves along the eigenvectors, (step, problem, feature), from step 0 on."""
    if family.filter is not None:
        ratio = _sound(family.residual(Spectrum.of(data.eigenvalues), steps, *parameters))
        parts = ratio * data.solution_parts
    else:
        assert family.iterates is not None
        weights = family.iterates(data.features, data.labels, steps, *parameters)
        parts = torch.einsum("bij,kbi->kbj", data.eigenvectors, data.solution - weights)
        parts = _bounded(parts, data)
    return torch.cat([data.solution_parts[None], parts])


def step_numbers(passes: Sequence[int], pace: int, offset: int) -> list[int]:
    """Return the algorithm's step number after each pass (passes counted from 0)."""
    return [pace * (index + 1) + offset for index in passes]


class _Objective:
    """The mean skill over passes of one family on training prompts, as a function of its parameters."""

    def __init__(self, family: Family, data: Implied, passes: Sequence[int]) -> None:
        self.family, self.data, self.passes = family, data, list(passes)
        self.energy = data.energy[self.passes].sum(1)
        self.steps = max(step_numbers(self.passes, pace, offset)[-1] for pace, offset in family.schedules())
        spectrum = Spectrum.of(data.eigenvalues)
        flat = Spectrum(spectrum.values.flatten(), spectrum.largest.flatten(), spectrum.smallest.flatten())
        weight = data.solution_parts.flatten().square()
        cross = (data.left_parts[self.passes] * data.solution_parts).flatten(1)
        self.fine = (flat, weight, cross)
        self.coarse = self.fine if len(weight) <= _COARSE else _binned(flat, weight, cross)

    def values(self, coordinates: np.ndarray) -> np.ndarray:
        ranges = self.family.parameters
        columns = [one.value(coordinates[:, index]) for index, one in enumerate(ranges)]
        return np.stack(columns, axis=1) if columns else np.zeros((len(coordinates), 0))

    def search(self) -> list[tuple[int, int, np.ndarray]]:
        """Return the most promising starts (pace, offset, coordinate), one step a pass always among them."""
        ranges = self.family.parameters
        count = {0: 1, 1: 48}.get(len(ranges), 14)
        count = min(count, 20) if self.family.filter is None else count
        grid = np.array(list(itertools.product(*[one.grid(count) for one in ranges])))
        sequences = self._sequences(grid, self.coarse, self.steps)
        found = []
        for pace, offset in self.family.schedules():
            scores = self._score(sequences, self.coarse, pace, offset)
            best = int(scores.argmax())
            found.append((float(scores[best]), pace, offset, grid[best]))
        plain = found[0]
        ranked = sorted(found[1:], key=lambda one: -one[0])[:2]
        return [(pace, offset, place) for _, pace, offset, place in (plain, *ranked)]

    def refine(self, pace: int, offset: int, place: np.ndarray) -> tuple[float, int, int, np.ndarray]:
        """Return the best score and coordinate near a grid point, by Levenberg and Marquardt's method."""
        steps = step_numbers(self.passes, pace, offset)[-1]

        def residuals(points: np.ndarray) -> Tensor:
            return self._residuals(self._sequences(points, self.fine, steps), pace, offset)

        nudges, damping = 1e-5 * np.eye(len(place)), 1e-3
        now = residuals(place[None])[0]
        for _ in range(_ROUNDS if len(place) else 0):
            slopes = ((residuals(place + nudges) - now) / 1e-5).numpy()
            normal, gradient = slopes @ slopes.T, slopes @ now.numpy()
            scale = damping * np.diag(np.diag(normal)) + 1e-14 * np.eye(len(place))
            move = -np.linalg.lstsq(normal + scale, gradient, rcond=None)[0]
            tried = residuals((place + np.clip(move, -0.5, 0.5))[None])[0]
            if float(tried @ tried) < float(now @ now):
                place, now, damping = place + np.clip(move, -0.5, 0.5), tried, damping / 10
            else:
                damping *= 10
        sequences = self._sequences(place[None], self.fine, steps)
        return float(self._score(sequences, self.fine, pace, offset)[0]), pace, offset, place

    def _residuals(self, sequences: Tensor, pace: int, offset: int) -> Tensor:
        """Return (predicted - measured parts) / √energy, (grid, pass · problem · feature)."""
        chosen = sequences[[number - 1 for number in step_numbers(self.passes, pace, offset)]]
        if self.family.filter is not None:
            chosen = chosen * self.data.solution_parts.flatten()
        gap = chosen - self.data.left_parts[self.passes].flatten(1)[:, None]
        return (gap / self.energy.clamp(min=1e-300).sqrt()[:, None, None]).transpose(0, 1).flatten(1)

    def _sequences(self, grid: np.ndarray, data: tuple[Spectrum, Tensor, Tensor], steps: int) -> Tensor:
        """Return filters (step, grid, eigenvalue), or parts (step, grid, problem · feature)."""
        values = self.values(grid)
        if self.family.filter is not None:
            parameters = [torch.from_numpy(column.copy())[:, None] for column in values.T]
            spectrum, weight, _ = data
            found = _sound(self.family.residual(spectrum, steps, *parameters))
            return found if parameters else found[:, None].expand(steps, len(grid), len(weight))
        parts = [residual_parts(self.family, self.data, steps, *row)[1:].flatten(1) for row in values]
        return torch.stack(parts, dim=1)

    def _score(
        self, sequences: Tensor, data: tuple[Spectrum, Tensor, Tensor], pace: int, offset: int
    ) -> Tensor:
        chosen = sequences[[number - 1 for number in step_numbers(self.passes, pace, offset)]]
        if self.family.filter is not None:
            _, weight, cross = data
            explained = 2 * torch.einsum("tgn,tn->tg", chosen, cross) - chosen.square() @ weight
            shares = explained / self.energy[:, None]
        else:
            left = self.data.left_parts[self.passes].flatten(1)[:, None]
            shares = 1 - (chosen - left).square().sum(-1) / self.energy[:, None]
        return shares.clamp(min=-1).mean(0)


def _binned(spectrum: Spectrum, weight: Tensor, cross: Tensor) -> tuple[Spectrum, Tensor, Tensor]:
    # sums over neighbours in λ/λmax, so that eigenvalues in units of the largest stay close together
    parts = spectrum.values, spectrum.largest, spectrum.smallest
    order = (spectrum.values / spectrum.largest).argsort()
    group = torch.empty_like(order)
    group[order] = torch.arange(len(order)) * _COARSE // len(order)

    def total(numbers: Tensor) -> Tensor:
        return torch.zeros(*numbers.shape[:-1], _COARSE, dtype=numbers.dtype).index_add_(-1, group, numbers)

    sums = total(weight)
    places = [total(part * weight) / sums.clamp(min=1e-300) for part in parts]
    return Spectrum(*places), sums, total(cross)


def _fit_best_polynomial(train: Implied, test: Implied, passes: Sequence[int]) -> Fit:
    spectrum = Spectrum.of(train.eigenvalues)
    most = PACES[-1] * max(len(train.weights), len(test.weights)) + OFFSETS[-1]
    coefficients = filters.best_polynomial_coefficients(spectrum, most)

    def rule(given: Spectrum, steps: int) -> Tensor:
        return filters.from_recurrence(given, coefficients[:steps])

    return fit_family(Family(name=BEST_POLYNOMIAL, filter=rule), train, test, passes)


def _misfit(data: Implied, parts: Tensor) -> Tensor:
    return (data.left_parts - parts).square().sum(-1)


def _bounded(parts: Tensor, data: Implied) -> Tensor:
    limit = _LIMIT * float(data.solution_parts.abs().max())
    return parts.nan_to_num(nan=limit, posinf=limit, neginf=-limit).clamp(-limit, limit)


def _sound(ratio: Tensor) -> Tensor:
    return ratio.nan_to_num(nan=_LIMIT, posinf=_LIMIT, neginf=-_LIMIT).clamp(-_LIMIT, _LIMIT)
