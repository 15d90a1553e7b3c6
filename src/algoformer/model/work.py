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
Branches of a `Parallel` that begin without positions keep one tensor together; it is counted for each.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import lru_cache

from algoformer.model.injections import INJECTIONS, STARTS
from algoformer.model.program import Layers, Loop, Part, Program, traced_part
from algoformer.model.two_states import TwoStates
from algoformer.nn import ACTIVATIONS, NORMS, POSITIONS
from algoformer.trace import Unroll


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


def unrolled_work(program: Program, stream: Stream, unroll: Unroll) -> tuple[list[Work], bool, bool]:
    """Each part's work; whether gradients reach what enters; whether what leaves carries any."""
    traced = traced_part(program)
    if traced is None:
        return _each(program.parts, stream), True, True
    part = program.parts[traced]
    here = stream if traced + 1 == len(program) else stream.whole
    if isinstance(part, Loop):
        steps = unroll.steps if unroll.grad_steps is None else unroll.grad_steps
        work = _iterations(part, here, unroll.steps, tracked=steps)
        if unroll.gradient_checkpointing:
            work = _repeated(part, here, work, unroll.steps, tracked=steps)
        work += _gate(part, here, unroll.length, carried=steps > 0, ends=traced + 1 == len(program))
        carried = steps > 0
        reached = carried and _reached(part, unroll.steps, steps)
    else:
        assert not isinstance(part, Layers)
        branches = [unrolled_work(branch, here, unroll) for branch in part.branches]
        work = sum((inner for works, _, _ in branches for inner in works), Work())
        reached, carried = any(item[1] for item in branches), any(item[2] for item in branches)
    # a part that no gradient reaches builds a graph, which is dropped as soon as the loop is done with it
    before = _each(program.parts[:traced], stream.whole, tracked=reached)
    window = replace(stream, sequences=unroll.length * stream.sequences, batches=unroll.length)
    after = _each(program.parts[traced + 1 :], window, carried=carried)
    return [*before, work, *after], reached, carried or bool(after)


def _each(
    parts: tuple[Part, ...], stream: Stream, *, tracked: bool = True, carried: bool = True
) -> list[Work]:
    # every part has parameters, so that behind the first the stream always carries a gradient
    streams = [stream.whole] * (len(parts) - 1) + [stream]
    return [
        _once(part, here, tracked=tracked, carried=carried or index > 0)
        for index, (part, here) in enumerate(zip(parts, streams, strict=False))
    ]


# A loop asks for its body's work in up to four ways, and each of them for the bodies inside: remembered, the
# whole takes time in proportion to the program's size, however deep it is nested.
@lru_cache(maxsize=4096)
def _once(part: Part, stream: Stream, *, tracked: bool, carried: bool) -> Work:
    """Return the work of a part run as it says itself, on a stream that may carry a gradient."""
    if isinstance(part, Layers):
        return _layers(part, stream, tracked=tracked, carried=carried)
    if isinstance(part, Loop):
        return _iterations(part, stream, part.steps, tracked=part.steps * tracked, carried=carried)
    branches = (_each(branch.parts, stream, tracked=tracked, carried=carried) for branch in part.branches)
    return sum((work for works in branches for work in works), Work())


def _iterations(loop: Loop, stream: Stream, steps: int, *, tracked: int, carried: bool = True) -> Work:
    """`steps` iterations, the last `tracked` of them with a graph."""
    body, whole = loop.body.parts, stream.whole
    untracked = sum(_each(body, whole, tracked=False), Work())
    if not tracked:
        work = untracked * (steps - 1) + sum(_each(body, stream, tracked=False), Work())
        return work + _injected(loop, stream, steps, tracked=0)[0] + _adaptive(loop, stream, steps, tracked=0)
    work = untracked * (steps - tracked) + _adaptive(loop, stream, steps, tracked=tracked)
    injected, weighted = _injected(loop, stream, steps, tracked=tracked)
    work += injected
    carried = weighted or (carried and _reached(loop, steps, tracked))
    if tracked == 1:
        return work + sum(_each(body, stream, carried=carried), Work())
    work += sum(_each(body, whole, carried=carried), Work()) + sum(_each(body, stream), Work())
    return work + sum(_each(body, whole), Work()) * (tracked - 2)


def _reached(loop: Loop, steps: int, tracked: int) -> bool:
    """Return whether a gradient reaches the loop's input."""
    return INJECTIONS[loop.inject].sees_input or _starts_tracked(loop, steps, tracked)


def _starts_tracked(loop: Loop, steps: int, tracked: int) -> bool:
    """Return whether a gradient reaches the loop's input through the first state."""
    return tracked == steps and STARTS[loop.start_kind].sees_input


def _injected(loop: Loop, stream: Stream, steps: int, *, tracked: int) -> tuple[Work, bool]:
    """Return the work of the injections, and whether they have weights of their own."""
    kind, tokens = INJECTIONS[loop.inject], stream.sequences * stream.tokens
    once, each = kind.kept(stream.numbers, stream.width) if tracked else (0, 0)
    flops = 2 * kind.products(stream.width) * tokens
    work = Work(forward=steps * flops, backward=2 * tracked * flops, kept=once + tracked * each)
    return work, bool(once or each)


def _gate(loop: Loop, stream: Stream, length: int, *, carried: bool, ends: bool) -> Work:
    """Return the work of an exit gate, which is read at every state of the window."""
    if loop.halt != "gate":
        return Work()
    rows = length * stream.left.sequences * stream.left.tokens
    flops = 2 * rows * stream.width
    # at the end of a program the read-out keeps the same states
    return Work(forward=flops, backward=flops * (1 + carried), kept=0 if ends else rows * stream.width)


def _adaptive(loop: Loop, stream: Stream, steps: int, *, tracked: int) -> Work:
    """Return the work of adaptive computation time; the memory is an upper estimate."""
    if loop.halt != "act":
        return Work()
    each, last = (2 * one.sequences * one.tokens * stream.width for one in (stream, stream.left))
    forward, done = each * (steps - 1) + last, bool(tracked)
    numbers = stream.sequences * stream.tokens * (4 * stream.width + 10)
    return Work(
        forward=forward, backward=2 * (each * (tracked - done) + last * done), kept=(tracked + 1) * numbers
    )


def _repeated(loop: Loop, stream: Stream, work: Work, steps: int, *, tracked: int) -> Work:
    """The same iterations if each that is tracked keeps what enters it, and is run twice."""
    if not tracked:
        return work
    again = _iterations(loop, stream, tracked, tracked=0)
    if isinstance(loop, TwoStates):
        inputs = 2 * tracked + 1
    else:
        # the loop's input is kept too, unless it is the first state and nothing else
        inputs = tracked + (INJECTIONS[loop.inject].sees_input or not _starts_tracked(loop, steps, tracked))
    return replace(work, repeated=again.forward, kept=inputs * stream.numbers)


def _layers(part: Layers, stream: Stream, *, tracked: bool, carried: bool) -> Work:
    work = Work(kept=_norm(part.final_norm_kind, stream.left) * tracked)
    if not part.count:
        return work
    weighted = "in" in part.norm_at and NORMS[part.norm].weighted
    carried = carried or weighted or part.adds_positions
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
        # cosines and sines for queries and for keys; the heads' output lies head by head and is copied
        kept += 2 * stream.tokens * one + whole
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
