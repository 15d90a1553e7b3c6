"""Cross-entropy over a window of iterations, without ever holding all scores at once."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

ROWS = 4096
"""Scores are made for this many tokens at a time: 160 MB in single precision for ten thousand words."""


class WindowLoss(NamedTuple):
    """The loss to differentiate, and the part of each iteration in it (without a graph)."""

    mean: Float[Tensor, ""]
    by_step: Float[Tensor, " step"]


def window_cross_entropy(
    states: Float[Tensor, "step batch token width"],
    weight: Float[Tensor, "vocabulary width"],
    targets: Int[Tensor, "batch token"],
    asked: Bool[Tensor, "batch token"] | None = None,
    *,
    smoothing: int | float = 0.0,
    fixed_shapes: bool = False,
    rows: int = ROWS,
) -> WindowLoss:
    """Cross-entropy of the next token, a true mean over the window's steps and the tokens asked about.

    Value and gradient are those of softmax cross-entropy on `states @ weight.T`. Scores are made for a
    few rows at a time and turned into gradients at once, so that memory does not grow with the window or
    the batch times the vocabulary. Products are done in autocast's precision, sums in single.

    Args:
        states: final states, from `TokenModel.states`.
        weight: the map to scores, `TokenModel.output_weight`.
        targets: the right next token of each token.
        asked: which of them count (no padding, not the source of a translation); None means all.
        smoothing: the share of the target's probability that is spread over the whole vocabulary.
        fixed_shapes: whether to make scores where nothing is asked too, and give them weight zero. That is
            more work, but nothing waits for the device to count, and a step can be captured as a graph.
        rows: for how many tokens scores are made at a time.
    """
    if not 0 <= smoothing < 1:
        raise ValueError(f"smoothing must lie in 0..1, 1 left out, got {smoothing}")
    if rows < 1:
        raise ValueError(f"rows must be at least 1, got {rows}")
    chosen, right = states.flatten(1, 2), targets.flatten()
    counts = torch.ones_like(right, dtype=torch.promote_types(states.dtype, torch.float32))
    if asked is not None and fixed_shapes:
        counts = counts * asked.flatten()
        right = right.masked_fill(~asked.flatten(), 0)  # padding may hold what is not a token
    elif asked is not None:
        places = asked.flatten().nonzero().squeeze(1)
        if not len(places):
            raise ValueError("no token is asked about: `asked` is false everywhere")
        chosen, right, counts = chosen.index_select(1, places), right[places], counts[places]
    return WindowLoss(*_Streamed.apply(chosen, weight, right, counts / counts.sum(), float(smoothing), rows))


class _Streamed(torch.autograd.Function):
    """The mean cross-entropy of (step, target) rows; gradients are made on the way forth, row by row."""

    @staticmethod
    def forward(
        ctx: Any,
        states: Tensor,
        weight: Tensor,
        targets: Tensor,
        shares: Tensor,
        smoothing: float,
        rows: int,
    ) -> tuple[Tensor, Tensor]:
        """The loss, and its part at each step."""
        device = states.device.type
        exact = torch.promote_types(states.dtype, torch.float32)
        kind = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else weight.dtype
        wanted = ctx.needs_input_grad[0], ctx.needs_input_grad[1]
        states_grad = torch.empty_like(states) if wanted[0] else None
        weight_grad = torch.zeros_like(weight, dtype=exact) if wanted[1] else None
        by_step = torch.zeros(len(states), dtype=exact, device=states.device)
        with torch.autocast(device, enabled=False):
            matrix = weight.to(kind)
            for step, tokens in enumerate(states.to(kind)):
                for start in range(0, len(targets), rows):
                    part = slice(start, start + rows)
                    scores = (tokens[part] @ matrix.T).to(exact)
                    loss = _loss_and_gradient(scores, targets[part], smoothing)
                    by_step[step] += torch.dot(loss, shares[part])
                    # scores have become their own gradient
                    gradient = scores.mul_(shares[part, None] / len(states)).to(kind)
                    if states_grad is not None:
                        states_grad[step, part] = (gradient @ matrix).to(states_grad.dtype)
                    if weight_grad is not None:
                        weight_grad += gradient.T @ tokens[part]
        ctx.save_for_backward(states_grad, None if weight_grad is None else weight_grad.to(weight.dtype))
        ctx.mark_non_differentiable(by_step)
        return by_step.mean(), by_step

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        """The gradients that were made on the way forth, as far as the loss counts."""
        states, weight = (None if saved is None else saved * gradients[0] for saved in ctx.saved_tensors)
        return states, weight, None, None, None, None


def _loss_and_gradient(scores: Tensor, targets: Tensor, smoothing: float) -> Tensor:
    """The loss of each row; `scores` are overwritten with their gradient."""
    place = targets[:, None]
    whole = scores.logsumexp(dim=1, keepdim=True)
    loss = whole - (1 - smoothing) * scores.gather(1, place)
    if smoothing:
        loss = loss - smoothing * scores.mean(dim=1, keepdim=True)
    scores.sub_(whole).exp_()
    if smoothing:
        scores.sub_(smoothing / scores.shape[1])
    scores.scatter_add_(1, place, torch.full_like(place, smoothing - 1, dtype=scores.dtype))
    return loss.squeeze(1)
