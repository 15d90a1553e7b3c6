"""Variants of gradient descent in the same loop: ridge regression, and momentum (Polyak's heavy ball).

Ridge regression is the remark after Theorem 3.1, built. The loss 1/2n Σ_i |A x_i - y_i|² + λ/2 |A|² adds
-ηλ A to a gradient step. In values at the tokens,

    A x_j  ←  A x_j - η/n Σ_i (A x_i - y_i) (x_i · x_j) - ηλ A x_j.

The decay acts on A x_j and not on the residual A x_j - y_j, so each example must remember its y_j. And it
must act on A x_j as it was before the gradient came in, so the gradient waits in coordinates of its own,
`change`, until the feed-forward network has read both.

Momentum, A_{k+1} = A_k - η ∇L(A_k) + β (A_k - A_{k-1}), needs the last move v_j = A_k x_j - A_{k-1} x_j:

    v_j ← β v_j - η/n Σ_i residual_i (x_i · x_j),      residual_j ← residual_j + v_j.

The sum is the gradient head of the lemma; the rest is linear at each token, which the feed-forward network
does exactly. So either costs `out` coordinates and no layer and no head.
"""

from __future__ import annotations

from typing import Unpack

from algoformer.model import AlgoFormer
from algoformer.theory.blueprint import BuildOptions, layers_in
from algoformer.theory.checks import check_momentum, check_penalty
from algoformer.theory.representation import join_layer, pair_blueprint, pair_descent, pair_space
from algoformer.theory.subspace import Subspaces


def ridge(
    *,
    dim: int,
    examples: int,
    step_size: float,
    penalty: float,
    out: int = 1,
    **options: Unpack[BuildOptions],
) -> AlgoFormer:
    """Build gradient descent on the ridge loss: pre 1 layer × 2 heads, loop 1 × 2, post 1 × 1.

    It answers `prompt.prefix(i)` for any i with at most `examples` examples. With n of them it tends to
    (Σ x xᵀ + nλ I)⁻¹ Σ y x.

    The other arguments are those of `gradient_descent`.

    Args:
        step_size: η; converges below 2/(λ_max + λ), λ_max of the mean of x xᵀ (see `check_converges`).
        penalty: λ ≥ 0, the weight of |A|²/2 beside the mean loss.
    """
    check_penalty(penalty)
    space = _space("target", "y_i at the x tokens of examples", dim=dim, out=out, examples=examples)
    layer, read = layers_in(space, options), space.read
    note = "feed-forward: target ← y_i at x tokens (residual is -y there; at y tokens the two cancel)"
    pre = join_layer(layer()).add(-read("residual") - read("y"), "target", note=note)
    loop = pair_descent(layer(), features=read("x"), step_size=step_size, examples=examples, into="change")
    decay = step_size * penalty * (read("residual") + read("target"))
    note = "feed-forward: residual += change - ηλ (residual + target), change ← 0"
    loop.add(read("change") - decay, "residual", note=note).clear("change")
    return pair_blueprint(layer, [pre], loop).build(**options)


def heavy_ball(
    *,
    dim: int,
    examples: int,
    step_size: float,
    momentum: float,
    out: int = 1,
    **options: Unpack[BuildOptions],
) -> AlgoFormer:
    """Build heavy-ball steps from A_0 = A_{-1} = 0: pre 1 layer × 2 heads, loop 1 × 2, post 1 × 1.

    It answers `prompt.prefix(i)` for any i with at most `examples` examples.

    The other arguments are those of `gradient_descent`.

    Args:
        step_size: η; converges below 2(1 + β)/λ_max of the mean of x xᵀ (see `check_converges`).
        momentum: β in [0, 1); 0 is plain gradient descent.
    """
    check_momentum(momentum)
    space = _space("velocity", "A_k x - A_{k-1} x at x tokens", dim=dim, out=out, examples=examples)
    layer, read = layers_in(space, options), space.read
    change, velocity = read("change"), read("velocity")
    loop = pair_descent(layer(), features=read("x"), step_size=step_size, examples=examples, into="change")
    note = "feed-forward: residual += β velocity + change"
    loop.add(change + momentum * velocity, "residual", note=note)
    note = "feed-forward: velocity ← β velocity + change, change ← 0"
    loop.add(change + (momentum - 1) * velocity, "velocity", note=note).clear("change")
    return pair_blueprint(layer, [join_layer(layer())], loop).build(**options)


def _space(memory: str, meaning: str, *, dim: int, out: int, examples: int) -> Subspaces:
    own = {
        "residual": (out, "A_k x - y at examples, A_k x at the question"),
        "change": (out, "what the gradient does to A_k x, between attention and feed-forward"),
        memory: (out, meaning),
    }
    return pair_space(own, dim=dim, out=out, examples=examples)
