"""A loop with a fast and a slow state: as data, and as a module."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from algoformer.common.names import check_choice
from algoformer.model.driver import DEFAULT, ForwardContext, LoopDriver, select_rows
from algoformer.model.injections import INJECTIONS, STARTS
from algoformer.model.parts import LoopModule
from algoformer.model.program import Loop
from algoformer.nn import LayerSizes

_LOW = ("add", "auto", "none", "none")
"""Injection, start, signal and halt of the low network."""

_TOO_FEW = (
    "without a high network the last step of the low one takes its role, so that it needs "
    "at least 2 steps, got {}"
)


@dataclass(frozen=True, init=False)
class TwoStates(Loop):
    """A loop with a fast and a slow state, as in the hierarchical reasoning model (HRM).

    The first part of the body is a `Loop`, the low network; the parts after it are the high network. An
    iteration runs the low network on its own state, which it keeps from one iteration to the next, and on
    the slow state, which is added each time. Then the high network replaces the slow state:

        low ← L(low + high + input), `body.parts[0].steps` times
        high ← H(high + low)

    The slow state is what is read out. If nothing follows the low network it takes both roles: the last of
    its steps computes high ← L(high + low), as in the tiny recursive model (TRM).

    Attributes:
        body: the low network as a `Loop` that adds its input, and the parts of the high network.
        steps: number of iterations.
        inject: "add" lets the low network see the input at every step, "none" does not.
        name: for addresses and outlines; empty means the part's place in its program.
        start: the slow state before the first iteration: "vector" (a learned vector for each of the two
            states), or "input" (and zeros for the fast state); "auto" means "vector" with "add" and
            "input" with "none".

    >>> from algoformer.model import Layers, Program
    >>> print(Program(TwoStates((Loop(Layers(2), steps=3, name="low"), Layers(2, name="high")), steps=2)))
    ⟲ 2 steps, inject add, two states
      low   ⟲ 3 steps, inject add
        2 layers × 8 heads
      high  2 layers × 8 heads
    """

    words = ", two states"

    def _check(self) -> None:
        super()._check()
        if self.damp != 1 or self.step_signal != "none" or self.halt != "none":
            raise ValueError("a part with two states has no damp, step_signal or halt; leave them out")
        check_choice("inject", self.inject, ("add", "none"))
        check_choice("start", self.start, ("auto", "vector", "input"))
        low = self.body.parts[0]
        if type(low) is not Loop or (low.inject, low.start, low.step_signal, low.halt) != _LOW:
            raise ValueError(
                "the first part of a body with two states is the low network: "
                'a Loop with inject="add", and no start, step_signal or halt of its own'
            )
        if self.shared and low.steps < 2:
            raise ValueError(_TOO_FEW.format(low.steps))

    @property
    def shared(self) -> bool:
        """True if the low network also updates the slow state."""
        return len(self.body) == 1

    @cached_property
    def start_kind(self) -> str:
        """The start of the slow state, with "auto" resolved."""
        if self.start != "auto":
            return self.start
        return "vector" if INJECTIONS.find(self.inject).sees_input else "input"

    @property
    def low_start(self) -> str:
        """The start of the fast state."""
        return "vector" if self.start_kind == "vector" else "zeros"


class TwoStatesModule(LoopModule):
    """A loop whose state is a slow one, which is read out, and beside it the fast one of the low network."""

    settings: TwoStates

    def __init__(self, loop: TwoStates, *, width: int, context: int) -> None:
        super().__init__(loop, width=width, context=context)
        low = STARTS[loop.low_start]
        self.low_start = low.function if low.build is None else low.build(LayerSizes(width=width))

    def initial_state(self, entry: Tensor) -> Tensor:
        """Return both states, one after the other along the stream's axis."""
        return torch.cat([self.start(entry), self.low_start(entry)], dim=-1)

    def visible(self, state: Tensor) -> Tensor:
        """Return the slow state, as a copy: a view would keep the fast one in memory."""
        return state[..., : self.width].contiguous()

    def step(self, state: Tensor, entry: Tensor, context: ForwardContext = DEFAULT) -> Tensor:
        """Run the low network as often as it says, then the high one."""
        # copies: a view that is taken without gradients still claims to require one
        high, low = (each.contiguous() for each in state.split(self.width, dim=-1))
        network: LoopModule = self.body.parts[0]  # type: ignore[assignment]
        here = self.body.at(0, context)
        driver = LoopDriver(network.step, low, self.injection(high, entry), here)
        steps = here.steps_of_loop(network.steps)
        if steps == self.settings.shared:
            raise ValueError(_TOO_FEW.format(steps))
        *_, low = driver.run(steps - self.settings.shared)
        if self.settings.shared:
            driver.state, driver.entry = high, low
            high = driver.advance(final=True)
        else:
            high = self.body.run(high + low, 1, len(self.body.parts), context)
        return torch.cat([context.visit(high), select_rows(low, context.read_rows)], dim=-1)
