"""The work that running a program takes, by formula: FLOPs of both passes, memory kept between them.

FLOPs are those of matrix products, two for each multiply-add, with attention counted in full also where it
is causal: the convention of PyTorch's own counter, which the tests compare with. The backward pass makes
two products for each one of a tracked forward pass (a gradient for the weights, one for the input), less
those that nobody asks for: the read-in's input has no gradient, nor has a state that iterations without
a graph made. A fused attention kernel computes its scores again on the way back: `recomputed` counts that.
An unroll with `recompute` runs each tracked iteration again: `repeated` counts that in full, although PyTorch
leaves out a product at the very end that no norm follows.

Memory is what autograd keeps between the passes with a fused attention kernel: the inputs of norms (with
their two statistics a token) and of products, queries, keys, values, attention's output with one
number a head and token, the inputs of GELU, and what learned gates multiply. Parameters are not in it.
With `recompute` it is what enters each tracked iteration of the unrolled loop, and what entered the loop; on
the way back one iteration at a time is kept in full beside that. Parts after the loop are not run again.
Branches of a `Parallel` that begin without positions keep one tensor together; it is counted for each.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

from algoformer.model.parts import head_width
from algoformer.model.program import Layers, Loop, Part, Program, traced_part
from algoformer.trace import Unroll


@dataclass(frozen=True, kw_only=True)
class Work:
    """What is done and kept when something runs; works add up.

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

    def __add__(self, other: Work) -> Work:
        return Work(**{name: getattr(self, name) + getattr(other, name) for name in _COUNTS})

    def __mul__(self, times: int) -> Work:
        return Work(**{name: getattr(self, name) * times for name in _COUNTS})


_COUNTS = tuple(item.name for item in fields(Work))


@dataclass(frozen=True, kw_only=True)
class Stream:
    """What flows through a part: `sequences` of `tokens`, each `width` numbers."""

    width: int
    sequences: int
    tokens: int

    @property
    def numbers(self) -> int:
        """Numbers in the whole stream."""
        return self.sequences * self.tokens * self.width


def unrolled_work(program: Program, stream: Stream, unroll: Unroll) -> tuple[list[Work], bool, bool]:
    """Each part's work; whether gradients reach what enters; whether what leaves carries any."""
    traced = traced_part(program)
    if traced is None:
        return _each(program.parts, stream), True, True
    part = program.parts[traced]
    if isinstance(part, Loop):
        steps = unroll.steps if unroll.grad_steps is None else unroll.grad_steps
        work = _iterations(part, stream, unroll.steps, tracked=steps)
        if unroll.recompute:
            work = _repeated(part, stream, work, unroll.steps, tracked=steps)
        reached = steps == unroll.steps or (steps > 0 and part.inject != "none")
        carried = steps > 0
    else:
        assert not isinstance(part, Layers)
        branches = [unrolled_work(branch, stream, unroll) for branch in part.branches]
        work = sum((inner for works, _, _ in branches for inner in works), Work())
        reached, carried = any(item[1] for item in branches), any(item[2] for item in branches)
    # a part that no gradient reaches builds a graph, which is dropped as soon as the loop is done with it
    before = _each(program.parts[:traced], stream, tracked=reached)
    after = [each * unroll.length for each in _each(program.parts[traced + 1 :], stream, carried=carried)]
    return [*before, work, *after], reached, carried or bool(after)


def _each(
    parts: tuple[Part, ...], stream: Stream, *, tracked: bool = True, carried: bool = True
) -> list[Work]:
    # every part has parameters, so that behind the first the stream always carries a gradient
    return [
        _once(part, stream, tracked=tracked, carried=carried or index > 0) for index, part in enumerate(parts)
    ]


def _once(part: Part, stream: Stream, *, tracked: bool, carried: bool) -> Work:
    """A part run as it says itself, on a stream that does or does not carry a gradient."""
    if isinstance(part, Layers):
        return _layers(part, stream, tracked=tracked, carried=carried)
    if isinstance(part, Loop):
        return _iterations(part, stream, part.steps, tracked=part.steps * tracked, carried=carried)
    branches = (_each(branch.parts, stream, tracked=tracked, carried=carried) for branch in part.branches)
    return sum((work for works in branches for work in works), Work())


def _iterations(loop: Loop, stream: Stream, steps: int, *, tracked: int, carried: bool = True) -> Work:
    """`steps` iterations, the last `tracked` of them with a graph."""
    body = loop.body.parts
    work = sum(_each(body, stream, tracked=False), Work()) * (steps - tracked)
    if not tracked:
        return work
    if loop.inject == "none" and tracked < steps:
        carried = False
    if loop.inject == "gate":
        carried = True
        work += Work(kept=stream.numbers + tracked * (stream.numbers + stream.width))
    first = sum(_each(body, stream, carried=carried), Work())
    return work + first + sum(_each(body, stream), Work()) * (tracked - 1)


def _repeated(loop: Loop, stream: Stream, work: Work, steps: int, *, tracked: int) -> Work:
    """The same iterations if each that is tracked keeps what enters it, and is run twice."""
    if not tracked:
        return work
    body = sum(_each(loop.body.parts, stream, tracked=False), Work())
    # with inject="none" the loop's input is also the first state
    inputs = tracked + (loop.inject != "none" or tracked < steps)
    return replace(work, repeated=tracked * body.forward, kept=inputs * stream.numbers)


def _layers(part: Layers, stream: Stream, *, tracked: bool, carried: bool) -> Work:
    if not part.count:
        return Work(kept=_norm(stream) * part.final_norm * tracked)
    width, tokens = stream.width, stream.sequences * stream.tokens
    heads, hidden = part.heads * head_width(part, width), part.hidden or 4 * width
    entrance = 2 * tokens * width * 3 * heads
    scores = 2 * tokens * stream.tokens * heads
    forward = entrance + 2 * scores + 2 * tokens * heads * width + 2 * (2 * tokens * width * hidden)
    if not tracked:
        return Work(layers=part.count, forward=part.count * forward)
    norms = 2 * _norm(stream) * part.norm
    kept = norms + 2 * stream.numbers + tokens * (4 * heads + part.heads)
    kept += tokens * hidden * (2 if part.activation == "gelu" else 1)
    unasked = 0 if carried or part.norm or part.positions else entrance
    return Work(
        layers=part.count,
        tracked_layers=part.count,
        forward=part.count * forward,
        backward=2 * part.count * forward - unasked,
        recomputed=part.count * scores,
        kept=part.count * kept + _norm(stream) * part.final_norm,
    )


def _norm(stream: Stream) -> int:
    return stream.numbers + 2 * stream.sequences * stream.tokens
