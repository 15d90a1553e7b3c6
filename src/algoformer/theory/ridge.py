"""Ridge regression by gradient descent in the same loop: the remark after Theorem 3.1, built.

The loss 1/2n Σ_i |A x_i - y_i|² + λ/2 |A|² adds -ηλ A to a gradient step. In values at the tokens,

    A x_j  ←  A x_j - η/n Σ_i (A x_i - y_i) (x_i · x_j) - ηλ A x_j.

The decay acts on A x_j and not on the residual A x_j - y_j, so each example must remember its y_j. And it
must act on A x_j as it was before the gradient came in, so the gradient waits in coordinates of its own
until the feed-forward network has read both. `heavy_ball` uses the same coordinates.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch

from algoformer.model import AlgoFormer
from algoformer.problems import Problems
from algoformer.theory.blueprint import Blueprint, row_map
from algoformer.theory.checks import check_count, check_scale, check_step_size, product_unit, step_size_limit
from algoformer.theory.constants import DOUBLE, Constants
from algoformer.theory.gadgets import add_linear, clear, linear_attention, sink_scores
from algoformer.theory.representation import answer_layer, join_layer, pair_marks, pair_positions
from algoformer.theory.subspace import Subspaces
from algoformer.theory.writer import LayerWriter


def ridge(
    *,
    dim: int,
    examples: int,
    step_size: float,
    penalty: float,
    out: int = 1,
    constants: Constants = DOUBLE,
    steps: int = 20,
    dtype: torch.dtype = torch.float64,
) -> AlgoFormer:
    """Build gradient descent on the ridge loss: pre 1 layer × 2 heads, loop 1 × 2, post 1 × 1.

    It answers `prompt.prefix(i)` for any i with at most `examples` examples. With n of them it tends to
    (Σ x xᵀ + nλ I)⁻¹ Σ y x.

    Args:
        dim: numbers in x.
        examples: the most examples a prompt may show before its question.
        step_size: η; converges below 2/(λ_max + λ), λ_max of the mean of x xᵀ (see `check_ridge`).
        penalty: λ ≥ 0, the weight of |A|²/2 beside the mean loss.
        out: numbers in y.
        constants: the free parameters.
        steps: how often the loop runs unless an unroll says otherwise.
        dtype: of the finished model.
    """
    check_sizes(dim=dim, examples=examples, out=out)
    check_step_size(step_size)
    check_penalty(penalty)
    constants.check(dtype)
    space = regression_space(
        dim=dim, out=out, examples=examples, memory={"target": (out, "y_i at the x tokens of examples")}
    )
    pre = join_layer(space, constants)
    add_linear(
        pre,
        source=-space.read("residual") - space.read("y"),
        into="target",
        note="feed-forward: target ← y_i at x tokens (residual is -y there; at y tokens the two cancel)",
    )
    loop = gradient_layer(space, step_size=step_size, examples=examples, constants=constants)
    values = space.read("residual") + space.read("target")
    add_linear(
        loop,
        source=space.read("change") - step_size * penalty * values,
        into="residual",
        note="feed-forward: residual += change - ηλ (residual + target), change ← 0",
    )
    clear(loop, name="change")
    return regression_blueprint(space, pre, loop, examples=examples, constants=constants).build(
        steps=steps, dtype=dtype
    )


def regression_space(
    *, dim: int, out: int, examples: int, memory: Mapping[str, tuple[int, str]]
) -> Subspaces:
    """Return the coordinates of a prompt of pairs, of the gradient, and of the method's memory."""
    return Subspaces(
        {
            "x": (dim, "x at x tokens"),
            "y": (out, "y at y tokens; after the post-transformer the answer at the question"),
            "residual": (out, "A_k x - y at examples, A_k x at the question"),
            "change": (out, "what the gradient does to A_k x, between attention and feed-forward"),
            **memory,
            **pair_marks(examples),
        }
    )


def gradient_layer(space: Subspaces, *, step_size: float, examples: int, constants: Constants) -> LayerWriter:
    """Write heads that put -η/n Σ_i residual_i (x_i · x_j) into `change`; units are added by the caller.

    Proof. `linear_attention` with the examples' residuals as values; the sink's score C + log n divides by
    n. y tokens and the sink have x = 0, so their change is 0. ∎
    """
    writer = LayerWriter(space)
    feature, label, one = space.read("feature"), space.read("label"), space.read("one")
    linear_attention(
        writer,
        query=space.read("x"),
        key=space.read("x"),
        value=space.read("residual"),
        into="change",
        rate=-step_size,
        unit=product_unit(examples=examples, dim=space.size("x")),
        common=sink_scores(
            one=one,
            sink=one - feature - label,
            masked=feature + label - space.read("known"),
            log_count=space.read("log_count"),
            constants=constants,
        ),
        constants=constants,
        note="heads ±c: change_j ← -η/n Σ_i residual_i (x_i · x_j)",
    )
    return writer


def regression_blueprint(
    space: Subspaces, pre: LayerWriter, loop: LayerWriter, *, examples: int, constants: Constants
) -> Blueprint:
    """Return the three modules of Theorem 3.1 around another looped layer."""
    dim, out = space.size("x"), space.size("y")
    return Blueprint(
        space=space,
        pre={"pre": [pre]},
        loop=[loop],
        post={"post": [answer_layer(space, constants)]},
        rows=[
            row_map(space, dim=dim, into={"x": dim}, feature=1.0),
            row_map(space, dim=dim, into={"y": out}, label=1.0),
        ],
        positions=pair_positions(space, examples),
        answer=space.read("y"),
        blanks=(0, 1),
    )


def check_sizes(*, dim: int, examples: int, out: int) -> None:
    """Counts of at least one, and a label that fits a row."""
    for name, count in (("dim", dim), ("examples", examples), ("out", out)):
        check_count(name, count)
    if out > dim:
        raise ValueError(f"out must be at most dim={dim}, so that a label fits a row; got {out}")


def check_penalty(penalty: float) -> None:
    """Refuse a penalty that is negative or not finite; 0 is plain gradient descent."""
    if not (math.isfinite(penalty) and penalty >= 0):
        raise ValueError(f"penalty must be a number ≥ 0 (0 is plain gradient descent), got {penalty}")


def check_ridge(
    step_size: float, penalty: float, problems: Problems, *, constants: Constants | None = None
) -> None:
    """Check a step size against the problems it is meant for, e.g. `pairs(prompt.prefix())`.

    Raises:
        ValueError: η is outside (0, 2/(λ_max + λ)) for some prompt, λ is negative, or the features are too
            large for the constants (see `check_scale`).
    """
    check_step_size(step_size)
    check_penalty(penalty)
    steepest = 2 / step_size_limit(problems) + penalty
    if step_size * steepest >= 2:
        raise ValueError(
            f"step_size must lie below 2/(λ_max + penalty) = {2 / steepest:.4g} for these prompts, "
            f"got {step_size:.4g}; make it smaller or show more examples"
        )
    check_scale(problems, constants=constants)
