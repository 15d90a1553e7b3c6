"""Fit the scaling law of looped models, L = E + A (N_once + r^φ N_loop)^-α + B D^-β, with bootstrap bands.

r repetitions of a loop with N_loop parameters count as r^φ N_loop parameters: φ = 1 means that a repeated
layer is worth a layer of its own, φ = 0 that repeating it gains nothing. E, A and B enter linearly. For given
exponents they are a least-squares problem with non-negative unknowns, which is solved exactly; only the
exponents are searched (variable projection). Residuals are relative, (fit - L) / L.

Runs of several recipes are fitted together: each recipe has its own φ, all share the other parameters.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, product
from typing import Any

import numpy as np
from numpy import ndarray

BOUNDS = {"alpha": (0.01, 3.0), "beta": (0.01, 3.0), "phi": (-2.0, 3.0)}
"""The exponents lie in these ranges; a fit at an end of one is not determined by the runs."""

STARTS = {"alpha": (0.1, 0.3, 0.6, 1.0, 1.8), "beta": (0.1, 0.3, 0.6, 1.0, 1.8), "phi": (0.0, 0.5, 1.0)}
"""The search begins at the best few of these exponents."""

SUPPORTS = [list(one) for size in (1, 2, 3) for one in combinations(range(3), size)]
"""Which of E, A and B are positive; the others are zero."""


@dataclass(frozen=True, kw_only=True)
class Runs:
    """The runs of a study, one entry for each in every array.

    Attributes:
        once: parameters outside the loop.
        loop: parameters inside the loop.
        repetitions: how often the loop runs, r.
        data: tokens or prompts seen in training.
        loss: the loss on held-out data.
        recipe: the name of the recipe, which has a φ of its own.
    """

    once: ndarray
    loop: ndarray
    repetitions: ndarray
    data: ndarray
    loss: ndarray
    recipe: ndarray

    def __post_init__(self) -> None:
        numbers = (self.once + self.loop, self.repetitions, self.data, self.loss)
        if not all(np.isfinite(one).all() and (one > 0).all() for one in numbers):
            raise ValueError("parameters, repetitions, data and losses of all runs must be positive numbers")
        for name in self.recipes:
            self._check_recipe(name)
        unknown = 5 + max(1, len(self.recipes))
        if len(self.loss) <= unknown:
            raise ValueError(f"{len(self.loss)} runs cannot determine {unknown} parameters; train more runs")
        if len(set(self.data.tolist())) < 2:
            raise ValueError(f"all runs saw {self.data[0]:g} of the data; β needs at least two amounts")
        if len(set((self.once + self.loop).tolist())) < 2:
            raise ValueError("all runs have the same number of parameters; α needs at least two sizes")

    def _check_recipe(self, name: str) -> None:
        # with r = 1 a loop has the same law for every recipe
        chosen = ((self.recipe == name) | (self.repetitions == 1)) & (self.loop > 0)
        found = sorted(set(self.repetitions[chosen].tolist()))
        if len(found) < 2:
            shown = f"only r = {found[0]:g}" if found else "no loop"
            raise ValueError(
                f"the runs of recipe {name!r} have {shown}; φ needs at least two numbers of repetitions"
            )

    @property
    def recipes(self) -> tuple[str, ...]:
        """The names of the recipes, in the order of their first runs."""
        return tuple(dict.fromkeys(self.recipe.tolist()))

    @classmethod
    def of(cls, rows: Sequence[Mapping[str, Any]]) -> Runs:
        """Return the runs from rows with the keys once, loop, repetitions, data, loss and recipe."""
        numbers = {
            name: np.array([row[name] for row in rows], dtype=float)
            for name in ("once", "loop", "repetitions", "data", "loss")
        }
        return cls(recipe=np.array([row["recipe"] for row in rows], dtype=object), **numbers)


@dataclass(frozen=True, kw_only=True)
class Law:
    """A fitted law.

    Attributes:
        E: the loss that neither parameters nor data lower.
        A: factor of the term of the parameters.
        B: factor of the term of the data.
        alpha: exponent of the parameters.
        beta: exponent of the data.
        phi: the value of a repetition, by recipe.
    """

    E: float
    A: float
    B: float
    alpha: float
    beta: float
    phi: dict[str, float]

    def effective(self, once: Any, loop: Any, repetitions: Any, recipe: str = "") -> Any:
        """Return the parameters of a model without loop of equal loss; the first recipe is the default."""
        phi = self.phi[recipe] if recipe else next(iter(self.phi.values()))
        return once + repetitions**phi * loop

    def loss(self, parameters: Any, data: Any) -> Any:
        """Return the loss of a model with so many effective parameters, trained on so much data."""
        return self.E + self.A * parameters**-self.alpha + self.B * data**-self.beta

    @property
    def at_bounds(self) -> list[str]:
        """The exponents at an end of their range, which the runs do not determine."""
        found = {"alpha": self.alpha, "beta": self.beta} | {f"phi {name}": x for name, x in self.phi.items()}
        ends = {name: BOUNDS[name.partition(" ")[0]] for name in found}
        return [name for name, x in found.items() if min(x - ends[name][0], ends[name][1] - x) < 1e-3]


@dataclass(frozen=True, kw_only=True)
class Fit:
    """A law with the laws of resampled runs.

    Attributes:
        law: the fit to all runs.
        resampled: values of the parameters for every resample, by name: "E", "A", "B", "alpha", "beta", and
            φ under the name of its recipe.
        error: root mean square of the relative residuals.
    """

    law: Law
    resampled: dict[str, ndarray]
    error: float

    def band(self, name: str, minus: str = "", *, share: float = 0.9) -> tuple[float, float]:
        """Return the central `share` of the resamples of a parameter, or of its difference to another one.

        Args:
            name: a key of `resampled`.
            minus: a key whose value in the same resample is subtracted.
            share: of the resamples that the band holds.
        """
        values = self.resampled[name] - (self.resampled[minus] if minus else 0.0)
        low, high = np.quantile(values, [(1 - share) / 2, (1 + share) / 2])
        return float(low), float(high)


def fit(runs: Runs, *, resamples: int = 1000, seed: int = 0) -> Fit:
    """Fit the law; resample runs with replacement among those of equal recipe and repetitions."""
    problem, alike = _Problem(runs), np.ones((1, len(runs.loss)))
    exponents = problem.search(alike)
    values = problem.named(exponents, alike)
    numbers = {name: float(value[0]) for name, value in values.items()}
    phi = {name: numbers.pop(name) for name in runs.recipes}
    residuals = problem.project(exponents, alike)[1]
    weights = _resamples(runs, resamples, np.random.default_rng(seed))
    again, _ = problem.descend(np.repeat(exponents, resamples, axis=0), weights)
    return Fit(
        law=Law(phi=phi, **numbers),
        resampled=problem.named(again, weights),
        error=float(np.sqrt((residuals**2).mean())),
    )


def _resamples(runs: Runs, count: int, generator: np.random.Generator) -> ndarray:
    """Return how often each run is drawn, for every resample."""
    weights = np.zeros((count, len(runs.loss)))
    kinds = np.array([f"{name}/{r}" for name, r in zip(runs.recipe, runs.repetitions, strict=True)])
    for kind in sorted(set(kinds)):
        places = np.flatnonzero(kinds == kind)
        drawn = generator.integers(len(places), size=(count, len(places)))
        for column in drawn.T:
            np.add.at(weights, (np.arange(count), places[column]), 1.0)
    return weights


class _Problem:
    """Least squares in the exponents, for many weightings of the same runs at once."""

    def __init__(self, runs: Runs) -> None:
        self.runs = runs
        self.group = np.array([runs.recipes.index(name) for name in runs.recipe])
        self.size = float(np.exp(np.log(runs.once + runs.loop).mean()))
        self.amount = float(np.exp(np.log(runs.data).mean()))
        self.low, self.high = np.array(
            [BOUNDS["alpha"], BOUNDS["beta"], *[BOUNDS["phi"]] * len(runs.recipes)]
        ).T

    def columns(self, exponents: ndarray) -> ndarray:
        """Return what E, A and B are multiplied with, divided by the losses."""
        runs, phi = self.runs, exponents[:, 2:][:, self.group]
        parameters = (runs.once + runs.repetitions**phi * runs.loop) / self.size
        terms = [
            np.ones_like(parameters),
            parameters ** -exponents[:, :1],
            (runs.data / self.amount) ** -exponents[:, 1:2],
        ]
        return np.stack(terms, axis=-1) / runs.loss[:, None]

    def project(self, exponents: ndarray, weights: ndarray) -> tuple[ndarray, ndarray]:
        """Return the best non-negative E, A and B for each row of exponents, and the weighted residuals."""
        columns = self.columns(exponents)
        gram = np.einsum("bni,bn,bnj->bij", columns, weights, columns)
        right = np.einsum("bni,bn->bi", columns, weights)
        best = np.full(len(exponents), -np.inf)
        linear = np.zeros((len(exponents), 3))
        for support in SUPPORTS:
            inner = gram[:, support][:, :, support] + 1e-12 * np.eye(len(support))
            found = np.linalg.solve(inner, right[:, support, None])[..., 0]
            explained = (found * right[:, support]).sum(axis=1)
            better = (found >= 0).all(axis=1) & (explained > best)
            best[better] = explained[better]
            linear[better] = 0
            linear[np.ix_(better, support)] = found[better]
        residuals = np.einsum("bni,bi->bn", columns, linear) - 1
        return linear, residuals * np.sqrt(weights)

    def named(self, exponents: ndarray, weights: ndarray) -> dict[str, ndarray]:
        """Return all parameters of the law by name."""
        linear, (alpha, beta) = self.project(exponents, weights)[0].T, exponents.T[:2]
        return {
            "E": linear[0],
            # columns are divided by means of parameters and data
            "A": linear[1] * self.size**alpha,
            "B": linear[2] * self.amount**beta,
            "alpha": alpha,
            "beta": beta,
            **dict(zip(self.runs.recipes, exponents.T[2:], strict=True)),
        }

    def search(self, weights: ndarray) -> ndarray:
        """Return the best exponents for one weighting, from several starts."""
        grid = product(STARTS["alpha"], STARTS["beta"], STARTS["phi"])
        starts = np.array([(a, b, *[p] * len(self.runs.recipes)) for a, b, p in grid])
        found, squares = self.descend(starts, np.repeat(weights, len(starts), axis=0))
        best = squares.argmin()
        return self.descend(found[best : best + 1], weights)[0]

    def descend(self, start: ndarray, weights: ndarray, rounds: int = 30) -> tuple[ndarray, ndarray]:
        """Run the method of Levenberg and Marquardt on every row at once; return exponents and squares."""
        at, damping, step = start.copy(), np.full(len(start), 1e-2), 1e-5
        residuals = self.project(at, weights)[1]
        squares = (residuals**2).sum(axis=1)
        for _ in range(rounds):
            slopes = np.stack(
                [
                    (self.project(at + step * one, weights)[1] - residuals) / step
                    for one in np.eye(at.shape[1])
                ],
                axis=-1,
            )
            gram = np.einsum("bni,bnj->bij", slopes, slopes)
            gram += (damping[:, None] * (np.einsum("bii->bi", gram) + 1e-9))[:, :, None] * np.eye(at.shape[1])
            move = np.linalg.solve(gram, np.einsum("bni,bn->bi", slopes, residuals)[..., None])[..., 0]
            tried = np.clip(at - np.clip(move, -0.5, 0.5), self.low, self.high)
            new = self.project(tried, weights)[1]
            better = (new**2).sum(axis=1) < squares
            at[better], residuals[better] = tried[better], new[better]
            squares = (residuals**2).sum(axis=1)
            damping = np.clip(np.where(better, damping / 5, damping * 4), 1e-9, 1e9)
        return at, squares
