"""Cross-entropy over a window of iterations, without ever holding all scores at once."""

from __future__ import annotations

import importlib.util
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

ROWS = 8192
"""Scores are made for this many tokens at a time: 320 MB in single precision for ten thousand words."""


class WindowLoss(NamedTuple):
    """The loss to differentiate, and the part of each iteration in it (without a graph)."""

    mean: Float[Tensor, ""]
    by_step: Float[Tensor, " step"]


class TargetPositions(NamedTuple):
    """The tokens that a loss is about: their places in the flattened batch, and whether each counts."""

    places: Int[Tensor, " target"]
    counts: Bool[Tensor, " target"]


def target_positions(mask: Bool[Tensor, "batch token"], *, multiple: int = 1) -> TargetPositions:
    """Return the tokens in a mask. Finding them waits for the device, so do it on the CPU.

    With a multiple their number is rounded up by tokens that count nothing, so that few numbers occur.

    >>> target_positions(torch.tensor([[False, True, True]]), multiple=4)
    TargetPositions(places=tensor([1, 2, 0, 0]), counts=tensor([ True,  True, False, False]))
    """
    if multiple < 1:
        raise ValueError(f"multiple must be at least 1, got {multiple}")
    places = mask.flatten().nonzero().squeeze(1)
    if not len(places):
        raise ValueError("the loss has no token: target_mask is false everywhere")
    filling = -len(places) % multiple
    counts = torch.ones_like(places, dtype=torch.bool)
    return TargetPositions(*(torch.cat([one, one.new_zeros(filling)]) for one in (places, counts)))


def window_cross_entropy(
    states: Float[Tensor, "step batch token width"],
    weight: Float[Tensor, "vocabulary width"],
    targets: Int[Tensor, "batch token"],
    target_mask: Bool[Tensor, "batch token"] | TargetPositions | None = None,
    *,
    smoothing: int | float = 0.0,
    rows: int = ROWS,
    step_shares: tuple[float, ...] | None = None,
) -> WindowLoss:
    """Return the cross-entropy of the next token, a true mean over the window's steps and the targets.

    Value and gradient are those of softmax cross-entropy on `states @ weight.T`. Scores are made for a
    few rows at a time and turned into gradients at once, so that memory does not grow with the window or
    the batch times the vocabulary. Products are done in autocast's precision, sums in single.

    Args:
        states: final states, from `TokenModel.states`.
        weight: the map to scores, `TokenModel.output_weight`.
        targets: the right next token of each token.
        target_mask: true for the tokens that count (not padding or the source); None means all. With
            `target_positions` nothing here waits for the device, and a step can be captured as a graph.
        smoothing: the share of the target's probability that is spread over the whole vocabulary.
        rows: the number of tokens that scores are made for at a time.
        step_shares: how much each step of the window counts, with sum 1; None counts all alike.
    """
    if not 0 <= smoothing < 1:
        raise ValueError(f"smoothing must lie in 0..1, 1 left out, got {smoothing}")
    if rows < 1:
        raise ValueError(f"rows must be at least 1, got {rows}")
    chosen, right = states.flatten(1, 2), targets.flatten()
    counts = torch.ones_like(right, dtype=torch.promote_types(states.dtype, torch.float32))
    if target_mask is not None:
        given = target_mask
        places, counted = given if isinstance(given, TargetPositions) else target_positions(given)
        chosen, right, counts = chosen.index_select(1, places), right[places], counts[places] * counted
        right = right.masked_fill(~counted, 0)  # padding may hold what is not a token
    shares = counts / counts.sum()
    return WindowLoss(*_Streamed.apply(chosen, weight, right, shares, float(smoothing), rows, step_shares))


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
        step_shares: tuple[float, ...] | None,
    ) -> tuple[Tensor, Tensor]:
        """The loss, and its part at each step."""
        from algoformer.kernels.operations import weight_gradient

        device, count = states.device.type, len(states)
        kind = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else weight.dtype
        wanted = ctx.needs_input_grad[0], ctx.needs_input_grad[1]
        # contiguous whatever the states are: it is written through a view of all its rows
        states_grad = torch.empty_like(states, memory_format=torch.contiguous_format) if wanted[0] else None
        weight_grad = torch.zeros_like(weight, dtype=shares.dtype) if wanted[1] else None
        tokens, right = states.flatten(0, 1).to(kind), targets.repeat(count)
        if step_shares is None:
            weights = (shares / count).repeat(count)
        else:
            weights = torch.cat([share * shares for share in step_shares])
        losses = torch.empty_like(weights)
        with torch.autocast(device, enabled=False):
            matrix = weight.to(kind)
            for start in range(0, len(tokens), rows):
                part = slice(start, start + rows)
                scores = tokens[part] @ matrix.T
                losses[part], gradient = _loss_and_gradient(scores, right[part], weights[part], smoothing)
                if states_grad is not None:
                    states_grad.flatten(0, 1)[part] = (gradient @ matrix).to(states_grad.dtype)
                if weight_grad is not None:
                    weight_grad += weight_gradient(gradient, tokens[part])
            by_step = losses.unflatten(0, (count, -1)) @ shares
        ctx.save_for_backward(states_grad, None if weight_grad is None else weight_grad.to(weight.dtype))
        ctx.mark_non_differentiable(by_step)
        if step_shares is None:
            return by_step.mean(), by_step
        return torch.stack(
            [share * one for share, one in zip(step_shares, by_step, strict=True)]
        ).sum(), by_step

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        """The gradients that were made on the way forth, as far as the loss counts."""
        states, weight = (None if saved is None else saved * gradients[0] for saved in ctx.saved_tensors)
        return states, weight, None, None, None, None, None


def _loss_and_gradient(
    scores: Tensor, targets: Tensor, weights: Tensor, smoothing: float
) -> tuple[Tensor, Tensor]:
    """The loss of each row, and the weighted gradient of its scores; it may lie where the scores were."""
    if scores.is_cuda and importlib.util.find_spec("triton") is not None:
        from algoformer.kernels.cross_entropy import LARGEST, cross_entropy_

        if scores.dtype != torch.float64 and scores.shape[1] <= LARGEST:
            return cross_entropy_(scores, targets, weights, smoothing), scores
    kind, place = scores.dtype, targets[:, None]
    scores = scores.to(weights.dtype)
    whole = scores.logsumexp(dim=1, keepdim=True)
    loss = whole - (1 - smoothing) * scores.gather(1, place)
    if smoothing:
        loss = loss - smoothing * scores.mean(dim=1, keepdim=True)
    scores.sub_(whole).exp_()
    if smoothing:
        scores.sub_(smoothing / scores.shape[1])
    scores.scatter_add_(1, place, torch.full_like(place, smoothing - 1, dtype=scores.dtype))
    return loss.squeeze(1), scores.mul_(weights[:, None]).to(kind)
