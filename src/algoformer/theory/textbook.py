"""Textbook iterations that show their insides: the matrices and weights that states are compared with."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from algoformer.prompt import Prompt
from algoformer.trace import Trace, Unroll


@dataclass(frozen=True, kw_only=True)
class Moments:
    """Sums over the pairs before each point: Σ x xᵀ, Σ x y, and how many pairs there are."""

    gram: Float[Tensor, "batch point dim dim"]
    cross: Float[Tensor, "batch point dim 1"]
    count: Float[Tensor, "point 1 1"]


def moments_of(prompt: Prompt) -> Moments:
    """Return the moments of a prompt of pairs with labels of one number; none before the first point."""
    features, labels = prompt.part(0)[..., None], prompt.part(1)[..., None, :1]

    def before(products: Tensor) -> Tensor:
        return torch.cat([torch.zeros_like(products[:, :1]), products[:, :-1].cumsum(dim=1)], dim=1)

    return Moments(
        gram=before(features * features.mT),
        cross=before(features * labels),
        count=torch.arange(features.shape[1], dtype=features.dtype)[:, None, None],
    )


def inverses(
    gram: Float[Tensor, "*batch dim dim"], *, alpha: float
) -> Iterator[Float[Tensor, "*batch dim dim"]]:
    """M_1, M_2, ... of Newton's method: M_0 = αS, M_{k+1} = 2M_k - M_k S M_k."""
    inverse = alpha * gram
    while True:
        inverse = 2 * inverse - inverse @ gram @ inverse
        yield inverse


def descent(
    moments: Moments, *, step_size: float, penalty: float = 0.0
) -> Iterator[Float[Tensor, "batch point dim 1"]]:
    """w^i_1, w^i_2, ... of gradient descent on 1/2n Σ (w·x - y)² + λ/2 |w|², for every prefix i, from 0."""
    weights = torch.zeros_like(moments.cross)
    count = moments.count.clamp(min=1)
    while True:
        gradient = (moments.gram @ weights - moments.cross) / count + penalty * weights
        weights = weights - step_size * gradient
        yield weights


@dataclass(frozen=True, kw_only=True)
class PenalizedDescent:
    """Gradient descent on the ridge loss as a solver, for the last question of a prompt."""

    step_size: float
    penalty: float

    def __call__(self, prompt: Prompt, unroll: Unroll) -> Trace:
        """Return the answer after each step, from the pairs before the question."""
        iterates = descent(moments_of(prompt), step_size=self.step_size, penalty=self.penalty)
        question = prompt.part(0)[:, -1:]
        answers = [question @ next(iterates)[:, -1] for _ in range(unroll.steps)]
        return Trace(predictions=torch.stack(answers[unroll.first_step - 1 :]), first_step=unroll.first_step)
