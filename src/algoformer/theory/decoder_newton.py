"""Newton's method in a decoder, for every prefix of the prompt at once: what the paper leaves open.

Token x_i holds S^i = Σ_{j<i} x_j x_jᵀ, b^i = Σ_{j<i} y_j x_j and its own M^i (d × d), and a pass does

    M^i ← 2 M^i - M^i S^i M^i,      w^i = M^i b^i,      answer w^i · x_i.

Unlike in the encoder, M^i x_j cannot be stored at token j: it differs for every later i. So M^i itself must
stand at token x_i, and the cubic term must be formed there. One pair of heads can do more than a product
of two numbers: its score is a product of two vectors of the token and its value a third. With `own_sample`
the token reads itself, and for each (a, f)

    query row a of M,  key column f of S,  value row f of M:    (M S)_af · M_f  into row a.

Summed over f that is row a of M S M: d² pairs of heads, one layer, no ReLU interpolation.

Cost for dim d: width 3d² + O(d + log points); pre 2 layers (1 head, then 2d heads), loop 1 layer × 2d² heads,
post 1 layer × 2d heads.
"""

from __future__ import annotations

import torch

from algoformer.model import AlgoFormer
from algoformer.theory.blueprint import Blueprint
from algoformer.theory.checks import check_count
from algoformer.theory.constants import DOUBLE, Constants
from algoformer.theory.decoder import (
    FINENESS,
    decoder_positions,
    decoder_rows,
    decoder_sink,
    decoder_space,
    example_layer,
    own_sample,
)
from algoformer.theory.gadgets import add_linear, add_piecewise, clear, linear_attention
from algoformer.theory.newton import check_positive_alpha
from algoformer.theory.subspace import Subspaces
from algoformer.theory.writer import LayerWriter, Matrix


def decoder_newton(
    *,
    dim: int,
    points: int,
    alpha: float,
    constants: Constants = DOUBLE,
    steps: int = 20,
    dtype: torch.dtype = torch.float64,
) -> AlgoFormer:
    """Build a causal model each pass of whose loop is one step of Newton's method at every prefix.

    It answers every question of a prompt. In the state `loop[k]` the token x_i holds the rows of M^i_k in
    `inverse_0`, `inverse_1`, ...; in `post` the first number of `answer_0`, `answer_1`, ... is w^i_k.

    Args:
        dim: numbers in x; 2 dim² heads make 3 to 8 comfortable.
        points: the most questions a prompt may ask.
        alpha: α; one for all prefixes, strictly between 0 and 2/λ_max(S)² of the longest (see `check_alpha`).
        constants: the free parameters.
        steps: how often the loop runs unless an unroll says otherwise.
        dtype: of the finished model.
    """
    check_count("dim", dim)
    check_count("points", points)
    check_positive_alpha(alpha)
    constants.check(dtype)
    space = matrix_space(dim=dim, points=points)
    blueprint = Blueprint(
        space=space,
        pre={
            "copy": [example_layer(space, constants)],
            "moments": [moments_layer(space, alpha=alpha, constants=constants)],
        },
        loop=[step_layer(space, constants=constants)],
        post={"post": [answer_layer(space, constants=constants)]},
        rows=decoder_rows(space, dim=dim),
        positions=decoder_positions(space, points=points),
        answer=stacked(space, "answer", 1).sum(dim=0, keepdim=True),
        blanks=(1, 0),
        causal=True,
    )
    return blueprint.build(steps=steps, dtype=dtype)


def matrix_space(*, dim: int, points: int) -> Subspaces:
    """Return the coordinates at token x_i: (S b), M and M S M row by row, and the terms of the answer."""
    rows = {
        "moments": (dim + 1, "row {} of S^i, then entry {} of b^i"),
        "inverse": (dim, "row {} of M^i_k"),
        "product": (dim, "row {} of M S M, between attention and feed-forward"),
        "answer": (2, "entry {} of w^i_k, then that times entry {} of x_i, after the post-transformer"),
    }
    state = {
        f"{name}_{row}": (width, meaning.format(row, row))
        for name, (width, meaning) in rows.items()
        for row in range(dim)
    }
    return decoder_space(dim=dim, points=points, state=state)


def stacked(space: Subspaces, name: str, column: int) -> Matrix:
    """Column `column` of the matrix whose rows stand in `name`_0, `name`_1, ..."""
    return torch.cat([space.read(f"{name}_{row}")[column, None] for row in range(space.size("x"))])


def moments_layer(space: Subspaces, *, alpha: float, constants: Constants) -> LayerWriter:
    """moments ← (S^i b^i) at every token x_i, and inverse ← M_0 = α S^i: d pairs of heads."""
    writer = LayerWriter(space)
    for row in range(space.size("x")):
        sum_moments(writer, row=row, constants=constants)
        start_inverse(writer, row=row, alpha=alpha)
    return writer


def sum_moments(writer: LayerWriter, *, row: int, constants: Constants) -> None:
    """Row f of S^i and entry f of b^i at every token x_i: a pair of heads.

    Proof. The query is 1 at x tokens, the key x_jf and the value (x_j, y_j) at token y_j, so the pair gives
    Σ_{j<i} x_jf (x_j, y_j). ∎ S and b come from the same weights sinh(c x_jf)/c, so labels y_j = w·x_j give
    b = S w whatever c is.
    """
    space = writer.space
    linear_attention(
        writer,
        query=space.read("feature"),
        key=space.read("example")[row, None],
        value=torch.cat([space.read("example"), space.read("y")]),
        into=f"moments_{row}",
        rate=1.0,
        unit=FINENESS,
        common=decoder_sink(space, constants),
        constants=constants,
        note=f"heads ±c: moments_{row} ← Σ_{{j<i}} x_j[{row}] (x_j, y_j)",
    )


def start_inverse(writer: LayerWriter, *, row: int, alpha: float) -> None:
    """Row f of inverse ← row f of M_0 = α S^i, exactly."""
    add_linear(
        writer,
        source=alpha * writer.space.read(f"moments_{row}", writer.space.size("x")),
        into=f"inverse_{row}",
        note=f"feed-forward: inverse_{row} ← α times row {row} of S",
    )


def step_layer(space: Subspaces, *, constants: Constants) -> LayerWriter:
    """inverse ← 2 M - M S M at every token x_i: d² pairs of heads.

    Proof. Pair (a, f) gives row a of `product` the term (M S)_af M_f, as at the top of this file; the sum
    over f is row a of M S M. The residual connection keeps M once, the feed-forward network adds M - M S M
    and clears product. The sink and the y tokens hold no moments; the gate keeps rounding from doubling. ∎
    """
    writer = LayerWriter(space)
    dim = space.size("x")
    common = [*decoder_sink(space, constants), own_sample(space, constants)]
    for row in range(dim):
        for column in range(dim):
            linear_attention(
                writer,
                query=space.read(f"inverse_{row}"),
                key=stacked(space, "moments", column),
                value=space.read(f"inverse_{column}"),
                into=f"product_{row}",
                rate=1.0,
                unit=FINENESS,
                common=common,
                constants=constants,
                note=f"heads ±c: product_{row} += (M S)[{row}, {column}] times inverse_{column}",
            )
    for row in range(dim):
        inverse, product = space.read(f"inverse_{row}"), space.read(f"product_{row}")
        add_piecewise(
            writer,
            source=inverse - product,
            into=f"inverse_{row}",
            positive=1.0,
            negative=1.0,
            closed=space.read("label") + space.read("blank"),
            bound=constants.bound,
        )
        clear(writer, name=f"product_{row}")
    writer.note("feed-forward: inverse ← 2 inverse - product, product ← 0")
    return writer


def answer_layer(space: Subspaces, *, constants: Constants) -> LayerWriter:
    """answer ← the entries of w = M b, and each times that of x_i: d pairs of heads.

    Proof. Pair a has the score M_a · b = w_a and the values 1 and x_ia. ∎ The read-out adds up w_a x_ia.
    """
    writer = LayerWriter(space)
    dim = space.size("x")
    common = [*decoder_sink(space, constants), own_sample(space, constants)]
    for row in range(dim):
        linear_attention(
            writer,
            query=space.read(f"inverse_{row}"),
            key=stacked(space, "moments", dim),
            value=torch.cat([space.read("feature"), space.read("x")[row, None]]),
            into=f"answer_{row}",
            rate=1.0,
            unit=FINENESS,
            common=common,
            constants=constants,
            note=f"heads ±c: answer_{row} ← w[{row}] and w[{row}] x_i[{row}]",
        )
    return writer
