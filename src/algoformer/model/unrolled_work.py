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


def unrolled_work(
    program: Program, stream: Stream, unroll: Unroll, *, reported: bool = True
) -> tuple[list[Work], bool, bool]:
    """Each part's work; whether gradients reach what enters; whether what leaves carries any.

    `reported` says whether the loss reads the exit gate of the traced loop; those of branches are not read.
    """
    traced = traced_part(program)
    if traced is None:
        return _each(program.parts, stream), True, True
    part = program.parts[traced]
    here = stream if traced + 1 == len(program) else stream.whole
    if isinstance(part, Loop):
        work = _iterations(part, here, unroll)
        if unroll.gradient_checkpointing:
            work = _repeated(part, here, unroll, work)
        carried = _tracked(unroll) > 0
        gate = _gate(part, here, unroll.length, carried=carried, ends=traced + 1 == len(program))
        work += gate if reported else Work(forward=gate.forward)
        reached = carried and _reached(part, unroll)
    else:
        assert not isinstance(part, Layers)
        branches = [unrolled_work(branch, here, unroll, reported=False) for branch in part.branches]
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
        unroll = Unroll(steps=part.steps, window=1, grad_steps=part.steps * tracked)
        return _iterations(part, stream, unroll, carried=carried)
    branches = (_each(branch.parts, stream, tracked=tracked, carried=carried) for branch in part.branches)
    return sum((work for works in branches for work in works), Work())


def _iterations(loop: Loop, stream: Stream, unroll: Unroll, *, carried: bool = True) -> Work:
    """Return the work of the iterations, the last of them with a graph; without that of an exit gate."""
    steps, tracked = unroll.steps, _tracked(unroll)
    body, whole = loop.body.parts, stream.whole
    untracked = sum(_each(body, whole, tracked=False), Work())
    work = _adaptive(loop, stream, unroll)
    entered = carried and _reached(loop, unroll)
    first = entered or _starts_weighted(loop, unroll)
    injected, weighted = _injected(loop, stream, unroll, entered=entered, first=first)
    work += injected
    if not tracked:
        return work + untracked * (steps - 1) + sum(_each(body, stream, tracked=False), Work())
    work += untracked * (steps - tracked)
    first = first or weighted
    if tracked == 1:
        return work + sum(_each(body, stream, carried=first), Work())
    work += sum(_each(body, whole, carried=first), Work()) + sum(_each(body, stream), Work())
    return work + sum(_each(body, whole), Work()) * (tracked - 2)


def _tracked(unroll: Unroll) -> int:
    return unroll.steps if unroll.grad_steps is None else unroll.grad_steps


def _reached(loop: Loop, unroll: Unroll) -> bool:
    """Return whether a gradient reaches the loop's input."""
    return INJECTIONS[loop.inject].sees_input or _starts_tracked(loop, unroll)


def _starts_tracked(loop: Loop, unroll: Unroll) -> bool:
    """Return whether a gradient reaches the loop's input through the first state.

    A sequence with a depth of its own has that state, with its gradient, until its first iteration.
    """
    return _keeps_start(unroll) and STARTS[loop.start_kind].sees_input


def _starts_weighted(loop: Loop, unroll: Unroll) -> bool:
    """Return whether a gradient reaches weights of the first state."""
    return _keeps_start(unroll) and STARTS[loop.start_kind].weighted


def _keeps_start(unroll: Unroll) -> bool:
    return _tracked(unroll) == unroll.steps or unroll.depths is not None


def _injected(loop: Loop, stream: Stream, unroll: Unroll, *, entered: bool, first: bool) -> tuple[Work, bool]:
    """Return the work of the injections, and whether they have weights of their own.

    `entered` says whether the loop's input carries a gradient, and `first` whether it or the first state with
    a graph does.
    """
    kind, tokens, tracked = INJECTIONS[loop.inject], stream.sequences * stream.tokens, _tracked(unroll)
    once, each = kind.kept(stream.numbers, stream.width) if tracked else (0, 0)
    flops = 2 * kind.products(stream.width) * tokens
    without = tracked * (not entered) if kind.maps_input else min(tracked, not first)
    backward = (2 * tracked - without) * flops
    work = Work(forward=unroll.steps * flops, backward=backward, kept=once + tracked * each)
    return work, bool(once or each)


def _gate(loop: Loop, stream: Stream, length: int, *, carried: bool, ends: bool) -> Work:
    """Return the work of an exit gate, which is read at every state of the window."""
    if loop.halt != "gate":
        return Work()
    rows = length * stream.left.sequences * stream.left.tokens
    flops = 2 * rows * stream.width
    # at the end of a program the read-out keeps the same states
    return Work(forward=flops, backward=flops * (1 + carried), kept=0 if ends else rows * stream.width)


def _adaptive(loop: Loop, stream: Stream, unroll: Unroll) -> Work:
    """Return the work of adaptive computation time."""
    if loop.halt != "act":
        return Work()
    tokens, left = (one.sequences * one.tokens for one in (stream, stream.left))
    steps, tracked, flops = unroll.steps, _tracked(unroll), 2 * stream.width
    forward = flops * (tokens * (steps - 1) + left)
    if not tracked:
        return Work(forward=forward)
    seen = tokens * (tracked - 1) + left
    # what the body made, its probability to halt, and its weight in the mean
    return Work(
        forward=forward,
        backward=2 * flops * seen,
        kept=seen * (stream.width + 2) + _kept_by_mean(loop, stream, unroll),
    )


def _kept_by_mean(loop: Loop, stream: Stream, unroll: Unroll) -> int:
    """Return what reading the mean of adaptive time keeps: the states of the window and a weight for each."""
    tokens = unroll.length * stream.left.sequences * stream.left.tokens
    return tokens * (_numbers_of_state(loop, stream.width) + 1) if loop.halt == "act" else 0


def _numbers_of_state(loop: Loop, width: int) -> int:
    """Return the numbers that the state of a loop has for each token."""
    if isinstance(loop, TwoStates):
        return 2 * width
    return 2 * width + 3 if loop.halt == "act" else width


def _repeated(loop: Loop, stream: Stream, unroll: Unroll, work: Work) -> Work:
    """The same iterations if each that is tracked keeps what enters it, and is run twice."""
    tracked = _tracked(unroll)
    if not tracked:
        return work
    again = _iterations(loop, stream, Unroll(steps=tracked, grad_steps=0))
    tokens, numbers = stream.sequences * stream.tokens, _numbers_of_state(loop, stream.width)
    # the loop's input is kept too, unless it is the first state as it is
    changed = unroll.depths is not None or loop.step_signal != "none" or numbers > stream.width
    apart = changed or not _starts_tracked(loop, unroll)
    kept = tokens * (tracked * numbers + apart * stream.width) + _kept_by_mean(loop, stream, unroll)
    return replace(work, repeated=again.forward, kept=kept)
