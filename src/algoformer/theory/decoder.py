"""Theorem 4.2: gradient descent in a decoder, for every prefix of the prompt at once, and its lemma.

Token x_i sees x_1, y_1, ..., x_{i-1}, y_{i-1} and holds weights w^i of its own; a step is

    w^i  ←  w^i - η/(i-1) Σ_{j<i} (w^i · x_j - y_j) x_j.

The paper takes keys and values from the x tokens. There the sum of one head includes j = i, that of the
other does not, and the constant 1/c of the term j = i does not cancel: refining c makes the step diverge.
Here x_j is read where it is copied to, at token y_j. Token x_i sees exactly j < i there, each with its label.
An empty token before the prompt is the sink.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch

from algoformer.model import AlgoFormer
from algoformer.theory.blueprint import Blueprint, RowMap, position_table, row_map
from algoformer.theory.checks import check_count, check_step_size
from algoformer.theory.codes import quasi_orthogonal
from algoformer.theory.constants import DOUBLE, Constants
from algoformer.theory.gadgets import Score, add_linear, attend, linear_attention, sink_scores
from algoformer.theory.subspace import Subspaces
from algoformer.theory.writer import LayerWriter

FINENESS = 10.0
"""Products are divided by this, or by dim if that is larger, before c. With c = 1e-4 linearization, 1e-10/6,
and rounding, 1e-16/2e-5, then weigh about the same."""


def decoder_gradient_descent(
    *,
    dim: int,
    points: int,
    step_size: float,
    constants: Constants = DOUBLE,
    steps: int = 20,
    dtype: torch.dtype = torch.float64,
) -> AlgoFormer:
    """Build gradient descent at every prefix: pre 1 layer × 1 head, loop 1 × 2, post 1 × 2, causal.

    It answers every question of a prompt. `weights` in the state `loop[k]` is w^i_k at token x_i.

    Args:
        dim: numbers in x.
        points: the most questions a prompt may ask.
        step_size: η; converges below 2/λ_max of the mean of x xᵀ over every prefix (see
            `check_converges` of `pairs(prompt)`). The prefix of one example needs η < 2/|x_1|².
        constants: the free parameters.
        steps: how often the loop runs unless an unroll says otherwise.
        dtype: of the finished model.
    """
    check_count("dim", dim)
    check_count("points", points)
    check_step_size(step_size)
    constants.check(dtype)
    space = decoder_space(
        dim=dim,
        points=points,
        state={"weights": (dim, "w^i_k at x tokens"), "answer": (1, "w^i_k · x_i at x tokens, after post")},
    )
    blueprint = Blueprint(
        space=space,
        pre={"pre": [example_layer(space, constants)]},
        loop=[descent_layer(space, step_size=step_size, constants=constants)],
        post={"post": [answer_layer(space, constants)]},
        rows=decoder_rows(space, dim=dim),
        positions=decoder_positions(space, points=points),
        answer=space.read("answer"),
        blanks=(1, 0),
        causal=True,
    )
    return blueprint.build(steps=steps, dtype=dtype)


def decoder_space(*, dim: int, points: int, state: Mapping[str, tuple[int, str]]) -> Subspaces:
    """Return the coordinates of a causal prompt of pairs, and those of the algorithm's own `state`."""
    return Subspaces(
        {
            "x": (dim, "x at x tokens"),
            "example": (dim, "x_j at y_j, from the pre-transformer on; 0 elsewhere"),
            "y": (1, "y at y tokens"),
            **state,
            "feature": (1, "1 at x tokens"),
            "label": (1, "1 at y tokens"),
            "blank": (1, "1 at the empty token, the sink"),
            "one": (1, "1 at every token"),
            "log_count": (1, "log(i - 1) at both tokens of sample i, 0 for i = 1"),
            "code": (quasi_orthogonal(points).shape[1], "±1 code of the sample, 0 at the sink"),
        }
    )


def decoder_rows(space: Subspaces, *, dim: int) -> list[RowMap]:
    """x rows go to x, y rows to y, each with its indicator."""
    return [
        row_map(space, dim=dim, into={"x": dim}, feature=1.0),
        row_map(space, dim=dim, into={"y": 1}, label=1.0),
    ]


def decoder_positions(space: Subspaces, *, points: int) -> torch.Tensor:
    """Return the empty token, then both tokens of each sample with its code and log(i - 1)."""
    samples = torch.arange(2 * points) // 2
    at_sink = torch.zeros(1, 1, dtype=torch.float64)
    blank = torch.zeros(2 * points + 1, 1)
    blank[0] = 1
    codes = quasi_orthogonal(points)
    return position_table(
        space,
        {
            "blank": blank,
            "one": torch.ones(2 * points + 1, 1),
            "log_count": torch.cat([at_sink, samples.clamp(min=1).double().log()[:, None]]),
            "code": torch.cat([at_sink.expand(1, codes.shape[1]), codes[samples]]),
        },
    )


def example_layer(space: Subspaces, constants: Constants) -> LayerWriter:
    """example ← x_j at token y_j, exactly, and 0 at all others.

    Proof. The two tokens of a sample share a code. Token y_j gets the mean of 2x_j and 0, which is x_j; token
    x_j does not see y_j yet and gets 2x_j, which the feed-forward network takes away again. The sink's code
    is 0, and 0 is less than a code's product with itself, so no other token reads the sink; it reads
    itself: 0. ∎
    """
    writer = LayerWriter(space)
    attend(
        writer,
        query=space.read("code"),
        key=space.read("code"),
        value=2 * space.read("x"),
        into="example",
        constants=constants,
        note="head 1: example ← x_j at y_j (and 2x_j at x_j)",
    )
    add_linear(
        writer, source=-2 * space.read("x"), into="example", note="feed-forward: example ← 0 at x tokens"
    )
    return writer


def descent_layer(space: Subspaces, *, step_size: float, constants: Constants) -> LayerWriter:
    """Write the lemma: weights ← w^i - η/(i-1) Σ_{j<i} (w^i · x_j - y_j) x_j at every token x_i.

    Proof. The query (w^i, 1) and the key (x_j, -y_j) of token y_j have the residual as their product; the
    value is x_j. At x tokens and at the sink key and value are 0. The sink's score C + log(i-1) divides the
    sum by i - 1. Token x_1 sees no label, its sum is empty and w^1 stays 0. At y tokens the query is 0. ∎
    """
    writer = LayerWriter(space)
    linear_attention(
        writer,
        query=torch.cat([space.read("weights"), space.read("feature")]),
        key=torch.cat([space.read("example"), -space.read("y")]),
        value=space.read("example"),
        into="weights",
        rate=-step_size,
        unit=max(FINENESS, float(space.size("x"))),
        common=decoder_sink(space, constants, mean=True),
        constants=constants,
        note="heads ±c: w^i += -η/(i-1) Σ_{j<i} (w^i · x_j - y_j) x_j, one gradient step at every prefix",
    )
    return writer


def answer_layer(space: Subspaces, constants: Constants) -> LayerWriter:
    """answer ← w^i · x_i: the product of two vectors that stand at the same token."""
    writer = LayerWriter(space)
    linear_attention(
        writer,
        query=space.read("x"),
        key=space.read("weights"),
        value=space.read("feature"),
        into="answer",
        rate=1.0,
        unit=max(FINENESS, float(space.size("x"))),
        common=[*decoder_sink(space, constants), own_sample(space, constants)],
        constants=constants,
        note="heads ±c: answer ← w^i · x_i, each x token reading itself",
    )
    return writer


def decoder_sink(space: Subspaces, constants: Constants, *, mean: bool = False) -> list[Score]:
    """Score C at the empty token; with `mean` C + log(i - 1), which turns sums over j < i into means."""
    one = space.read("one")
    return sink_scores(
        one=one,
        sink=space.read("blank"),
        masked=torch.zeros_like(one),
        constants=constants,
        log_count=space.read("log_count") if mean else None,
    )


def own_sample(space: Subspaces, constants: Constants) -> Score:
    """Score 0 at tokens of the reader's own sample and at the sink, at most -C' at all others.

    An x token sees no other token of its sample, so beside the sink it reads itself alone: a linearized
    head then multiplies what the token holds by what the token holds.

    Proof. From a ±1 code p the digits d = (1 + p)/2 and e = (1 - p)/2 are 0 or 1, both 0 at the sink. The
    product (e, d)·(d', e') counts the places where two codes differ: 0 term by term within a sample, at
    least 1 between two, and 0 at the sink. ∎ As every term is 0, and not a large number minus another,
    the small score cz that is added to it keeps all its digits.
    """
    code = space.read("code")
    row = (space.read("feature") + space.read("label")).expand_as(code)
    digit, other = (row + code) / 2, (row - code) / 2
    return -constants.mask * torch.cat([other, digit]), torch.cat([digit, other])
