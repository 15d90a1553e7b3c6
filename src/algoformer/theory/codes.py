"""Quasi-orthogonal codes: one short vector per place, closer to itself than to any other."""

from __future__ import annotations

import math

import torch
from jaxtyping import Float
from torch import Tensor

from algoformer.theory.checks import check_counts


def quasi_orthogonal(count: int, *, epsilon: float = 1.0) -> Float[Tensor, "code bit"]:
    """Return `count` vectors of ⌈log₂ count⌉ coordinates with p_i·p_i > p_i·p_j + epsilon for all i ≠ j.

    Proof. Write i in binary with digits ±s, s a power of two with 2s² > epsilon. Then p_i·p_i = b s² for b
    digits, and two different numbers differ in a digit, which costs 2s²: p_i·p_j ≤ (b - 2) s². Products are
    multiples of s², hence exact in floating point. ∎ The paper draws random vectors, whose gap is only
    likely; these are deterministic.

    >>> quasi_orthogonal(4)
    tensor([[-1., -1.],
            [ 1., -1.],
            [-1.,  1.],
            [ 1.,  1.]], dtype=torch.float64)
    """
    check_counts(count=count)
    if not (math.isfinite(epsilon) and epsilon > 0):
        raise ValueError(f"epsilon must be a positive number, got {epsilon}")
    bits = max(1, math.ceil(math.log2(count)))
    scale = 2.0 ** max(0, math.floor(math.log2(epsilon / 2) / 2) + 1) if epsilon >= 2 else 1.0
    numbers = torch.arange(count)
    digits = (numbers[:, None] >> torch.arange(bits)) & 1
    return scale * (2 * digits - 1).to(torch.float64)
