"""Cross-entropy over a window of iterations, without ever holding all scores at once."""

from __future__ import annotations

import importlib.util
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from algoformer.common.plain_data import check_count
from algoformer.model.halting import entropy, exit_log_probabilities, gate_targets_loss

ROWS = 8192
"""Scores are made for this many tokens at a time: 320 MB in single precision for ten thousand words."""


class WindowLoss(NamedTuple):
    """The loss to differentiate; the mean of each iteration and the loss of each target (without a graph)."""

    mean: Float[Tensor, ""]
    by_step: Float[Tensor, " step"]
    by_target: Float[Tensor, "step target"]


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
    check_count("multiple", multiple)
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
    step_weights: Float[Tensor, "step batch token"] | None = None,
    rows: int = ROWS,
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
        step_weights: how much each step counts for a token, in place of one share for each; gradients
            reach these weights too.
        rows: the number of tokens that scores are made for at a time.
    """
    if not 0 <= smoothing < 1:
        raise ValueError(f"smoothing must be at least 0 and below 1, got {smoothing}")
    check_count("rows", rows)
    positions = _positions(target_mask)
    chosen, right = at_targets(states, positions), targets.flatten()
    if positions is not None:
        # padding may hold what is not a token
        right = right[positions.places].masked_fill(~positions.counts, 0)
    shares = target_shares(right, positions, states.dtype)
    parts = None if step_weights is None else at_targets(step_weights, positions)
    value, losses = _Streamed.apply(chosen, weight, right, shares, parts, float(smoothing), rows)
    return WindowLoss(value, losses @ shares, losses)


def exit_cross_entropy(
    states: Float[Tensor, "step batch token width"],
    gates: Float[Tensor, "step batch token"],
    weight: Float[Tensor, "vocabulary width"],
    targets: Int[Tensor, "batch token"],
    target_mask: Bool[Tensor, "batch token"] | TargetPositions | None = None,
    *,
    exit_entropy: int | float,
    smoothing: int | float = 0.0,
) -> WindowLoss:
    """Return the expected cross-entropy under an exit gate, less the entropy of its exits (Ouro, stage one).

    For each target it is Σ_t p_t L_t - exit_entropy · H(p), where p_t is the probability to exit after
    iteration t; see `halting.exit_log_probabilities`.

    Args:
        states: and `weight`, `targets`, `target_mask`, `smoothing`: as for `window_cross_entropy`.
        gates: logits of the gate, from `TokenModel.states_and_halting`.
        exit_entropy: weight of the entropy, which keeps the gate from always exiting at the same iteration.
    """
    positions = _positions(target_mask)
    exits = exit_log_probabilities(gates)
    found = window_cross_entropy(
        states, weight, targets, positions, smoothing=smoothing, step_weights=exits.exp()
    )
    return found._replace(mean=found.mean - exit_entropy * mean_over_targets(entropy(exits), positions))


def gate_cross_entropy(
    states: Float[Tensor, "step batch token width"],
    gates: Float[Tensor, "step batch token"],
    weight: Float[Tensor, "vocabulary width"],
    targets: Int[Tensor, "batch token"],
    target_mask: Bool[Tensor, "batch token"] | TargetPositions | None = None,
) -> WindowLoss:
    """Return the loss that teaches a gate where another iteration lowers the cross-entropy (Ouro, stage two).

    Gradients reach the gates only; pass gates of detached states to train nothing else.
    """
    positions = _positions(target_mask)
    found = window_cross_entropy(states.detach(), weight.detach(), targets, positions)
    each = gate_targets_loss(at_targets(gates, positions), found.by_target)
    shares = target_shares(each, positions, states.dtype)
    return found._replace(mean=torch.dot(each, shares.to(each.dtype)))


def step_weights_of(
    shares: tuple[float, ...] | None, targets: Int[Tensor, "batch token"]
) -> Float[Tensor, "step batch token"] | None:
    """Return weights of steps that are the same for all tokens; None counts all steps alike."""
    if shares is None:
        return None
    # filled with numbers of Python: a captured graph copies nothing from the host
    return torch.stack([torch.full_like(targets, share, dtype=torch.float32) for share in shares])


def mean_over_targets(values: Float[Tensor, "batch token"], positions: TargetPositions | None) -> Tensor:
    """Return the mean of a value of each token over the targets."""
    chosen = at_targets(values, positions)
    return torch.dot(chosen, target_shares(chosen, positions, chosen.dtype))


def at_targets(values: Tensor, positions: TargetPositions | None) -> Tensor:
    """Return values of (..., batch, token, ...) at the targets: batch and token become one axis."""
    start = 1 if values.ndim > 2 else 0
    flat = values.flatten(start, start + 1)
    return flat if positions is None else flat.index_select(start, positions.places)


def target_shares(right: Tensor, positions: TargetPositions | None, dtype: torch.dtype) -> Tensor:
    """Return how much each target counts in a mean over them."""
    counts = torch.ones_like(right, dtype=torch.promote_types(dtype, torch.float32))
    if positions is not None:
        counts = counts * positions.counts
    return counts / counts.sum()


def _positions(mask: Tensor | TargetPositions | None) -> TargetPositions | None:
    return target_positions(mask) if isinstance(mask, Tensor) else mask


class _Streamed(torch.autograd.Function):
    """The mean cross-entropy of (step, target) rows; gradients are made on the way forth, row by row."""

    @staticmethod
    def forward(
        ctx: Any,
        states: Tensor,
        weight: Tensor,
        targets: Tensor,
        shares: Tensor,
        parts: Tensor | None,
        smoothing: float,
        rows: int,
    ) -> tuple[Tensor, Tensor]:
        """The loss, and that of each row."""
        from algoformer.kernels.operations import weight_gradient

        device, count = states.device.type, len(states)
        kind = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else weight.dtype
        wanted = ctx.needs_input_grad[0], ctx.needs_input_grad[1]
        # contiguous whatever the states are: it is written through a view of all its rows
        states_grad = torch.empty_like(states, memory_format=torch.contiguous_format) if wanted[0] else None
        weight_grad: Tensor | None = None
        tokens, right = states.flatten(0, 1).to(kind), targets.repeat(count)
        weights = (shares / count).repeat(count) if parts is None else (shares * parts).flatten()
        losses = torch.empty_like(weights)
        with torch.autocast(device, enabled=False):
            matrix = weight.to(kind)
            for start in range(0, len(tokens), rows):
                part = slice(start, start + rows)
                scores = tokens[part] @ matrix.T
                losses[part], gradient = _loss_and_gradient(scores, right[part], weights[part], smoothing)
                if states_grad is not None:
                    states_grad.flatten(0, 1)[part] = (gradient @ matrix).to(states_grad.dtype)
                if wanted[1]:
                    found = weight_gradient(gradient, tokens[part])
                    weight_grad = found if weight_grad is None else weight_grad.add_(found)
            losses = losses.unflatten(0, (count, -1))
            value = (losses @ shares).mean() if parts is None else (losses * parts @ shares).sum()
        parts_grad = losses * shares if ctx.needs_input_grad[4] else None
        weight_grad = None if weight_grad is None else weight_grad.to(weight.dtype)
        ctx.save_for_backward(states_grad, weight_grad, parts_grad)
        ctx.mark_non_differentiable(losses)
        return value, losses

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        """The gradients that were made on the way forth, as far as the loss counts."""
        states, weight, parts = (
            None if saved is None else saved * gradients[0] for saved in ctx.saved_tensors
        )
        return states, weight, None, None, parts, None, None


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
