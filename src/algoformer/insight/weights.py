"""The linear model that a solver's answers imply, and how far it is from least squares."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor

from algoformer.insight.answers import Reader
from algoformer.insight.contexts import Contexts, derivative
from algoformer.problems import identity

_ROUNDS = 4
"""Iterations of the fit behind a link; a piecewise linear one needs few."""


@dataclass(frozen=True, kw_only=True)
class Implied:
    """Weights fitted to the answers at the queries, after each pass; everything in float64.

    A prompt with several outputs counts as several regression problems with the same examples.

    Attributes:
        features: (problem, sample, feature).
        labels: (problem, sample).
        weights: (step, problem, feature).
        offset: (step, problem), the constant part of the answers.
        nonlinear: (step,), the share of the answers' variance that is not linear in the query's features.
        outs: the number of outputs of a prompt; problems of one prompt stand side by side.
    """

    features: Tensor
    labels: Tensor
    weights: Tensor
    offset: Tensor
    nonlinear: Tensor
    outs: int = 1

    @cached_property
    def _decomposed(self) -> tuple[Tensor, Tensor]:
        gram = self.features.mT @ self.features / self.features.shape[1]
        return torch.linalg.eigh(gram)

    @property
    def eigenvalues(self) -> Tensor:
        """Eigenvalues λ of S = FᵀF/n in rising order, (problem, feature)."""
        return self._decomposed[0]

    @property
    def eigenvectors(self) -> Tensor:
        """Eigenvectors of S as columns, (problem, feature, feature)."""
        return self._decomposed[1]

    @cached_property
    def solution(self) -> Tensor:
        """The least-squares weights of smallest norm, (problem, feature)."""
        return (torch.linalg.pinv(self.features) @ self.labels[..., None])[..., 0]

    @cached_property
    def left(self) -> Tensor:
        """The rest to least squares, e_t = w_LS - w_t, (step, problem, feature)."""
        return self.solution - self.weights

    @cached_property
    def left_parts(self) -> Tensor:
        """Components of what is left along the eigenvectors of S, (step, problem, feature)."""
        return torch.einsum("bij,tbi->tbj", self.eigenvectors, self.left)

    @cached_property
    def solution_parts(self) -> Tensor:
        """Components of the least-squares weights along the eigenvectors of S, (problem, feature)."""
        return torch.einsum("bij,bi->bj", self.eigenvectors, self.solution)

    @property
    def energy(self) -> Tensor:
        """|e_t|² for each pass and problem, (step, problem)."""
        return self.left.square().sum(-1)

    @property
    def error(self) -> Tensor:
        """Σ|e_t|² / Σ|w_LS|² for each pass: 1 for zero weights, 0 for least squares."""
        return self.energy.sum(1) / self.solution.square().sum().clamp(min=1e-300)

    @property
    def learned(self) -> Tensor:
        """The squared correlation of w_t with w_LS for each pass."""
        product = (self.weights * self.solution).sum((1, 2)).square()
        norms = self.weights.square().sum((1, 2)) * self.solution.square().sum()
        return product / norms.clamp(min=1e-300)

    def select(self, index: Tensor) -> Implied:
        """Return the problems of some of the prompts."""
        chosen = (index[:, None] * self.outs + torch.arange(self.outs)).flatten()
        return replace(
            self,
            features=self.features[chosen],
            labels=self.labels[chosen],
            weights=self.weights[:, chosen],
            offset=self.offset[:, chosen],
        )

    def reweighted(self, importance: Tensor) -> Implied:
        """Return the same weights beside examples that count with `importance` (sample,)."""
        root = (importance * len(importance) / importance.sum()).sqrt()
        return replace(self, features=self.features * root[:, None], labels=self.labels * root)


def implied_weights(read: Reader, contexts: Contexts, steps: int) -> Implied:
    """Fit weights and a constant to a solver's answers at the queries, for each pass and prompt.

    Raises:
        ValueError: there are too few queries to fit weights and to see whether answers are linear.
    """
    features = contexts.query_features
    count, dim = features.shape[1:]
    # a link such as the leaky ReLU passes on little of half of the values: half of the queries hardly count
    least = (dim + 2) * (1 if contexts.unlink is identity else 2)
    if count < least:
        raise ValueError(
            f"queries must be at least {least} for {dim} features (three times that is better), got {count}"
        )
    answers = read(contexts, steps)  # (step, batch, query, out)
    out = answers.shape[-1]
    design = torch.cat([features, torch.ones_like(features[..., :1])], dim=-1)
    fitted = _fitted(design, answers, contexts)  # (step, batch, out, feature + 1)
    rest = answers - contexts.link(torch.einsum("bqf,tbof->tbqo", design, fitted))
    variance = (answers - answers.mean(2, keepdim=True)).square().sum((1, 2, 3)) / (count - 1)
    nonlinear = rest.square().sum((1, 2, 3)) / (count - dim - 1) / variance.clamp(min=1e-300)
    examples = contexts.features[:, None].expand(-1, out, -1, -1).flatten(0, 1)
    return Implied(
        features=examples,
        labels=contexts.labels.double().mT.flatten(0, 1),
        weights=fitted[..., :-1].flatten(1, 2),
        offset=fitted[..., -1].flatten(1, 2),
        nonlinear=nonlinear,
        outs=out,
    )


def _fitted(design: Tensor, answers: Tensor, contexts: Contexts) -> Tensor:
    """Return weights and a constant (step, batch, out, feature + 1) whose answers are nearest to `answers`.

    Behind a link this is least squares by Gauss and Newton's method.
    """
    if contexts.unlink is identity:
        return torch.einsum("bfq,tbqo->tbof", torch.linalg.pinv(design), answers)

    def solved(slope: Tensor, gap: Tensor) -> Tensor:
        weighted = slope.square()
        gram = torch.einsum("tbqo,bqf,bqg->tbofg", weighted, design, design)
        cross = torch.einsum("tbqo,bqf->tbof", weighted * gap, design)
        return torch.linalg.solve(gram, cross)

    slope = derivative(contexts.unlink, answers).reciprocal()
    fitted = solved(slope, contexts.unlink(answers))
    for _ in range(_ROUNDS):
        values = torch.einsum("bqf,tbof->tbqo", design, fitted)
        slope = derivative(contexts.link, values)
        fitted = fitted + solved(slope, (answers - contexts.link(values)) / slope)
    return fitted
