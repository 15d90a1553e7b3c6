"""Measurements of a solver on the regression inside prompts, in the form that families predict."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

import torch
from torch import Tensor

_LARGEST = 2.5
"""The largest eigenvalue of S for twice as many examples as features, which are normal with variance 1."""


def typical_unit(features: Tensor) -> float:
    """Return the unit in which the eigenvalues of S = FᵀF/n are near those of standard normal features."""
    largest = torch.linalg.matrix_norm(features, ord=2).square() / features.shape[1]
    return float(largest.median()) / _LARGEST


@dataclass(frozen=True, kw_only=True)
class Search:
    """The effort of a search for the parameters of families.

    Attributes:
        grid: the values of a single parameter that are tried at first.
        starts: the schedules of steps from which a local search starts, beside one step a pass.
        rounds: iterations of the local search from each start, at most.
        polish: further iterations from the best of these, at most.
        limit: filters are clamped to this, or to more where a solver diverges: a diverging candidate is bad,
            not infinite.
    """

    grid: int = 48
    starts: int = 2
    rounds: int = 12
    polish: int = 0
    limit: float = 1e3


@dataclass(frozen=True, kw_only=True)
class Measured(ABC):
    """Numbers that were measured after each pass, and the regression problems they belong to; in float64.

    A prompt with several outputs counts as several regression problems with the same examples; problems of
    one prompt stand side by side. A subclass says which numbers are measured: `values` of the solver,
    `solved` of the reference, and with `seen` those of any other method. The reference is ridge regression
    with strength `penalty` on S = FᵀF/n, least squares for 0; e_t = solved - values is what is left.

    Attributes:
        features: of the examples, (prompt, sample, feature).
        labels: (problem, sample).
        outs: the number of outputs of a prompt.
        penalty: the strength ρ of the reference.
        unit: the typical eigenvalue of S, in whose units parameters of families are searched.
    """

    search: ClassVar[Search] = Search()
    """The effort of the search for parameters of families."""

    features: Tensor
    labels: Tensor
    outs: int = 1
    penalty: float = 0.0
    unit: float = 1.0

    @property
    @abstractmethod
    def values(self) -> Tensor:
        """The measured numbers, (step, problem, coordinate)."""

    @property
    @abstractmethod
    def solved(self) -> Tensor:
        """The same numbers of the reference, (problem, coordinate)."""

    @property
    @abstractmethod
    def left_parts(self) -> Tensor:
        """What is left to the reference, in the coordinates of `seen`, (step, problem, coordinate)."""

    @abstractmethod
    def seen(self, parts: Tensor) -> Tensor:
        """Return what a measurement shows (..., problem, coordinate) of weights along the eigenvectors."""

    @abstractmethod
    def filtered(self, ratio: Tensor) -> Tensor:
        """Return what a residual filter (..., prompt, feature) leaves, (..., problem, coordinate)."""

    @abstractmethod
    def moments(self, group: Tensor, count: int) -> tuple[Tensor, Tensor]:
        """Return the quadratic form of what filters explain that are constant on groups of eigenvalues.

        `group` has a number below `count` for every eigenvalue, (prompt, feature). With a ratio x_g to the
        reference a filter predicts p(x), and Σ|p|² is xᵀWx, where W is (count, count), or its diagonal;
        Σ<p, e_t> is <x, c_t>, with c (step, count).
        """

    @property
    @abstractmethod
    def importance(self) -> Tensor:
        """How much each direction contributes to the numbers of the reference, (prompt, feature)."""

    @abstractmethod
    def select(self, index: Tensor) -> Measured:
        """Return the problems of some of the prompts."""

    @cached_property
    def _decomposed(self) -> tuple[Tensor, Tensor]:
        return torch.linalg.eigh(self.features.mT @ self.features / self.features.shape[1])

    @property
    def eigenvalues(self) -> Tensor:
        """Eigenvalues λ of S = FᵀF/n in rising order, (prompt, feature)."""
        return self._decomposed[0]

    @property
    def eigenvectors(self) -> Tensor:
        """Eigenvectors of S as columns, (prompt, feature, feature)."""
        return self._decomposed[1]

    @cached_property
    def solution(self) -> Tensor:
        """The least-squares weights of smallest norm, (problem, feature)."""
        labels = self.labels.unflatten(0, (-1, self.outs)).mT
        return (torch.linalg.pinv(self.features) @ labels).mT.flatten(0, 1)

    @cached_property
    def solution_parts(self) -> Tensor:
        """Components of the least-squares weights along the eigenvectors of S, (problem, feature)."""
        return self.along(self.solution)

    def along(self, weights: Tensor) -> Tensor:
        """Return components of weights (..., problem, feature) along the eigenvectors of S."""
        return (weights.unflatten(-2, (-1, self.outs)) @ self.eigenvectors).flatten(-3, -2)

    def reference(self, eigenvalues: Tensor) -> Tensor:
        """Return the residual filter of the reference, ρ/(λ + ρ)."""
        if not self.penalty:
            return torch.zeros_like(eigenvalues)
        return self.penalty / (eigenvalues.clamp(min=0) + self.penalty)

    @cached_property
    def limit(self) -> float:
        """Where filters are clamped: far above what is left, so that a solver that diverges can be named."""
        largest = float(self.left_parts.abs().max() / self.solved.abs().max().clamp(min=1e-300))
        return max(self.search.limit, 100 * largest)

    @property
    def reference_name(self) -> str:
        """The reference in words."""
        return f"ridge regression with ρ = {self.penalty:.4g}" if self.penalty else "least squares"

    @property
    def energy(self) -> Tensor:
        """|e_t|² for each pass and problem, (step, problem)."""
        return self.left_parts.square().sum(-1)

    @property
    def error(self) -> Tensor:
        """Σ|e_t|² / Σ|solved|² for each pass: 1 for answers 0, 0 for the reference."""
        return self.energy.sum(1) / self.solved.square().sum().clamp(min=1e-300)

    @property
    def solutions(self) -> dict[str, Tensor]:
        """What exact solvers show, by the names of their methods, (problem, coordinate)."""
        return {"least squares": self.solved}

    @property
    def learned(self) -> Tensor:
        """The squared correlation of what was measured with an exact solution, the larger, for each pass."""
        found = []
        for exact in self.solutions.values():
            product = (self.values * exact).sum((1, 2)).square()
            norms = self.values.square().sum((1, 2)) * exact.square().sum()
            found.append(product / norms.clamp(min=1e-300))
        return torch.stack(found).amax(0)

    def exact(self, tolerance: float) -> str | None:
        """Return the method whose exact solution every pass shows, up to a share of its size, or None."""
        for name, exact in self.solutions.items():
            gap = (self.values - exact).square().sum((1, 2)).max()
            if float(gap / exact.square().sum().clamp(min=1e-300)) < tolerance:
                return name
        return None

    def reweighted(self, importance: Tensor) -> Measured:
        """Return the same measurement beside examples that count with `importance` (sample,)."""
        root = (importance * len(importance) / importance.sum()).sqrt()
        return replace(self, features=self.features * root[:, None], labels=self.labels * root)

    def problems_of(self, index: Tensor) -> Tensor:
        """Return the numbers of the problems of some of the prompts."""
        return (index[:, None] * self.outs + torch.arange(self.outs)).flatten()
