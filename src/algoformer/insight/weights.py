"""The linear model that a solver's answers imply, and how far it is from least squares."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor

from algoformer.insight.answers import Reader
from algoformer.insight.contexts import Contexts, derivative
from algoformer.insight.measured import Measured, typical_unit
from algoformer.problems import identity

_ROUNDS = 4
"""Iterations of the fit behind a link; a piecewise linear one needs few."""

_SPANNED = 1e-6
"""The largest error with which features that have a constant among them explain it."""

_NEAR_ONE = 30.0
"""Eigenvalues of S that are typically within this factor of 1 are searched in units of 1."""


@dataclass(frozen=True, kw_only=True)
class Implied(Measured):
    """Weights fitted to the answers at the queries, after each pass; everything in float64.

    Attributes:
        weights: (step, problem, feature).
        offset: (step, problem), the constant part of the answers.
        nonlinear: (step,), the share of the answers' variance that is not linear in the query's features.
        constant: (step,), the share of the fitted answers' mean square that is due to `offset`.
    """

    weights: Tensor
    offset: Tensor
    nonlinear: Tensor
    constant: Tensor

    @property
    def values(self) -> Tensor:
        """The weights themselves."""
        return self.weights

    @property
    def solved(self) -> Tensor:
        """The least-squares weights."""
        return self.solution

    @cached_property
    def left(self) -> Tensor:
        """The rest to least squares, e_t = w_LS - w_t, (step, problem, feature)."""
        return self.solution - self.weights

    @cached_property
    def left_parts(self) -> Tensor:
        """Components of what is left along the eigenvectors of S, (step, problem, feature)."""
        return self.along(self.left)

    def seen(self, parts: Tensor) -> Tensor:
        """Return the parts themselves: every direction is measured."""
        return parts

    def filtered(self, ratio: Tensor) -> Tensor:
        """Return the filter times the components of the least-squares weights."""
        return ratio.repeat_interleave(self.outs, -2) * self.solution_parts

    def moments(self, group: Tensor, count: int) -> tuple[Tensor, Tensor]:
        """Return sums over groups; no direction is mixed with another one, so that the form is diagonal."""
        problems = group.repeat_interleave(self.outs, 0).flatten()
        cross = (self.left_parts * self.solution_parts).flatten(1)
        both = torch.cat([self.solution_parts.square().flatten()[None], cross])
        sums = both.new_zeros(len(both), count).index_add_(1, problems, both)
        return sums[0], sums[1:]

    @property
    def importance(self) -> Tensor:
        """The squared components of the least-squares weights, (prompt, feature)."""
        return self.solution_parts.square().unflatten(0, (-1, self.outs)).sum(1)

    def select(self, index: Tensor) -> Implied:
        """Return the problems of some of the prompts."""
        chosen = self.problems_of(index)
        return replace(
            self,
            features=self.features[index],
            labels=self.labels[chosen],
            weights=self.weights[:, chosen],
            offset=self.offset[:, chosen],
        )


def implied_weights(read: Reader, contexts: Contexts, steps: int) -> Implied:
    """Fit weights and a constant to a solver's answers at the queries, for each pass and prompt."""
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
    design = _design(features)
    fitted = _fitted(design, answers, contexts)  # (step, batch, out, feature + 1)
    values = torch.einsum("bqf,tbof->tbqo", design, fitted)
    fitted = torch.nn.functional.pad(fitted, (0, dim + 1 - design.shape[-1]))
    rest = answers - contexts.link(values)
    variance = (answers - answers.mean(2, keepdim=True)).square().sum((1, 2, 3)) / (count - 1)
    nonlinear = rest.square().sum((1, 2, 3)) / (count - dim - 1) / variance.clamp(min=1e-300)
    unit = typical_unit(contexts.features)
    return Implied(
        unit=1.0 if 1 / _NEAR_ONE < unit < _NEAR_ONE else unit,
        features=contexts.features,
        labels=contexts.labels.double().mT.flatten(0, 1),
        weights=fitted[..., :-1].flatten(1, 2),
        offset=fitted[..., -1].flatten(1, 2),
        nonlinear=nonlinear,
        constant=fitted[..., -1].square().mean((1, 2)) / values.square().mean((1, 2, 3)).clamp(min=1e-300),
        outs=out,
    )


def _design(features: Tensor) -> Tensor:
    """Return the features and a constant, unless they have one: two would share its weight."""
    constant = torch.ones_like(features[..., :1])
    explained = features @ (torch.linalg.pinv(features) @ constant)
    has_one = bool((explained - constant).abs().max() < _SPANNED)
    return features if has_one else torch.cat([features, constant], dim=-1)


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
