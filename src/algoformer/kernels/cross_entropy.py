"""A Triton kernel for softmax cross-entropy: scores become their own gradient in one launch."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

LARGEST = 65_536
"""Scores that a row may have: it is held whole while it is turned into its gradient."""


@triton.jit
def _cross_entropy(scores, targets, weights, losses, width, smoothing, BLOCK: tl.constexpr):
    """The loss of one row, and in place of its scores their gradient times the row's weight."""
    row = tl.program_id(0)
    column = tl.arange(0, BLOCK)
    inside = column < width
    place = scores + row.to(tl.int64) * width + column
    score = tl.load(place, mask=inside, other=-float("inf")).to(tl.float32)
    target = tl.load(targets + row)
    top = tl.max(score, 0)
    share = tl.exp(score - top)
    total = tl.sum(share, 0)
    # not loaded again: other threads may have written its gradient there
    right = tl.sum(tl.where(column == target, score, 0.0), 0)
    mean = tl.sum(tl.where(inside, score, 0.0), 0) / width
    tl.store(losses + row, top + tl.log(total) - (1 - smoothing) * right - smoothing * mean)
    gradient = share / total - smoothing / width - tl.where(column == target, 1 - smoothing, 0.0)
    gradient *= tl.load(weights + row)
    tl.store(place, gradient.to(scores.dtype.element_ty), mask=inside)


def cross_entropy_(scores: Tensor, targets: Tensor, weights: Tensor, smoothing: float) -> Tensor:
    """The loss of each row in single precision; `scores` are overwritten with their gradient.

    Args:
        scores: (row, word), contiguous, at most `LARGEST` words.
        targets: the right word of each row.
        weights: what each row's gradient is multiplied by, in single precision.
        smoothing: the share of the target's probability that is spread over all words.
    """
    rows, width = scores.shape
    losses = torch.empty(rows, dtype=torch.float32, device=scores.device)
    block = max(16, triton.next_power_of_2(width))
    warps = min(32, max(1, block // 1024))
    with torch.cuda.device_of(scores):  # Triton launches on the current device, whatever tensors it is given
        _cross_entropy[(rows,)](
            scores, targets, weights, losses, width, smoothing, BLOCK=block, num_warps=warps
        )
    return losses
