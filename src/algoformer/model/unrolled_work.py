"""The work of a program: of its parts, of the iterations of its loops, and of those that are run again.

What is counted, and what is not, stands in `algoformer.model.work`, which has the work of layers.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

from algoformer.model.injections import INJECTIONS, STARTS
from algoformer.model.program import Layers, Loop, Part, Program, traced_part
from algoformer.model.two_states import TwoStates
from algoformer.model.work import Stream, Work, layers_work
from algoformer.trace import Unroll


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
        return layers_work(part, stream, tracked=tracked, carried=carried)
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
