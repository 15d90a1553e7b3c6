"""Newton's method in a decoder with no more heads in the loop than gradient descent: one layer × two.

`decoder_newton` forms the d² terms (M S)_af M_f of M S M side by side, a pair of heads each. Here one pair
forms them one after another. Two clocks run along with the passes, one through the rows a = 0..d-1 and one
through the columns f = 0..d; as d and d + 1 have no common divisor, d(d+1) passes meet every (a, f) just
once. The attention multiplies what stands in `left`, `right` and `value`; the feed-forward network delivers
the result, turns the clocks and fetches the next operands through gates that are exact. Column d is b, and
gives w_a = M_a · b. When both clocks reach their end, M ← 2M - M S M.

So a step of Newton's method is d(d+1) passes: the heads of the parallel construction are paid for in time.
"""

from __future__ import annotations

from typing import Unpack

import torch

from algoformer.model import AlgoFormer
from algoformer.theory.blueprint import BuildOptions, layers_in
from algoformer.theory.checks import check_counts, check_positive_alpha
from algoformer.theory.decoder import (
    FINENESS,
    answer_layer,
    decoder_blueprint,
    decoder_space,
    example_layer,
    own_sample,
)
from algoformer.theory.decoder_newton import row_by_row, stacked, sum_moments
from algoformer.theory.subspace import Subspaces
from algoformer.theory.writer import LayerWriter, Matrix

GATE = 1e9
"""No number in a gate may be larger. An open gate subtracts exactly 0, so a large bound costs nothing."""


def decoder_newton_serial(
    *, dim: int, points: int, alpha: float, **options: Unpack[BuildOptions]
) -> AlgoFormer:
    """Build a causal model that runs one step of Newton's method in `passes_per_step(dim)` passes.

    Two heads are enough in every layer: pre (dim + 1) layers, loop 1, post 1.

    After n · passes_per_step passes the token x_i holds M^i_n in `inverse_0`, `inverse_1`, ... and, as w is
    formed from the M that the step starts with, w^i_{n-1} in `weights`; its answer is w^i_{n-1} · x_i.
    The arguments are those of `decoder_newton`; `steps` counts steps of Newton's method.
    """
    check_counts(dim=dim, points=points)
    check_positive_alpha(alpha)
    space = serial_space(dim=dim, points=points)
    layer = layers_in(space, options)
    modules = {
        "pre": [example_layer(layer()), *moments_layers([layer() for _ in range(dim)], alpha=alpha)],
        "loop": [term_layer(layer())],
        "post": [answer_layer(layer())],
    }
    options["steps"] = options.get("steps", 20) * passes_per_step(dim)
    return decoder_blueprint(modules, answer=space.read("answer")).build(**options)


def passes_per_step(dim: int) -> int:
    """Return the number of passes of the loop that make one step of Newton's method."""
    return dim * (dim + 1)


def serial_space(*, dim: int, points: int) -> Subspaces:
    """Return the coordinates: (S b), M and M S M row by row, the operands of one term, and the clocks."""
    rows = {
        "moments": (dim + 1, "row {0} of S^i, then entry {0} of b^i"),
        "inverse": (dim, "row {0} of M^i"),
        "product": (dim, "the terms of row {0} of M S M so far"),
    }
    start = torch.ones(2 * points + 1, dim + 1)
    start[:, 0] = 0
    state = row_by_row(rows, dim) | {
        "weights": (dim, "w^i at token x_i"),
        "answer": (1, "w^i · x_i at x tokens, after the post-transformer"),
        "left": (dim, "row a of M"),
        "right": (dim, "column f of (S b)"),
        "value": (dim, "row f of M; 0 for f = d"),
        "term": (dim + 1, "(left · right) times (value, 1 if f = d), inside a pass"),
        "row": (start[:, :dim], "the clock a: 0 in place a, 1 in all others"),
        "column": (start, "the clock f: 0 in place f, 1 in all others"),
    }
    return decoder_space(dim=dim, points=points, state=state)


def moments_layers(writers: list[LayerWriter], *, alpha: float) -> list[LayerWriter]:
    """Write a layer × 2 heads for each row of (S b) and of M_0 = αS, and the operands of the first term.

    The first term needs row 0 of M_0 twice and column 0 of S, of which layer f knows entry f.
    """
    space, dim = writers[0].space, len(writers)
    for row, writer in enumerate(writers):
        sum_moments(writer, row=row, alpha=alpha)
        entry = torch.zeros(dim, space.width, dtype=torch.float64)
        entry[row] = space.read(f"moments_{row}")[0]
        writer.add(entry, "right", note=f"feed-forward: right[{row}] ← S[{row}, 0]")
    first_row = alpha * space.read("moments_0", dim)
    note = "feed-forward: left, value ← row 0 of M_0"
    writers[0].add(first_row, "left").add(first_row, "value", note=note)
    return writers


def term_layer(writer: LayerWriter) -> LayerWriter:
    """Write one term of M S M, or one entry of M b, at every token x_i, with a pair of heads."""
    writer.linear_attention(
        query="left",
        key="right",
        value=("value", writer.read("feature") - writer.read("column")[-1, None]),
        into="term",
        unit=FINENESS,
        common=own_sample(writer),
        note="heads ±c: term ← (M_a · (S b)_f) times row f of M, or times 1 for f = d",
    )
    deliver(writer)
    finish_step(writer)
    fetch(writer)
    for clock in ("row", "column"):
        now = writer.read(clock)
        writer.add(now.roll(1, dims=0) - now, clock)
    return writer.note("feed-forward: both clocks turn by one")


def gate(writer: LayerWriter, source: Matrix, into: str, *, closed: Matrix) -> None:
    """Add `source` to `into` where `closed` is 0, nothing where it is 1 or more; |source| is at most GATE.

    `closed` must be a sum of coordinates that are 0 where the gate is open. As a difference, 1 - 1, it would
    round the source to GATE · eps: that is why the clocks hold 0 in the place they point to.
    """
    writer.add(source, into, closed=closed, bound=GATE)


def deliver(writer: LayerWriter) -> None:
    """Add the term to row a of product; for f = d set entry a of weights to it.

    Proof. Gate a is open where the clock points to a. For f = d `value` is 0, so only the last number of the
    term is not; for f < d it is the last that is 0. ∎
    """
    space = writer.space
    dim, rows = space.size("x"), space.read("row")
    for row in range(dim):
        gate(writer, space.read("term", dim), f"product_{row}", closed=rows[row, None])
    entry = space.read("term")[-1, None].expand(dim, -1) - space.read("weights")
    gate(writer, entry, "weights", closed=rows + space.read("column")[-1, None])
    writer.note("feed-forward: term goes to row a of product; for f = d to entry a of weights")


def finish_step(writer: LayerWriter) -> None:
    """Write inverse ← 2 inverse - product and product ← 0 where both clocks are at their end.

    Proof. The last pass of a step has f = d and adds nothing to product, which is therefore complete. The
    operands that `fetch` takes from row 0 of the old inverse get the same correction. ∎
    """
    space = writer.space
    ends = space.read("row")[-1, None] + space.read("column")[-1, None]
    closed = ends + space.read("label") + space.read("blank")
    for row in range(space.size("x")):
        product = space.read(f"product_{row}")
        change = space.read(f"inverse_{row}") - product
        gate(writer, change, f"inverse_{row}", closed=closed)
        gate(writer, -product, f"product_{row}", closed=closed)
        if row == 0:
            gate(writer, change, "left", closed=closed)
            gate(writer, change, "value", closed=closed)
    writer.note("feed-forward: at the end of both clocks inverse ← 2 inverse - product, product ← 0")


def fetch(writer: LayerWriter) -> None:
    """Write left, right, value ← the operands for the clocks' next position; term ← 0."""
    space = writer.space
    dim, rows, columns = space.size("x"), space.read("row"), space.read("column")
    for name in ("left", "right", "value", "term"):
        writer.clear(name)
    for row in range(dim):
        source = space.read(f"inverse_{(row + 1) % dim}")
        gate(writer, source, "left", closed=rows[row, None])
    for column in range(dim + 1):
        following, closed = (column + 1) % (dim + 1), columns[column, None]
        gate(writer, stacked(space, "moments", following), "right", closed=closed)
        if following < dim:
            gate(writer, space.read(f"inverse_{following}"), "value", closed=closed)
    writer.note("feed-forward: left, right, value ← operands of the next term, term ← 0")
