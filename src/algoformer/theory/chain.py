"""Theorem 3.3: a chain of thought s^0 = x, s^{l+1} = σ(W^{l+1} s^l), σ a leaky ReLU; the W differ by prompt.

Tokens are an empty one (the sink), the rows of whole samples (x, s^1, ..., s^L), the question's rows up to
s^l, and an empty one. The pre-transformer finds out l from the last row, keeps s_i^l as features and brings
σ^{-1}(s_i^{l+1}) = W^{l+1} s_i^l beside them; the loop is the lemma; the post-transformer applies σ.
"""

from __future__ import annotations

from typing import Unpack

import torch
from torch.nn.functional import one_hot

from algoformer.model import AlgoFormer
from algoformer.theory.blueprint import Blueprint, BuildOptions, layers_in, row_map
from algoformer.theory.checks import check_counts
from algoformer.theory.gradient_descent import descent_layer
from algoformer.theory.subspace import Subspaces, quasi_orthogonal
from algoformer.theory.writer import LayerWriter


def chain(
    *, dim: int, layers: int, examples: int, step_size: float, slope: float, **options: Unpack[BuildOptions]
) -> AlgoFormer:
    """Build gradient descent on the chain's requested layer: pre 2 × 2, loop 1 × 2, post 1 × 1.

    It answers `prompt.prefix(i)` for any i: s^{l+1} at a last row s^l, for every l.

    Args:
        dim: the numbers in a state.
        layers: L, the layers of the chain; a sample has L + 1 rows.
        examples: N, the most whole samples a prompt may show before its question.
        step_size: η; converges below 2/λ_max of the mean of s^l s^lᵀ (see `check_converges`).
        slope: a, the slope of the leaky ReLU, in (0, 1]; errors of the labels are multiplied by 1/a.
        options: `constants`, whose `bound` must exceed every |s|, `steps` and `dtype` (see `BuildOptions`).
    """
    check_counts(dim=dim, layers=layers, examples=examples)
    if not 0 < slope <= 1:
        raise ValueError(
            f"slope must lie in (0, 1], got {slope}; at 0 the activation loses the size of negative inputs "
            "and cannot be inverted"
        )
    space = chain_space(dim=dim, layers=layers, places=2 + examples * (layers + 1) + layers)
    layer = layers_in(space, options)
    loop = descent_layer(
        layer(),
        features=space.read("feature"),
        sink=space.read("sink"),
        masked=space.read("unlabeled") - space.read("sink"),
        step_size=step_size,
        examples=examples,
    )
    note = "feed-forward: answer ← σ(residual)"
    return Blueprint(
        space=space,
        modules={
            "pre": [select_layer(layer()), filter_layer(layer(), slope=slope)],
            "loop": [loop],
            "post": [layer().add("residual", "answer", negative=slope, note=note)],
        },
        # one and the same map for every row of a sample, so that other samples are refused
        rows=[row_map(space, space.write("state"), mark="row")] * (layers + 1),
        answer=space.read("answer"),
        blanks=(1, 1),
    ).build(**options)


def chain_space(*, dim: int, layers: int, places: int) -> Subspaces:
    """Return the coordinates of a chain, and codes, layers, marks and counts for every place."""
    here, ones, codes = torch.arange(places), torch.ones(places), quasi_orthogonal(places + 1)
    sample, layer = (here - 1) // (layers + 1), one_hot((here - 1) % (layers + 1), layers + 1)
    layer[0] = 0
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
            "closed": (ones, "0 at rows of the layer asked for, else 1"),
            "unlabeled": (ones, "0 at those of them whose next row is shown, else 1"),
            "row": (1, "1 at rows of the prompt"),
            "sink": (here == 0, "1 at the empty token before the rows"),
            "one": (ones, "1 at every token"),
            "place": (here, "0, 1, 2, ... along the sequence"),
            "log_before": (
                sample.clamp(min=1).double().log(),
                "log of the number of samples before this one",
            ),
            "layer": (layer, "one-hot layer of this row"),
            "code": (codes[:-1], "±1 code of this place"),
            "next_code": (codes[1:], "±1 code of the next place"),
        }
    )


def select_layer(writer: LayerWriter) -> LayerWriter:
    """Find the rows of the layer asked for, and bring the next row beside each.

    Proof. Head 1 reads where place + 2·row is largest: at the last row, which beats the empty token after it
    and the row before it by 1. Head 2 reads the next place. The feed-forward network compares one-hot
    layers, `match`; the empty tokens match nothing (the first has no layer, the last a different one). ∎
    """
    writer.attend(
        query="one",
        key=writer.read("place") + 2 * writer.read("row"),
        value=("layer", "log_before"),
        into=("last_layer", "log_count"),
        note="head 1: last_layer, log_count ← layer and log n, read at the last row",
    )
    writer.attend(
        query="next_code",
        key="code",
        value=("state", "row"),
        into=("next_state", "next_row"),
        note="head 2: next_state, next_row ← state and mark of the next token",
    )
    note = "feed-forward: closed ← 0 where layer = last_layer"
    writer.match("layer", "last_layer", "closed", gain=-1.0, note=note)
    note = "feed-forward: unlabeled ← 0 where also the next token is a row"
    return writer.match("layer", "last_layer", "unlabeled", gain=-1.0, also="next_row", note=note)


def filter_layer(writer: LayerWriter, *, slope: float) -> LayerWriter:
    """Keep s^l as features and -σ^{-1}(s^{l+1}) as residuals, all else 0: gated feed-forward units."""
    note = "feed-forward: feature ← state where not closed"
    writer.add("state", "feature", closed=writer.read("closed"), note=note)
    note, closed = "feed-forward: residual ← -σ^{-1}(next_state) where labeled", writer.read("unlabeled")
    return writer.add(
        "next_state", "residual", positive=-1.0, negative=-1.0 / slope, closed=closed, note=note
    )
