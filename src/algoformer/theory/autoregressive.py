"""Theorem 3.2: a series in which x_t = A Φ*([x_{t-q}, ..., x_{t-1}]) + noise.

Tokens are an empty one (the sink, and all that was before the start), x_1, ..., x_T, and an empty one for
x_{T+1}. The copying layer brings the q previous rows to each token, so that place t holds features and
label of one and the same example: (Φ*(x_{t-q:t-1}), x_t). The last, empty token is the question.
"""

from __future__ import annotations

from typing import Unpack

import torch

from algoformer.model import AlgoFormer
from algoformer.theory.blueprint import Blueprint, BuildOptions, layers_in, row_map
from algoformer.theory.checks import check_counts
from algoformer.theory.copying import copy_layer, history, history_parts
from algoformer.theory.gradient_descent import descent_layer
from algoformer.theory.network import Network, write_network
from algoformer.theory.subspace import Subspaces
from algoformer.theory.writer import LayerWriter


def autoregressive(
    *, network: Network, order: int, length: int, step_size: float, **options: Unpack[BuildOptions]
) -> AlgoFormer:
    """Build gradient descent on a series: pre 1 layer × q heads and (L+1) × 1, loop 1 × 2, post 1 × 1.

    It answers `prompt.prefix(i)` for any i: x_{T+1} from x_1 .. x_T, T ≤ length, by regression over the T - q
    rows that have a whole history.

    Args:
        network: Φ*, from order · dim numbers, the oldest row first.
        order: q, the number of rows that a new one depends on.
        length: N, the most rows a prompt may have; more than `order`.
        step_size: η; converges below 2/λ_max of the mean of Φ* Φ*ᵀ (see `check_converges`).
        options: `constants`, `steps` and `dtype` (see `BuildOptions`).
    """
    check_counts(order=order)
    if length <= order:
        raise ValueError(f"length must be at least {order + 1}, got {length}; a row needs {order} before it")
    if network.dim % order:
        raise ValueError(
            f"network must read order={order} rows, so that its dim is a multiple of it; got {network.dim}"
        )
    space = series_space(dim=network.dim // order, order=order, length=length, broadest=network.broadest)
    layer, one, sink = layers_in(space, options), space.read("one"), space.read("sink")
    rows = history(space, order=order)
    mlp = write_network(layer, network, source=rows, into="phi", where=one - sink)
    loop = descent_layer(
        layer(),
        features=space.read("phi", network.out) if network.layers else rows,
        sink=sink,
        masked=one - sink - space.read("row") + space.read("early"),
        step_size=step_size,
        examples=length - order,
    )
    note = "head 1: answer ← residual of the last token, the question"
    post = layer().attend(query="one", key="place", value="residual", into="answer", note=note)
    return Blueprint(
        space=space,
        modules={
            "copy": [copy_layer(layer(), order=order)],
            "pre": [*mlp, start_layer(layer())],
            "loop": [loop],
            "post": [post],
        },
        rows=[row_map(space, space.write("x"), mark="row")],
        answer=space.read("answer"),
        blanks=(1, 1),
    ).build(**options)


def series_space(*, dim: int, order: int, length: int, broadest: int) -> Subspaces:
    """Return the coordinates of a series: the empty token, `length` rows and the question."""
    places = torch.arange(length + 2)
    before, early = (places - order - 1).clamp(min=1), (places > 0) & (places <= order)
    return Subspaces(
        {
            "x": (dim, "x_t"),
            **history_parts(dim=dim, order=order, places=length + 2),
            "phi": (broadest, "Φ* of the history"),
            "residual": (dim, "A_k Φ* - x_t at rows, A_k Φ* at the question"),
            "answer": (dim, "after the post-transformer: A_k Φ* of the question, at every token"),
            "log_count": (1, "log of the number of examples, at every token"),
            "row": (1, "1 at rows of the prompt"),
            "early": (early, "1 at the first q places, whose history is not whole"),
            "sink": (places == 0, "1 at the empty token before the rows"),
            "one": (torch.ones(length + 2), "1 at every token"),
            "place": (places, "0, 1, 2, ... along the sequence"),
            "log_before": (before.double().log(), "log of the number of examples before this place"),
        }
    )


def start_layer(writer: LayerWriter) -> LayerWriter:
    """Start from A_0 = 0: residual ← -x_t at every row, 0 at the question; log_count ← log n everywhere."""
    note = "head 1: log_count ← log n, read at the last token"
    writer.attend(query="one", key="place", value="log_before", into="log_count", note=note)
    note = "feed-forward: residual ← -x_t (0 at the empty tokens)"
    return writer.add(-writer.read("x"), "residual", note=note)
