"""The copying lemma: one layer with q heads brings the q previous tokens to the present one.

Tokens are an empty one at place 0, then the rows x_1, x_2, ... Every place carries the codes of the q places
before it; before the start these point to place 0, where x is 0, so that missing history is zero and no
filter is needed. (The paper fills it with garbage and filters by the place's number afterwards.)
"""

from __future__ import annotations

import torch

from algoformer.model import AlgoFormer
from algoformer.theory.blueprint import Blueprint, row_map
from algoformer.theory.checks import check_counts
from algoformer.theory.constants import DOUBLE, Constants
from algoformer.theory.subspace import Part, Subspaces, quasi_orthogonal
from algoformer.theory.writer import LayerWriter, Matrix


def copy(
    *,
    dim: int,
    order: int,
    length: int,
    constants: Constants = DOUBLE,
    causal: bool = False,
    dtype: torch.dtype = torch.float64,
) -> AlgoFormer:
    """Build a layer × `order` heads that answers row t with [x_{t-q}, ..., x_{t-1}], zeros before the start.

    Args:
        dim: the numbers in a row.
        order: q, the number of rows to look back.
        length: the most rows a prompt may have.
        constants: the free parameters.
        causal: True for causal attention, which is all that this layer needs.
        dtype: the dtype of the finished model.
    """
    check_counts(dim=dim, order=order, length=length)
    space = Subspaces({"x": (dim, "x_t"), **history_parts(dim=dim, order=order, places=length + 1)})
    return Blueprint(
        space=space,
        modules={"copy": [copy_layer(LayerWriter(space, constants), order=order)]},
        rows=[row_map(space, space.write("x"))],
        answer=history(space, order=order),
        blanks=(1, 0),
        causal=causal,
    ).build(constants=constants, dtype=dtype)


def history_parts(*, dim: int, order: int, places: int) -> dict[str, Part]:
    """Return the subspaces that the copying layer needs besides x; before the start stands place 0."""
    codes, here, backs = quasi_orthogonal(places), torch.arange(places), range(1, order + 1)
    shifted = {back: codes[(here - back).clamp(min=0)] for back in backs}
    return {
        **{f"back{back}": (dim, f"x_(t-{back}), or 0 before the start") for back in backs},
        "code": (codes, "±1 code of this place"),
        **{f"code{back}": (shifted[back], f"±1 code of the place {back} before") for back in backs},
    }


def history(space: Subspaces, *, order: int) -> Matrix:
    """Return the rows that were copied, the oldest first."""
    return torch.cat([space.read(f"back{back}") for back in range(order, 0, -1)])


def copy_layer(writer: LayerWriter, *, order: int) -> LayerWriter:
    """Write the layer whose head b gives each token the x of the token b places before it: a shift by b.

    Proof. The query is the code of place t - b, which only that place's key matches; `attend`. ∎
    """
    for back in range(1, order + 1):
        note = f"head {back}: back{back} ← x of the token {back} places before"
        writer.attend(query=f"code{back}", key="code", value="x", into=f"back{back}", note=note)
    return writer
