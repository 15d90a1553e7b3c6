"""Upper bounds on what families can explain, so that a low share can be read.

One filter for all prompts bounds every spectral method. For fixed examples and many weights, the operator
from the weights to what is left is measured twice on independent halves: its diagonal in the eigenbasis
bounds filters chosen prompt by prompt, its symmetric part symmetric methods, all of it methods that are
linear in the labels.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from algoformer.insight.answers import Reader
from algoformer.insight.contexts import Contexts
from algoformer.insight.measured import Measured
from algoformer.insight.weights import implied_weights

_QUANTILES = (0.1, 0.25, 0.5, 0.75, 0.9)


@dataclass(frozen=True)
class FilterCurve:
    """A cubic spline in log λ for each pass: the best filter that all prompts share.

    The spline says which share of the reference's answer is left, so that r = r_ref + (1 - r_ref) spline.
    Eigenvalues are in units of `unit`.
    """

    knots: Tensor
    coefficients: Tensor  # (step, basis)
    reference: Callable[[Tensor], Tensor]
    unit: float = 1.0

    def __call__(self, eigenvalues: Tensor) -> Tensor:
        """Return the filter (step, ...) at eigenvalues of any shape."""
        basis = _basis(eigenvalues / self.unit, self.knots)
        reference = self.reference(eigenvalues)
        return reference + (1 - reference) * torch.einsum("...k,tk->t...", basis, self.coefficients)


def best_filter(train: Measured) -> FilterCurve:
    """Fit one filter curve for each pass to all prompts."""
    values = train.eigenvalues / train.unit
    places = values.clamp(min=1e-6).log().flatten()
    knots = torch.quantile(places, places.new_tensor(_QUANTILES))
    reference = train.reference(train.eigenvalues)
    basis = _basis(values, knots).movedim(-1, 0)
    columns = train.filtered(reference + (1 - reference) * basis)
    design = columns.flatten(1).mT  # (problem · coordinate, basis)
    gram = design.mT @ design
    gram = gram + 1e-10 * gram.diagonal().mean() * torch.eye(len(gram), dtype=gram.dtype)
    target = design.mT @ train.left_parts.flatten(1).mT  # (basis, step)
    return FilterCurve(knots, torch.linalg.solve(gram, target).mT, train.reference, train.unit)


def operator_ceilings(
    read: Reader, contexts: Contexts, *, steps: int, problems: int, seed: int
) -> dict[str, tuple[float, ...]]:
    """Return the shares of what is left that any filter per prompt, symmetric map or linear map explains.

    The first `problems` of the contexts give the examples, all of them give queries.
    """
    features = contexts.features[:problems]
    dim, outs = features.shape[-1], contexts.labels.shape[-1]
    prompts = -(-(dim + max(6, dim // 2)) // outs)  # for each half; a prompt has `outs` sets of weights
    half = prompts * outs
    weights = torch.randn(problems, 2 * half, dim, generator=torch.Generator().manual_seed(seed)).double()
    size = contexts.labels[:problems].square().mean() / (features @ weights.mT).square().mean()
    weights = weights * size.sqrt()
    labels = torch.einsum("bnd,bkd->bkn", features, weights).unflatten(1, (-1, outs)).mT
    contexts_of_queries = torch.arange(problems * 2 * prompts) % contexts.batch
    many = contexts.head(problems).repeated(2 * prompts).with_labels(labels.flatten(0, 1))
    many = many.with_queries(contexts.query_rows[contexts_of_queries])
    found = implied_weights(read, many, steps)
    left = found.left.unflatten(1, (problems, 2 * half))  # (step, problem, weights, feature)
    vectors = torch.linalg.eigh(features.mT @ features)[1]
    restrictions = {
        "any filter per prompt": lambda operators: _filtered(operators, vectors),
        "any symmetric map": lambda operators: (operators + operators.mT) / 2,
        "any linear map": lambda operators: operators,
    }
    return {name: _explained(weights, left, half, restrict) for name, restrict in restrictions.items()}


def _explained(
    weights: Tensor, left: Tensor, half: int, restrict: Callable[[Tensor], Tensor]
) -> tuple[float, ...]:
    # an operator from one half is judged on the other: errors of measurement do not count for it
    product = left.new_zeros(len(left))
    for train, test in ((slice(half), slice(half, None)), (slice(half, None), slice(half))):
        operators = restrict(_operators(weights[:, train], left[:, :, train]))
        predicted = torch.einsum("tbdf,bkf->tbkd", operators, weights[:, test])
        product += (predicted * left[:, :, test]).sum((1, 2, 3))
    shares = product / left.square().sum((1, 2, 3)).clamp(min=1e-300)
    return tuple(shares.clamp(0, 1).tolist())


def _operators(weights: Tensor, left: Tensor) -> Tensor:
    design = torch.cat([weights, torch.ones_like(weights[..., :1])], dim=-1)
    return torch.einsum("bfk,tbkd->tbdf", torch.linalg.pinv(design), left)[..., :-1]


def _filtered(operators: Tensor, vectors: Tensor) -> Tensor:
    diagonals = torch.einsum("bij,tbik,bkj->tbj", vectors, operators, vectors)
    return torch.einsum("bij,tbj,bkj->tbik", vectors, diagonals, vectors)


def _basis(eigenvalues: Tensor, knots: Tensor) -> Tensor:
    place = eigenvalues.clamp(min=1e-6).log()
    powers = [torch.ones_like(place), place, place**2, place**3]
    return torch.stack([*powers, *((place - knot).clamp(min=0) ** 3 for knot in knots)], dim=-1)


def effective_times(data: Measured) -> tuple[float, ...]:
    """Return the gradient-flow time τ_t for each pass: the best e^(-τλ) in place of the measured filter."""
    grid = torch.cat([torch.zeros(1), torch.logspace(-3, 6, 721)]).double() / data.unit
    left = data.left_parts
    gains = []
    for time in grid:
        predicted = data.filtered(torch.exp(-time * data.eigenvalues))
        gains.append(2 * (predicted * left).sum((1, 2)) - predicted.square().sum())
    return tuple(grid[torch.stack(gains).argmax(0)].tolist())
