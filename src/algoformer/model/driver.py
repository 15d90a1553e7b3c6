"""The loop driver: the only place that runs the body of a loop again and again.

Unrolling, convergence, early exit while decoding and step-by-step evaluation are uses of it. The hand-written
kernels of `algoformer.kernels` are the one other implementation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from algoformer.model.context import ForwardContext
from algoformer.model.stopping import StoppingRule

Step = Callable[[Tensor, Tensor, ForwardContext], Tensor]
"""One iteration: the next state from the state, the loop's input and the context."""


class LoopDriver:
    """Runs one loop on one batch, iteration by iteration.

    Args:
        step: one iteration.
        state: the state before the first iteration.
        entry: the loop's input, which every iteration can see.
        context: the context of the loop.
        signal: what is added to the state before an iteration, from the iteration's number; None for nothing.

    Attributes:
        iteration: number of iterations so far.
    """

    def __init__(
        self,
        step: Step,
        state: Tensor,
        entry: Tensor,
        context: ForwardContext,
        signal: Callable[[int], Tensor] | None = None,
    ) -> None:
        self.step, self.state, self.entry, self.context = step, state, entry, context
        self.signal = signal
        self.iteration = 0

    def advance(self, *, final: bool = False) -> Tensor:
        """Run one iteration; after the final one only the rows to read are there."""
        self.iteration += 1
        context = self.context
        if context.read_rows is not None and not final:
            context = context.whole
        if context.access is not None or context.cache is not None:
            context = context.iteration(self.iteration)
        state = self.state if self.signal is None else self.state + self.signal(self.iteration).to(self.state)
        self.state = self.step(state, self.entry, context)
        return self.state

    def run(self, steps: int, *, tracked: int | None = None, final: bool = False) -> Iterator[Tensor]:
        """Yield the state after each iteration, up to iteration `steps`.

        Args:
            steps: the last iteration.
            tracked: keep the autograd graph of the last `tracked` iterations only; None means of all.
            final: compute the last iteration at the rows to read only.
        """
        untracked = 0 if tracked is None else steps - tracked
        while self.iteration < steps:
            last = self.iteration + 1 == steps
            # gradients that are disabled outside stay disabled
            with torch.set_grad_enabled(self.iteration >= untracked and torch.is_grad_enabled()):
                self.advance(final=final and last)
            yield self.state

    def leave(self, running: Bool[Tensor, " batch"]) -> Int[Tensor, " sequence"] | None:
        """Take sequences that have stopped out of the batch.

        Returns:
            The sequences that remain, by their number in the batch until now; None if all of them stay in
            the batch, because edits of states count on its composition.
        """
        if self.context.access is not None:
            return None
        remaining = running.nonzero()[:, 0]
        self.state, self.entry = self.state.index_select(0, remaining), self.entry.index_select(0, remaining)
        self.context = self.context.select(remaining)
        return remaining

    def finish(self) -> None:
        """Called once, when the last sequence has stopped."""


class Settled(NamedTuple):
    """What a loop gave under a stopping rule: the last output of each sequence, and its iterations."""

    output: Float[Tensor, "batch ..."]
    iterations: Int[Tensor, " batch"]


def run_until(
    driver: LoopDriver, rule: StoppingRule, read: Callable[[LoopDriver], Tensor], *, max_steps: int
) -> Settled:
    """Run a loop until a stopping rule has stopped every sequence of the batch.

    A sequence stops as if it were alone, whatever other sequences are in the batch.

    Args:
        driver: a loop that has not run yet.
        rule: when a sequence stops.
        read: the read-out: the output of the driver's current state.
        max_steps: the most iterations, where the rule itself allows more or does not say.
    """
    steps = max_steps if rule.max_steps is None else min(rule.max_steps, max_steps)
    device, batch = driver.state.device, driver.state.shape[0]
    sequences = torch.arange(batch, device=device)  # which sequence each row of the batch is
    running = torch.ones(batch, dtype=torch.bool, device=device)
    iterations = torch.full((batch,), steps, device=device)
    streak = torch.zeros(batch, dtype=torch.int64, device=device)
    output: Tensor | None = None
    before: Tensor | None = None
    for _ in driver.run(steps):
        last = driver.iteration == steps
        if driver.iteration % rule.every and not last:
            continue
        read_now = read(driver)
        if output is None:
            output = read_now.clone()
        output[sequences[running]] = read_now[running]
        if last:
            break
        now = rule.summary(read_now)
        if before is not None:
            streak = torch.where(rule.unchanged(before, now), streak + 1, 0)
        stopping = running & (streak >= rule.times)
        iterations[sequences[stopping]] = driver.iteration
        running, before = running & ~stopping, now
        if not bool(running.any()):
            break
        remaining = driver.leave(running) if bool(stopping.any()) else None
        if remaining is not None:
            sequences, streak, before = sequences[remaining], streak[remaining], before[remaining]
            running = running[remaining]
    driver.finish()
    assert output is not None
    return Settled(output, iterations)
