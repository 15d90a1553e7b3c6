"""Theorem 4.2: gradient descent in a decoder, for every prefix of the prompt at once, and its lemma.

Token x_i sees x_1, y_1, ..., x_{i-1}, y_{i-1} and holds weights w^i of its own; a step is

    w^i  ←  w^i - η/(i-1) Σ_{j<i} (w^i · x_j - y_j) x_j.

The paper takes keys and values from the x tokens. There the sum of one head includes j = i, that of the
other does not, and the constant 1/c of the term j = i does not cancel: refining c makes the step diverge.
Here x_j is read where it is copied to, at token y_j. Token x_i sees exactly j < i there, each with its label.
An empty token before the prompt is the sink.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Unpack

import torch

from algoformer.model import AlgoFormer
from algoformer.theory.blueprint import Blueprint, BuildOptions, layers_in, pair_rows
from algoformer.theory.checks import check_counts, check_step_size
from algoformer.theory.subspace import Part, Subspaces, quasi_orthogonal
from algoformer.theory.writer import LayerWriter, Matrix, Score

FINENESS = 10.0
"""Products are divided by this, or by dim if that is larger, before c. With c = 1e-4 linearization, 1e-10/6,
and rounding, 1e-16/2e-5, then weigh about the same."""


def decoder_gradient_descent(
    *, dim: int, points: int, step_size: float, **options: Unpack[BuildOptions]
) -> AlgoFormer:
    """Build gradient descent at every prefix: pre 1 layer × 1 head, loop 1 × 2, post 1 × 2, causal.

    It answers every question of a prompt. `weights` in the state `loop[k]` is w^i_k at token x_i.

    Args:
        dim: the numbers in x.
        points: the most questions a prompt may ask.
        step_size: η; converges below 2/λ_max of the mean of x xᵀ over every prefix (see
            `check_converges` of `pairs(prompt)`). The prefix of one example needs η < 2/|x_1|².
        options: `constants`, `steps` and `dtype` (see `BuildOptions`).
    """
    check_step_size(step_size)
    state: dict[str, Part] = {
        "weights": (dim, "w^i_k at x tokens"),
        "answer": (1, "w^i_k · x_i at x tokens, after post"),
    }
    space = decoder_space(dim=dim, points=points, state=state)
    layer = layers_in(space, options)
    modules = {
        "pre": [example_layer(layer())],
        "loop": [descent_layer(layer(), step_size=step_size)],
        "post": [answer_layer(layer())],
    }
    return decoder_blueprint(modules, answer=space.read("answer")).build(**options)


def decoder_space(*, dim: int, points: int, state: Mapping[str, Part]) -> Subspaces:
    """Return the coordinates of a causal prompt of pairs, and those of the algorithm's own `state`.

    The empty token comes first, then both tokens of each sample with its code and log(i - 1).
    """
    check_counts(dim=dim, points=points)
    samples, before = torch.arange(2 * points) // 2, (1, 0)
    pad, codes = torch.nn.functional.pad, quasi_orthogonal(points)[samples]
    return Subspaces(
        {
            "x": (dim, "x at x tokens"),
            "example": (dim, "x_j at y_j, from the pre-transformer on; 0 elsewhere"),
            "y": (1, "y at y tokens"),
            **state,
            "feature": (1, "1 at x tokens"),
            "label": (1, "1 at y tokens"),
            "blank": (torch.arange(2 * points + 1) == 0, "1 at the empty token, the sink"),
            "one": (torch.ones(2 * points + 1), "1 at every token"),
            "log_count": (
                pad(samples.clamp(min=1).double().log(), before),
                "log(i - 1) at both tokens of sample i, 0 for i = 1",
            ),
            "code": (pad(codes, (0, 0, *before)), "±1 code of the sample, 0 at the sink"),
        }
    )


def decoder_blueprint(modules: Mapping[str, Sequence[LayerWriter]], *, answer: Matrix) -> Blueprint:
    """Return a causal blueprint of these modules, with the empty token before the prompt."""
    space = next(iter(modules.values()))[0].space
    rows = pair_rows(space)
    return Blueprint(space=space, modules=modules, rows=rows, answer=answer, blanks=(1, 0), causal=True)


def example_layer(writer: LayerWriter) -> LayerWriter:
    """Write example ← x_j at token y_j, exactly, and 0 at all others.

    Proof. The two tokens of a sample share a code. Token y_j gets the mean of 2x_j and 0, which is x_j; token
    x_j does not see y_j yet and gets 2x_j, which the feed-forward network takes away again. The sink's code
    is 0, and 0 is less than a code's product with itself, so no other token reads the sink; it reads
    itself: 0. ∎
    """
    note, twice = "head 1: example ← x_j at y_j (and 2x_j at x_j)", 2 * writer.read("x")
    writer.attend(query="code", key="code", value=twice, into="example", note=note)
    return writer.add(-twice, "example", note="feed-forward: example ← 0 at x tokens")


def descent_layer(writer: LayerWriter, *, step_size: float) -> LayerWriter:
    """Write the lemma: weights ← w^i - η/(i-1) Σ_{j<i} (w^i · x_j - y_j) x_j at every token x_i.

    Proof. The query (w^i, 1) and the key (x_j, -y_j) of token y_j have the residual as their product; the
    value is x_j. At x tokens and at the sink key and value are 0. The sink's score C + log(i-1) divides the
    sum by i - 1. Token x_1 sees no label, its sum is empty and w^1 stays 0. At y tokens the query is 0. ∎
    """
    return writer.linear_attention(
        query=("weights", "feature"),
        key=("example", -writer.read("y")),
        value="example",
        into="weights",
        rate=-step_size,
        unit=max(FINENESS, float(writer.space.size("x"))),
        common=writer.sink_scores(sink="blank", log_count="log_count"),
        note="heads ±c: w^i += -η/(i-1) Σ_{j<i} (w^i · x_j - y_j) x_j, one gradient step at every prefix",
    )


def answer_layer(writer: LayerWriter) -> LayerWriter:
    """Write answer ← w^i · x_i: the product of two vectors that stand at the same token."""
    return writer.linear_attention(
        query="x",
        key="weights",
        value="feature",
        into="answer",
        unit=max(FINENESS, float(writer.space.size("x"))),
        common=own_sample(writer),
        note="heads ±c: answer ← w^i · x_i, each x token reading itself",
    )


def own_sample(writer: LayerWriter) -> list[Score]:
    """Return the scores C at the sink, 0 at tokens of the reader's own sample, at most -C' at all others.

    An x token sees no other token of its sample, so beside the sink it reads itself alone: a linearized
    head then multiplies what the token holds by what the token holds.

    Proof. From a ±1 code p the digits d = (1 + p)/2 and e = (1 - p)/2 are 0 or 1, both 0 at the sink. The
    product (e, d)·(d', e') counts the places where two codes differ: 0 term by term within a sample, at
    least 1 between two, and 0 at the sink. ∎ As every term is 0, and not a large number minus another,
    the small score cz that is added to it keeps all its digits.
    """
    code = writer.read("code")
    row = (writer.read("feature") + writer.read("label")).expand_as(code)
    digit, other = (row + code) / 2, (row - code) / 2
    apart = -writer.constants.mask * torch.cat([other, digit]), torch.cat([digit, other])
    return [*writer.sink_scores(sink="blank"), apart]
