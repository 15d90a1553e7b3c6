"""Programs as modules: parts in order, loops, branches.

Every module is called with the stream and a `ForwardContext`, and can be called with the stream alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, TypeAlias

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from algoformer.model.address import check_address, inner_steps, part_address, with_inner_steps
from algoformer.model.driver import DEFAULT, Edit, ForwardContext, LoopDriver, StateAccess, select_rows
from algoformer.model.halting import HALTING
from algoformer.model.injections import INJECTIONS, STARTS
from algoformer.model.program import Layers, Loop, Parallel, Part, Program, traced_part
from algoformer.nn import NORMS, POSITIONS, AttentionContext, Layer, LayerSizes, initialize, sinusoids
from algoformer.trace import Unroll

Unrolled: TypeAlias = tuple[Float[Tensor, "step batch row width"], Float[Tensor, "step batch row"] | None]
"""The states of the iterations in a window, and what their loop says about halting (`Trace.halting`)."""


class LayersModule(nn.Module):
    """Positions, distinct layers, a final norm: one transformer module of the paper."""

    def __init__(self, layers: Layers, *, width: int, context: int) -> None:
        super().__init__()
        self.settings, self.causal = layers, layers.causal
        sizes = layers.sizes(width, context)
        final_norm, added = NORMS[layers.final_norm_kind].build, POSITIONS[layers.positions].added
        built = [Layer(sizes) for _ in range(layers.count)]
        for layer in built:
            initialize(layer, depth=layers.count)
        last = final_norm(sizes) if layers.final_norm else None
        # weights are drawn layers first, and stored in this order: positions, layers, final norm
        self.positions = None if added is None else added(sizes)
        self.layers: list[Layer] = nn.ModuleList(built)  # type: ignore[assignment]
        self.final_norm = last

    def forward(self, stream: Tensor, context: ForwardContext = DEFAULT) -> Tensor:
        """Run the layers once."""
        if self.positions is not None:
            stream = self.positions(stream, context.positions)
        mask = context.causal_mask if self.causal else context.full_mask
        for number, layer in enumerate(self.layers, start=1):
            here = context if number == len(self.layers) else context.whole
            if context.access is not None or context.cache is not None:
                here = here.enter(str(number - 1))
                attention = here.attention(causal=self.causal)
                stream = here.visit(layer(stream) if attention.is_default else layer(stream, attention))
                here.check_attention()
            elif mask is None and context.positions is None and here.read_rows is None:
                stream = layer(stream)
            else:
                attention = AttentionContext(
                    mask=mask, positions=context.positions, query_rows=here.read_rows
                )
                stream = layer(stream, attention)
        if not self.layers:
            stream = select_rows(stream, context.read_rows)
        return stream if self.final_norm is None else self.final_norm(stream)


class LoopModule(nn.Module):
    """One body, run again and again on its own state and the loop's input."""

    def __init__(self, loop: Loop, *, width: int, context: int) -> None:
        super().__init__()
        self.settings, self.steps, self.width = loop, loop.steps, width
        sizes = LayerSizes(width=width, context=context)
        start, injection = STARTS[loop.start_kind], INJECTIONS[loop.inject]
        self.start = start.function if start.build is None else start.build(sizes)
        self.injection = injection.function if injection.build is None else injection.build(sizes)
        self.body = ProgramModule(loop.body, width=width, context=context)
        self.halting: Any = None if loop.halt == "none" else HALTING[loop.halt](width)
        self.columns = 0 if self.halting is None else self.halting.columns

    def initial_state(self, entry: Tensor) -> Tensor:
        """Return the state before the first iteration."""
        state = self.start(entry)
        return self.halting.widen(state) if self.columns else state

    def visible(self, state: Tensor) -> Tensor:
        """Return what of the state the rest of the program sees."""
        return self.halting.visible(state) if self.columns else state

    def step(self, state: Tensor, entry: Tensor, context: ForwardContext = DEFAULT) -> Tensor:
        """Run one iteration."""
        # a copy: a view that is taken without gradients still claims to require one
        stream = state[..., : self.width].contiguous() if self.columns else state
        result = self.body(self.injection(stream, entry), context)
        if self.settings.damp != 1:
            before = select_rows(stream, context.read_rows)
            result = before + self.settings.damp * (result - before)
        result = context.visit(result)
        return self.halting.update(select_rows(state, context.read_rows), result) if self.columns else result

    def signal(self, iteration: Int[Tensor, " batch"]) -> Float[Tensor, "batch state"]:
        """Return what is added to the state before an iteration: the sinusoids of its number."""
        return F.pad(sinusoids(iteration, self.width), (0, self.columns))

    def driver(
        self, entry: Tensor, context: ForwardContext = DEFAULT, *, unroll: Unroll | None = None
    ) -> LoopDriver:
        """Return a driver that runs this loop on `entry`, from where and as the unroll says."""
        unroll = unroll or Unroll(steps=self.steps)
        step, state, carry = self.step, self.initial_state(entry), unroll.carry
        waiting = None if unroll.depths is None else unroll.waiting(entry)
        if carry is not None:
            state = carry.resume(state)
        if unroll.gradient_checkpointing:
            from algoformer.model.recompute import run_again  # not needed for anything else

            step = run_again(self, self.step)
            if not INJECTIONS[self.settings.inject].sees_input:
                entry = entry.detach()  # no iteration sees it, so the graph that made it must not be kept
        signal = None if self.settings.step_signal == "none" else self.signal
        done = 0 if carry is None else carry.iterations
        return LoopDriver(step, state, entry, context, signal, waiting, done)

    def forward(self, stream: Tensor, context: ForwardContext = DEFAULT) -> Tensor:
        """Run as often as the program or the context says; return the last state."""
        steps = context.steps_of_loop(self.steps)
        return self.visible(self._window(stream, Unroll(steps=steps, window=1), context))[0]

    def unroll(
        self, entry: Float[Tensor, "batch token width"], unroll: Unroll, context: ForwardContext = DEFAULT
    ) -> Unrolled:
        """Run as often as the unroll says; return the states of its window, and what they say about halting.

        Iterations before the last `grad_steps` keep no graph, so memory grows with those and not with
        the number of steps. With `gradient_checkpointing` each of those keeps its input only.
        """
        states = self._window(entry, unroll, context)
        return self.visible(states), None if self.halting is None else self.halting.report(states)

    def _window(self, entry: Tensor, unroll: Unroll, context: ForwardContext) -> Tensor:
        """Run as often as the unroll says; return the whole states of its window."""
        driver = self.driver(entry, context, unroll=unroll)
        found, first, rows = [], unroll.first_step, context.read_rows
        # if nothing continues from the last state, unread rows can be left out there
        final = unroll.carry is None
        for state in driver.run(unroll.steps, tracked=unroll.grad_steps, final=final):
            if driver.iteration >= first:
                whole = rows is None or (final and driver.iteration == unroll.steps)
                found.append(state if whole else select_rows(state, rows))
        if unroll.carry is not None:
            unroll.carry.state = driver.state.detach()
            unroll.carry.iterations += unroll.steps
        return torch.stack(found)


class ParallelModule(nn.Module):
    """Branches on the same stream, summed."""

    def __init__(self, parallel: Parallel, *, width: int, context: int) -> None:
        super().__init__()
        self.branches: list[ProgramModule] = nn.ModuleList(  # type: ignore[assignment]
            ProgramModule(branch, width=width, context=context) for branch in parallel.branches
        )

    def forward(self, stream: Tensor, context: ForwardContext = DEFAULT) -> Tensor:
        """Return the sum of what the branches make of the stream."""
        results = [branch(stream, here) for branch, here in self._branches(context)]
        return torch.stack(results).sum(0)

    def unroll(self, entry: Tensor, unroll: Unroll, context: ForwardContext = DEFAULT) -> Unrolled:
        """Unroll every branch with a loop alike; one without contributes the same at each step."""
        if unroll.carry is not None:
            raise ValueError("carry holds the state of one loop, the program has branches side by side")
        results = [branch.unroll(entry, unroll, here)[0] for branch, here in self._branches(context)]
        return context.visit(torch.stack(results).sum(0)), None

    def _branches(self, context: ForwardContext) -> list[tuple[ProgramModule, ForwardContext]]:
        return [(branch, context.enter(f"branch{number}")) for number, branch in enumerate(self.branches)]


class ProgramModule(nn.Module):
    """Parts in order. `forward` runs the program as it says; `unroll` runs its traced loop as requested."""

    def __init__(self, program: Program, *, width: int, context: int) -> None:
        super().__init__()
        self.program = program
        self.parts = nn.ModuleList([build_part(part, width=width, context=context) for part in program.parts])
        self.traced = traced_part(program)
        self.edits: Mapping[str, Edit] = {}

    def forward(self, stream: Tensor, context: ForwardContext = DEFAULT) -> Tensor:
        """Run every part once, loops as often as they say."""
        return self.run(stream, 0, len(self.parts), context)

    def before(self, stream: Tensor, context: ForwardContext = DEFAULT) -> Tensor:
        """Run the parts before the traced one."""
        end = len(self.parts) if self.traced is None else self.traced
        return self.run(stream, 0, end, context.whole)

    def after(
        self, states: Float[Tensor, "step batch token width"], context: ForwardContext = DEFAULT
    ) -> Float[Tensor, "step batch row width"]:
        """Run the parts after the traced one, once, on all states together."""
        if self.traced is None or self.traced + 1 == len(self.parts):
            return select_rows(states, context.read_rows)
        stacked = context.stacked(len(states))
        result = self.run(states.flatten(0, 1), self.traced + 1, len(self.parts), stacked)
        return result.unflatten(0, states.shape[:2])

    def unroll(
        self, stream: Float[Tensor, "batch token width"], unroll: Unroll, context: ForwardContext = DEFAULT
    ) -> Unrolled:
        """Run the traced loop as requested; return the stream after the whole program for each iteration.

        Beside it stands what the traced loop says about halting at the same places: the logits of a gate, the
        ponder cost of adaptive computation time, or None.
        """
        if unroll.inner and context.loop_steps is None:
            context = replace(context, loop_steps=inner_steps(self.program, unroll.inner))
        if self.traced is None:
            stream = self(stream, context)
            return stream.expand(unroll.length, *stream.shape), None
        part: Any = self.parts[self.traced]
        whole, rows = context.whole, context.read_rows
        stream = self.run(stream, 0, self.traced, whole)
        if self.traced + 1 == len(self.parts):
            return part.unroll(stream, unroll, self.at(self.traced, context))
        states, halting = part.unroll(stream, unroll, self.at(self.traced, whole))
        if halting is not None and rows is not None:
            halting = halting.index_select(-1, rows)
        return self.after(states, context), halting

    def traced_loop(self, context: ForwardContext = DEFAULT) -> tuple[LoopModule, ForwardContext]:
        """Return the traced loop and its context; refuse a program that has none."""
        loop = None if self.traced is None else self.parts[self.traced]
        if self.traced is None or not isinstance(loop, LoopModule):
            raise ValueError("early stopping needs a program whose last looping part is a Loop of its own")
        return loop, self.at(self.traced, context)

    @contextmanager
    def edit(self, edits: Mapping[str, Edit]) -> Iterator[None]:
        """Replace states inside the `with` block; see `AlgoFormer.edit`."""
        before = self.edits
        self.edits = {**before, **edits}
        try:
            yield
        finally:
            self.edits = before

    def access(
        self, keep: tuple[str, ...], steps: int, inner: Mapping[str, int] | None = None
    ) -> StateAccess | None:
        """Return the access to states of a forward pass with `steps` iterations; refuse unknown addresses."""
        if not keep and not self.edits:
            return None
        program = with_inner_steps(self.program, inner or {})
        for address in sorted({*keep, *self.edits}):
            check_address(program, address, steps)
        return StateAccess(keep=frozenset(keep), edits=self.edits)

    def run(self, stream: Tensor, first: int, last: int, context: ForwardContext) -> Tensor:
        """Run the parts `first` to `last` - 1, each once."""
        for index in range(first, last):
            ends = index + 1 == last or context.read_rows is None
            here = self.at(index, context if ends else context.whole)
            stream = self.parts[index](stream, here)
            if here.address != context.address and not isinstance(self.program.parts[index], Loop):
                stream = here.visit(stream)
        return stream

    def at(self, index: int, context: ForwardContext) -> ForwardContext:
        """Return the context of a part of this program."""
        # `has_addresses`, written out because this is asked at every part of every iteration
        if context.cache is None and context.access is None and context.loop_steps is None:
            return context
        return context.at(part_address(self.program, index, context.address))


def build_part(part: Part, *, width: int, context: int) -> LayersModule | LoopModule | ParallelModule:
    """Return the module of one part."""
    if isinstance(part, Layers):
        return LayersModule(part, width=width, context=context)
    if type(part) is Loop:
        return LoopModule(part, width=width, context=context)
    if isinstance(part, Loop):
        from algoformer.model.two_states import TwoStatesModule  # which is a LoopModule

        return TwoStatesModule(part, width=width, context=context)  # type: ignore[arg-type]
    return ParallelModule(part, width=width, context=context)
