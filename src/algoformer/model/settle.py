"""Run a loop until a stopping rule has stopped every sequence of the batch."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from algoformer.common.terminal import short
from algoformer.model.driver import DEFAULT, ForwardContext, LoopDriver, select_rows
from algoformer.model.parts import LoopModule, ProgramModule
from algoformer.model.stopping import StoppingRule, what_it_reads

ReadOut = Callable[[Tensor, ForwardContext], Tensor]
"""The output of a state, in its context."""


class Settled(NamedTuple):
    """The result of a loop under a stopping rule: the last output of each sequence, and its iterations."""

    output: Float[Tensor, "batch ..."]
    iterations: Int[Tensor, " batch"]


def settle(
    body: ProgramModule,
    stream: Float[Tensor, "batch token width"],
    rule: StoppingRule,
    read_out: ReadOut,
    context: ForwardContext = DEFAULT,
    attention_mask: Bool[Tensor, "batch token"] | None = None,
) -> Settled:
    """Run the traced loop of a program until a stopping rule has stopped every sequence.

    `read_out` gives the output of the stream after the whole program, `context` is that of the whole batch,
    and `attention_mask` says which tokens are not padding; by default all.
    """
    check_rule(body, rule)
    loop, here = body.traced_loop(context)

    def output(state: Tensor, inside: ForwardContext) -> Tensor:
        now = inside.at(context.address)
        return read_out(body.after(state[None], now)[0], now)

    driver = loop.driver(body.before(stream, context), here)
    steps = rule.max_steps or loop.steps
    return run_until(driver, loop, rule, output, max_steps=steps, attention_mask=attention_mask)


def check_rule(body: ProgramModule, rule: object) -> None:
    """Refuse a stopping rule that cannot stop a program, or reads what its loop does not have."""
    if not isinstance(rule, StoppingRule):
        got = f"{short(rule)} of type {type(rule).__name__}"
        raise ValueError(f"a stopping rule is needed, such as Fixed(8) for 8 iterations, got {got}")
    loop, _ = body.traced_loop()
    if what_it_reads(rule) == "gate" and loop.settings.halt == "none":
        raise ValueError(
            "this stopping rule reads an exit gate, and the loop has none; build and train it with "
            'Loop(halt="gate"), or choose a rule that reads the state or the output'
        )


def run_until(
    driver: LoopDriver,
    loop: LoopModule,
    rule: StoppingRule,
    read_out: ReadOut,
    *,
    max_steps: int,
    attention_mask: Bool[Tensor, "batch token"] | None = None,
) -> Settled:
    """Run a loop until a stopping rule has stopped every sequence of the batch.

    A sequence stops as if it were alone, whatever other sequences are in the batch. With a rule that reads
    state or gate, the output is read once, at the end.

    `driver` has not run yet, `read_out` gives the output of a state that the rest of the program sees, and
    `max_steps` bounds the iterations where the rule itself allows more or does not say. Rules that read state
    or gate see what `attention_mask` hides as zeros that have exited, so padding keeps no sequence running.
    """
    steps = max_steps if rule.max_steps is None else min(rule.max_steps, max_steps)
    reads, whole = what_it_reads(rule), driver.context
    device, batch = driver.state.device, driver.state.shape[0]
    sequences = torch.arange(batch, device=device)  # which sequence each row of the batch is
    running = torch.ones(batch, dtype=torch.bool, device=device)
    iterations = torch.full((batch,), steps, device=device)
    streak = torch.zeros(batch, dtype=torch.int64, device=device)
    exited = driver.state.new_zeros(batch, 1)
    final: Tensor | None = None  # the output of each sequence; its state, if that is not read out yet

    def summary(found: Tensor) -> Tensor:
        if reads == "output":
            return rule.summary(found)
        seen = exited[..., None] if reads == "gate" else loop.visible(found)
        if attention_mask is not None:
            seen = torch.where(attention_mask[sequences][..., None], seen, float(reads == "gate"))
        return rule.summary(seen.squeeze(-1) if reads == "gate" else seen)

    before = None if reads == "output" else summary(driver.state)
    for _ in driver.run(steps):
        last = driver.iteration == steps
        if reads == "gate":
            exited = loop.halting.exited(exited, select_rows(driver.state, driver.context.read_rows))
        if driver.iteration % rule.every and not last:
            continue
        found = driver.state
        if reads == "output":
            found = read_out(loop.visible(found), driver.context)
        final = found.clone() if final is None else final
        if last:
            final[sequences[running]] = found[running]
            break
        now = summary(found)
        if before is not None:
            streak = torch.where(rule.unchanged(before, now), streak + 1, 0)
        stopping = running & (streak >= rule.times)
        final[sequences[stopping]] = found[stopping]
        iterations[sequences[stopping]] = driver.iteration
        running, before = running & ~stopping, now
        if not bool(running.any()):
            break
        remaining = driver.leave(running) if bool(stopping.any()) else None
        if remaining is not None:
            sequences, streak, before = sequences[remaining], streak[remaining], before[remaining]
            running, exited = running[remaining], exited[remaining]
    driver.finish()
    assert final is not None
    return Settled(final if reads == "output" else read_out(loop.visible(final), whole), iterations)
