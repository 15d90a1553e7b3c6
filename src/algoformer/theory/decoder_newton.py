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

from typing import Unpack

import torch

from algoformer.model import AlgoFormer
from algoformer.theory.blueprint import BuildOptions, layers_in
from algoformer.theory.checks import check_positive_alpha
from algoformer.theory.decoder import FINENESS, decoder_blueprint, decoder_space, example_layer, own_sample
from algoformer.theory.subspace import Part, Subspaces
from algoformer.theory.writer import LayerWriter, Matrix


def decoder_newton(*, dim: int, points: int, alpha: float, **options: Unpack[BuildOptions]) -> AlgoFormer:
    """Build a causal model each pass of whose loop is one step of Newton's method at every prefix.

    It answers every question of a prompt. In the state `loop[k]` the token x_i holds the rows of M^i_k in
    `inverse_0`, `inverse_1`, ...; in `post` the first number of `answer_0`, `answer_1`, ... is w^i_k.

    Args:
        dim: the numbers in x; 2 dim² heads make 3 to 8 comfortable.
        points: the most questions a prompt may ask.
        alpha: α; one for all prefixes, strictly between 0 and 2/λ_max(S)² of the longest (see `check_alpha`).
        options: `constants`, `steps` and `dtype` (see `BuildOptions`).
    """
    check_positive_alpha(alpha)
    rows = {
        "moments": (dim + 1, "row {0} of S^i, then entry {0} of b^i"),
        "inverse": (dim, "row {0} of M^i_k"),
        "product": (dim, "row {0} of M S M, between attention and feed-forward"),
        "answer": (2, "entry {0} of w^i_k, then that times entry {0} of x_i, after the post-transformer"),
    }
    space = decoder_space(dim=dim, points=points, state=row_by_row(rows, dim))
    layer = layers_in(space, options)
    moments = layer()
    for row in range(dim):
        sum_moments(moments, row=row, alpha=alpha)
    modules = {
        "copy": [example_layer(layer())],
        "moments": [moments],
        "loop": [step_layer(layer())],
        "post": [answer_layer(layer())],
    }
    answer = stacked(space, "answer", 1).sum(dim=0, keepdim=True)
    return decoder_blueprint(modules, answer=answer).build(**options)


def row_by_row(rows: dict[str, tuple[int, str]], dim: int) -> dict[str, Part]:
    """Return subspaces `name`_0, `name`_1, ... for the rows of each matrix; `{0}` is the row's number."""
    return {
        f"{name}_{row}": (width, meaning.format(row))
        for name, (width, meaning) in rows.items()
        for row in range(dim)
    }


def stacked(space: Subspaces, name: str, column: int) -> Matrix:
    """Return column `column` of the matrix whose rows stand in `name`_0, `name`_1, ..."""
    return torch.cat([space.read(f"{name}_{row}")[column, None] for row in range(space.size("x"))])


def sum_moments(writer: LayerWriter, *, row: int, alpha: float) -> None:
    """Write row f of S^i and entry f of b^i at every x_i with a pair of heads, and row f of M_0 = α S^i.

    Proof. The query is 1 at x tokens, the key x_jf and the value (x_j, y_j) at token y_j, so the pair gives
    Σ_{j<i} x_jf (x_j, y_j). ∎ S and b come from the same weights sinh(c x_jf)/c, so labels y_j = w·x_j give
    b = S w whatever c is. The feed-forward network multiplies by α exactly.
    """
    space = writer.space
    writer.linear_attention(
        query="feature",
        key=space.read("example")[row, None],
        value=("example", "y"),
        into=f"moments_{row}",
        unit=FINENESS,
        common=writer.sink_scores(sink="blank"),
        note=f"heads ±c: moments_{row} ← Σ_{{j<i}} x_j[{row}] (x_j, y_j)",
    )
    note = f"feed-forward: inverse_{row} ← α times row {row} of S"
    writer.add(alpha * space.read(f"moments_{row}", space.size("x")), f"inverse_{row}", note=note)


def step_layer(writer: LayerWriter) -> LayerWriter:
    """Write inverse ← 2 M - M S M at every token x_i: d² pairs of heads.

    Proof. Pair (a, f) gives row a of `product` the term (M S)_af M_f, as at the top of this file; the sum
    over f is row a of M S M. The residual connection keeps M once, the feed-forward network adds M - M S M
    and clears product. The sink and the y tokens hold no moments; the gate keeps rounding from doubling. ∎
    """
    space, dim, common = writer.space, writer.space.size("x"), own_sample(writer)
    for row in range(dim):
        for column in range(dim):
            writer.linear_attention(
                query=f"inverse_{row}",
                key=stacked(space, "moments", column),
                value=f"inverse_{column}",
                into=f"product_{row}",
                unit=FINENESS,
                common=common,
                note=f"heads ±c: product_{row} += (M S)[{row}, {column}] times inverse_{column}",
            )
    closed = space.read("label") + space.read("blank")
    for row in range(dim):
        change = space.read(f"inverse_{row}") - space.read(f"product_{row}")
        writer.add(change, f"inverse_{row}", closed=closed).clear(f"product_{row}")
    return writer.note("feed-forward: inverse ← 2 inverse - product, product ← 0")


def answer_layer(writer: LayerWriter) -> LayerWriter:
    """Write answer ← the entries of w = M b, and each times that of x_i: d pairs of heads.

    Proof. Pair a has the score M_a · b = w_a and the values 1 and x_ia. ∎ The read-out adds up w_a x_ia.
    """
    space, dim, common = writer.space, writer.space.size("x"), own_sample(writer)
    for row in range(dim):
        writer.linear_attention(
            query=f"inverse_{row}",
            key=stacked(space, "moments", dim),
            value=("feature", space.read("x")[row, None]),
            into=f"answer_{row}",
            unit=FINENESS,
            common=common,
            note=f"heads ±c: answer_{row} ← w[{row}] and w[{row}] x_i[{row}]",
        )
    return writer
