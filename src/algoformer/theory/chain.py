"""Theorem 3.3: a chain of thought s^0 = x, s^{l+1} = σ(W^{l+1} s^l), σ a leaky ReLU; the W differ by prompt.

Tokens are an empty one (the sink), the rows of whole samples (x, s^1, ..., s^L), the question's rows up to
s^l, and an empty one. The pre-transformer finds out l from the last row, keeps s_i^l as features and brings
σ^{-1}(s_i^{l+1}) = W^{l+1} s_i^l beside them; the loop is the lemma; the post-transformer applies σ.
"""

from __future__ import annotations

from functools import partial

import torch

from algoformer.model import AlgoFormer
from algoformer.theory.blueprint import Blueprint, position_table, row_map
from algoformer.theory.checks import check_count, check_slope, check_step_size
from algoformer.theory.codes import quasi_orthogonal
from algoformer.theory.constants import DOUBLE, Constants
from algoformer.theory.gadgets import add_piecewise, attend, match
from algoformer.theory.gradient_descent import descent_layer
from algoformer.theory.subspace import Subspaces
from algoformer.theory.writer import LayerWriter


def chain(
    *,
    dim: int,
    layers: int,
    examples: int,
    step_size: float,
    slope: float,
    constants: Constants = DOUBLE,
    steps: int = 20,
    dtype: torch.dtype = torch.float64,
) -> AlgoFormer:
    """Gradient descent on whichever layer of the chain is asked for: pre 2 × 2, loop 1 × 2, post 1 × 1.

    It answers `prompt.prefix(i)` for any i: s^{l+1} at a last row s^l, for every l.

    Args:
        dim: numbers in a state.
        layers: L, layers of the chain; a sample has L + 1 rows.
        examples: N, the most whole samples a prompt may show before its question.
        step_size: η; converges below 2/λ_max of the mean of s^l s^lᵀ (see `check_converges`).
        slope: a of the leaky ReLU, in (0, 1]; errors of the labels are multiplied by 1/a.
        constants: the free parameters; `bound` must exceed every |s|.
        steps: how often the loop runs unless an unroll says otherwise.
        dtype: of the finished model.
    """
    for name, value in (("dim", dim), ("layers", layers), ("examples", examples)):
        check_count(name, value)
    check_step_size(step_size)
    check_slope(slope)
    constants.check(dtype)
    places = 2 + examples * (layers + 1) + layers
    space = chain_space(dim=dim, layers=layers, places=places)
    sink = space.read("sink")
    loop = descent_layer(
        space,
        features=space.read("feature"),
        sink=sink,
        masked=space.read("unlabeled") - sink,
        step_size=step_size,
        examples=examples,
        constants=constants,
    )
    blueprint = Blueprint(
        space=space,
        pre={"pre": [select_layer(space, constants), filter_layer(space, slope, constants)]},
        loop=[loop],
        post={"post": [activation_layer(space, slope)]},
        # one and the same map for every row of a sample, so that other samples are refused
        rows=[row_map(space, dim=dim, into={"state": dim}, row=1.0)] * (layers + 1),
        positions=chain_positions(space, layers=layers, places=places),
        answer=space.read("answer"),
        blanks=(1, 1),
    )
    return blueprint.build(steps=steps, dtype=dtype)


def chain_space(*, dim: int, layers: int, places: int) -> Subspaces:
    """Return the coordinates of a chain."""
    bits = quasi_orthogonal(places + 1).shape[1]
    return Subspaces(
        {
            "state": (dim, "s at every row"),
            "next_state": (dim, "s of the next row"),
            "next_row": (1, "1 where the next token is a row"),
            "feature": (dim, "s^l at rows of the layer asked for, else 0"),
            "residual": (dim, "A_k s^l - σ^{-1}(s^{l+1}) at examples, A_k s^l at the question"),
            "answer": (dim, "after the post-transformer: σ(A_k s^l)"),
            "last_layer": (layers + 1, "one-hot layer of the last row"),
            "log_count": (1, "log of the number of examples, at every token"),
            "closed": (1, "0 at rows of the layer asked for, else 1"),
            "unlabeled": (1, "0 at those of them whose next row is shown, else 1"),
            "row": (1, "1 at rows of the prompt"),
            "sink": (1, "1 at the empty token before the rows"),
            "one": (1, "1 at every token"),
            "place": (1, "0, 1, 2, ... along the sequence"),
            "log_before": (1, "log of the number of samples before this one"),
            "layer": (layers + 1, "one-hot layer of this row"),
            "code": (bits, "±1 code of this place"),
            "next_code": (bits, "±1 code of the next place"),
        }
    )


def chain_positions(space: Subspaces, *, layers: int, places: int) -> torch.Tensor:
    """Codes, layers, marks and counts for the empty token, the rows and the empty token after them."""
    here = torch.arange(places)
    rows = here - 1
    layer = torch.nn.functional.one_hot(rows % (layers + 1), layers + 1)
    layer[0] = 0
    codes = quasi_orthogonal(places + 1)
    ones = torch.ones(places, 1)
    return position_table(
        space,
        {
            "closed": ones,
            "unlabeled": ones,
            "one": ones,
            "sink": (here == 0)[:, None],
            "place": here[:, None],
            "log_before": (rows // (layers + 1)).clamp(min=1).double().log()[:, None],
            "layer": layer,
            "code": codes[:-1],
            "next_code": codes[1:],
        },
    )


def select_layer(space: Subspaces, constants: Constants) -> LayerWriter:
    """Find the rows of the layer asked for, and bring the next row beside each.

    Proof. Head 1 reads where place + 2·row is largest: at the last row, which beats the empty token after it
    and the row before it by 1. Head 2 reads the next place. The feed-forward network compares one-hot
    layers, `match`; the empty tokens match nothing (the first has no layer, the last a different one). ∎
    """
    writer = LayerWriter(space)
    attend(
        writer,
        query=space.read("one"),
        key=space.read("place") + 2 * space.read("row"),
        value=torch.cat([space.read("layer"), space.read("log_before")]),
        into=("last_layer", "log_count"),
        constants=constants,
        note="head 1: last_layer, log_count ← layer and log n, read at the last row",
    )
    attend(
        writer,
        query=space.read("next_code"),
        key=space.read("code"),
        value=torch.cat([space.read("state"), space.read("row")]),
        into=("next_state", "next_row"),
        constants=constants,
        note="head 2: next_state, next_row ← state and mark of the next token",
    )
    same = partial(
        match, writer, first=space.read("layer"), second=space.read("last_layer"), one=space.read("one")
    )
    same(gain=-1.0, into="closed", note="feed-forward: closed ← 0 where layer = last_layer")
    same(
        gain=-1.0,
        also=space.read("next_row"),
        into="unlabeled",
        note="feed-forward: unlabeled ← 0 where also the next token is a row",
    )
    return writer


def filter_layer(space: Subspaces, slope: float, constants: Constants) -> LayerWriter:
    """Keep s^l as features and -σ^{-1}(s^{l+1}) as residuals, all else 0: `add_piecewise` with gates."""
    writer = LayerWriter(space)
    add_piecewise(
        writer,
        source=space.read("state"),
        into="feature",
        positive=1.0,
        negative=1.0,
        closed=space.read("closed"),
        bound=constants.bound,
        note="feed-forward: feature ← state where not closed",
    )
    add_piecewise(
        writer,
        source=space.read("next_state"),
        into="residual",
        positive=-1.0,
        negative=-1.0 / slope,
        closed=space.read("unlabeled"),
        bound=constants.bound,
        note="feed-forward: residual ← -σ^{-1}(next_state) where labeled",
    )
    return writer


def activation_layer(space: Subspaces, slope: float) -> LayerWriter:
    """answer ← σ(residual)."""
    writer = LayerWriter(space)
    add_piecewise(
        writer,
        source=space.read("residual"),
        into="answer",
        positive=1.0,
        negative=slope,
        note="feed-forward: answer ← σ(residual)",
    )
    return writer
