"""The work that running a program takes, by formula: FLOPs of both passes, memory kept between them.

FLOPs are those of matrix products, two for each multiply-add, with attention counted in full also where it
is causal: the convention of PyTorch's own counter, which the tests compare with. The backward pass makes
two products for each one of a tracked forward pass (a gradient for the weights, one for the input), less
those that are not needed: the read-in's input has no gradient, nor has a state that iterations without
a graph made. A fused attention kernel computes its scores again on the way back: `recomputed` counts that.
An unroll with gradient checkpointing runs each tracked iteration again: `repeated` counts that in full,
although PyTorch leaves out a product at the very end that no norm follows.

Memory is what autograd keeps between the passes with a fused attention kernel: the inputs of norms (with
their statistics) and of products, queries, keys, values, attention's output with one number a head and
token, the inputs of activations, and what injections multiply. Parameters are not in it.
The last layer computes its output at the rows to read only; where it is causal, it keeps a mask.
With gradient checkpointing it is what enters each tracked iteration of the unrolled loop, and what entered
the loop; on the way back one iteration at a time is kept in full beside that. Parts after the loop are not
run again.
Branches of a `Parallel` that begin without positions keep one tensor together; it is counted for each. So is
a state that two places keep: a loop's input that is its first state, or one between products without norms.
The gate of a traced loop is read; that of any other loop is not computed, or in a branch without gradient.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

from algoformer.model.program import Layers
from algoformer.nn import ACTIVATIONS, NORMS, POSITIONS


@dataclass(frozen=True, kw_only=True)
class Work:
    """The operations and the memory of something that runs; works add up.

    Attributes:
        layers: transformer layers evaluated, each on one batch.
        tracked_layers: those of them that the backward pass goes through.
        forward: FLOPs of the forward pass.
        backward: FLOPs of the backward pass.
        recomputed: FLOPs that a fused attention kernel adds to the backward pass.
        repeated: FLOPs of iterations that the backward pass runs again.
        kept: numbers kept for the backward pass.
    """

    layers: int = 0
    tracked_layers: int = 0
    forward: int = 0
    backward: int = 0
    recomputed: int = 0
    repeated: int = 0
    kept: int = 0

    @property
    def training(self) -> int:
        """FLOPs of a training step: forward and backward, and what the latter runs again."""
        return self.forward + self.backward + self.repeated

    def __add__(self, other: Work) -> Work:
        return Work(**{name: getattr(self, name) + getattr(other, name) for name in _COUNTS})

    def __mul__(self, times: int) -> Work:
        return Work(**{name: getattr(self, name) * times for name in _COUNTS})


_COUNTS = tuple(item.name for item in fields(Work))


@dataclass(frozen=True, kw_only=True)
class Stream:
    """The stream through a part: `sequences` of `tokens`, each `width` numbers.

    Attributes:
        width: numbers in a token.
        sequences: in all batches together.
        tokens: in a sequence.
        read: tokens of a sequence at which the end is read; None means all.
        batches: how many lie in one, as behind a loop, where the iterations of the window do.
    """

    width: int
    sequences: int
    tokens: int
    read: int | None = None
    batches: int = 1

    @property
    def numbers(self) -> int:
        """Numbers in the whole stream."""
        return self.sequences * self.tokens * self.width

    @property
    def whole(self) -> Stream:
        """The same where all tokens are needed, because something follows."""
        return replace(self, read=None)

    @property
    def left(self) -> Stream:
        """The tokens that are read alone."""
        return self if self.read is None else replace(self, tokens=self.read, read=None)


def layers_work(part: Layers, stream: Stream, *, tracked: bool, carried: bool) -> Work:
    """Return the work of layers on a stream that may carry a gradient."""
    work = Work(kept=_norm(part.final_norm_kind, stream.left) * tracked)
    if not part.count:
        return work
    weighted = "in" in part.norm_at and NORMS[part.norm].weighted
    carried = carried or weighted or (part.adds_positions and POSITIONS[part.positions].weighted)
    if part.count == 1:
        return work + _layer(part, stream, tracked=tracked, carried=carried)
    work += _layer(part, stream.whole, tracked=tracked, carried=carried)
    work += _layer(part, stream.whole, tracked=tracked) * (part.count - 2)
    return work + _layer(part, stream, tracked=tracked)


def _layer(part: Layers, stream: Stream, *, tracked: bool, carried: bool = True) -> Work:
    left, width = stream.left, stream.width
    seen, read = stream.sequences * stream.tokens, left.sequences * left.tokens
    one, hidden = part.width_of_head(width), part.hidden or 4 * width
    heads, keys = part.heads * one, part.key_heads * one
    entrance = 2 * width * seen * (heads + 2 * keys)
    scores = 2 * read * stream.tokens * heads
    gate = 2 * read * heads * width * part.output_gate
    forward = (
        entrance + 2 * scores + gate + 2 * read * heads * width + 2 * read * width * hidden * (2 + part.gated)
    )
    if not tracked:
        return Work(layers=stream.batches, forward=forward)
    kept = _norms(part, stream) + stream.numbers + left.numbers
    kept += seen * (heads + 2 * keys) + read * heads + read * part.heads + _kept_by_words(part, stream, one)
    activation = ACTIVATIONS[part.activation]
    # a gated network keeps the whole product, what the activation makes of its half, and their product
    results = activation.kept - activation.keeps_input
    kept += read * hidden * (3 + results if part.gated else activation.kept)
    if stream.read is not None:
        # the queries at these rows, and the mask
        kept += read * heads + left.tokens * stream.tokens * part.causal
    return Work(
        layers=stream.batches,
        tracked_layers=stream.batches,
        forward=forward,
        backward=2 * forward - (0 if carried else entrance + gate),
        recomputed=scores,
        kept=kept,
    )


def _kept_by_words(part: Layers, stream: Stream, one: int) -> int:
    """Return what norms and rotations of queries and keys, and a gate of heads of width `one`, keep."""
    heads, keys = part.heads * one, part.key_heads * one
    seen, read = stream.sequences * stream.tokens, stream.left.sequences * stream.left.tokens
    normed, rotated = part.qk_norm != "none", POSITIONS[part.positions].rotation is not None
    whole = seen * heads if stream.read is None else 0
    kept = (seen * keys + whole) * (normed or rotated)  # apart from the product that they are made of
    if normed:
        kept += seen * (2 if part.qk_norm == "full" else part.heads + part.key_heads)
        kept += seen * (heads + keys) * (part.qk_norm != "plain")
    if rotated:
        # cosines and sines for queries and for keys; the output of several heads lies head by head, and is
        # copied
        kept += 2 * stream.tokens * one + whole * (part.heads > 1)
    if part.output_gate:
        # the gate and the product; a copy of the rows to read enters it
        kept += 2 * read * heads + (0 if stream.read is None else read * stream.width)
    return kept


def _norms(part: Layers, stream: Stream) -> int:
    """Return the numbers that the norms of one layer keep."""
    places, left = part.norm_at.split("+"), stream.left
    kept = _norm(part.norm, stream) + _norm(part.norm, left) if "in" in places else 0
    return kept + 2 * _norm(part.norm, left) * (len(places) - ("in" in places))


def _norm(kind: object, stream: Stream) -> int:
    return NORMS[kind].kept(stream.width) * stream.sequences * stream.tokens
