"""Gradient descent with momentum (Polyak's heavy ball) in the same loop.

    A_{k+1} = A_k - η ∇L(A_k) + β (A_k - A_{k-1})

In values at the tokens the last move v_j = A_k x_j - A_{k-1} x_j is one more number a token, and a step is

    v_j ← β v_j - η/n Σ_i residual_i (x_i · x_j),      residual_j ← residual_j + v_j.

The sum is the gradient head of the lemma; the rest is linear at each token, which the feed-forward network
does exactly. So momentum costs `out` coordinates and no layer and no head.
"""

from __future__ import annotations

import torch

from algoformer.model import AlgoFormer
from algoformer.problems import Problems
from algoformer.theory.checks import check_scale, check_step_size, step_size_limit
from algoformer.theory.constants import DOUBLE, Constants
from algoformer.theory.gadgets import add_linear, clear
from algoformer.theory.representation import join_layer
from algoformer.theory.ridge import (
    check_sizes,
    gradient_layer,
    regression_blueprint,
    regression_space,
)


def heavy_ball(
    *,
    dim: int,
    examples: int,
    step_size: float,
    momentum: float,
    out: int = 1,
    constants: Constants = DOUBLE,
    steps: int = 20,
    dtype: torch.dtype = torch.float64,
) -> AlgoFormer:
    """Build heavy-ball steps from A_0 = A_{-1} = 0: pre 1 layer × 2 heads, loop 1 × 2, post 1 × 1.

    It answers `prompt.prefix(i)` for any i with at most `examples` examples.

    Args:
        dim: numbers in x.
        examples: the most examples a prompt may show before its question.
        step_size: η; converges below 2(1 + β)/λ_max of the mean of x xᵀ (see `check_heavy_ball`).
        momentum: β in [0, 1); 0 is plain gradient descent.
        out: numbers in y.
        constants: the free parameters.
        steps: how often the loop runs unless an unroll says otherwise.
        dtype: of the finished model.
    """
    check_sizes(dim=dim, examples=examples, out=out)
    check_step_size(step_size)
    check_momentum(momentum)
    constants.check(dtype)
    space = regression_space(
        dim=dim, out=out, examples=examples, memory={"velocity": (out, "A_k x - A_{k-1} x at x tokens")}
    )
    loop = gradient_layer(space, step_size=step_size, examples=examples, constants=constants)
    change, velocity = space.read("change"), space.read("velocity")
    add_linear(
        loop,
        source=change + momentum * velocity,
        into="residual",
        note="feed-forward: residual += β velocity + change",
    )
    add_linear(
        loop,
        source=change + (momentum - 1) * velocity,
        into="velocity",
        note="feed-forward: velocity ← β velocity + change, change ← 0",
    )
    clear(loop, name="change")
    return regression_blueprint(
        space, join_layer(space, constants), loop, examples=examples, constants=constants
    ).build(steps=steps, dtype=dtype)


def check_momentum(momentum: float) -> None:
    """Refuse a momentum outside [0, 1): at 1 the iteration does not converge."""
    if not 0 <= momentum < 1:
        raise ValueError(f"momentum must lie in [0, 1), got {momentum}")


def check_heavy_ball(
    step_size: float, momentum: float, problems: Problems, *, constants: Constants | None = None
) -> None:
    """Check step size and momentum against the problems they are meant for, e.g. `pairs(prompt.prefix())`.

    Raises:
        ValueError: β is outside [0, 1), η is outside (0, 2(1 + β)/λ_max) for some prompt, or the features are
            too large for the constants (see `check_scale`).
    """
    check_step_size(step_size)
    check_momentum(momentum)
    limit = (1 + momentum) * step_size_limit(problems)
    if step_size >= limit:
        raise ValueError(
            f"step_size must lie below 2(1 + momentum)/λ_max = {limit:.4g} for these prompts, "
            f"got {step_size:.4g}; make it smaller or show more examples"
        )
    check_scale(problems, constants=constants)
