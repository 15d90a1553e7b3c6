"""Programs as modules: the one place where parts are put in order and bodies are repeated.

Whoever reads only some tokens of the result says which (`asked`), and gets the stream at these alone. What
runs last then leaves out the others, from its last layer's queries on; a state noted there has them not.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn

from algoformer.model.address import Notebook, part_address
from algoformer.model.program import Layers, Loop, Parallel, Part, Program, traced_part
from algoformer.model.recompute import run_again
from algoformer.nn import Layer, LearnedPositions, Sight, initialize
from algoformer.trace import Unroll, stop_tracking


class LayersModule(nn.Module):
    """Positions, distinct layers, a final norm: one transformer module of the paper."""

    def __init__(self, layers: Layers, *, width: int, context: int) -> None:
        super().__init__()
        self.causal = layers.causal
        self.positions = LearnedPositions(context=context, width=width) if layers.positions else None
        self.layers: list[Layer] = nn.ModuleList(  # type: ignore[assignment]
            Layer(
                width=width,
                heads=layers.heads,
                head_width=head_width(layers, width),
                hidden=layers.hidden or 4 * width,
                causal=layers.causal,
                norm=layers.norm,
                scaled=layers.scaled,
                activation=layers.activation,
                bias=layers.bias,
            )
            for _ in range(layers.count)
        )
        self.final_norm = nn.LayerNorm(width) if layers.final_norm else None
        for layer in self.layers:
            initialize(layer, depth=layers.count)
        if self.positions is not None:
            nn.init.normal_(self.positions.table, std=0.02)

    def forward(
        self, stream: Tensor, notebook: Notebook, address: str, asked: Tensor | None = None
    ) -> Tensor:
        """Run the layers once; the state after each can be noted."""
        seen = notebook.visibility
        if self.positions is not None:
            stream = self.positions(stream) if seen is None else self.positions(stream, seen.places)
        for number, layer in enumerate(self.layers):
            name = f"{address}/{number}"
            sight = None if seen is None else seen.at(name, causal=self.causal)
            if asked is not None and number + 1 == len(self.layers):
                sight = (sight or Sight())._replace(asked=asked)
            stream = layer(stream) if sight is None else layer(stream, sight)
            notebook.note(name, stream)
        if asked is not None and not self.layers:
            stream = stream.index_select(1, asked)
        return stream if self.final_norm is None else self.final_norm(stream)


class LoopModule(nn.Module):
    """One body, run again and again on its own state and the loop's input."""

    def __init__(self, loop: Loop, *, width: int, context: int) -> None:
        super().__init__()
        self.steps = loop.steps
        self.inject = loop.inject
        self.body = ProgramModule(loop.body, width=width, context=context)
        if loop.inject == "gate":
            # sigmoid(3) = 0.95: close to plain addition at the start, and never an expansion of the state
            self.keep_gate = nn.Parameter(torch.full((width,), 3.0))
            self.input_gate = nn.Parameter(torch.ones(width))

    def start(self, entry: Tensor) -> Tensor:
        """The state before the first iteration."""
        return entry if self.inject == "none" else torch.zeros_like(entry)

    def step(
        self, state: Tensor, entry: Tensor, notebook: Notebook, address: str, asked: Tensor | None = None
    ) -> Tensor:
        """One iteration."""
        if self.inject == "add":
            state = state + entry
        elif self.inject == "gate":
            state = torch.sigmoid(self.keep_gate) * state + self.input_gate * entry
        state = self.body(state, notebook, address, asked)
        notebook.note(address, state)
        return state

    def forward(
        self, stream: Tensor, notebook: Notebook, address: str, asked: Tensor | None = None
    ) -> Tensor:
        """Run as often as the program says; the last state."""
        return self.unroll(stream, Unroll(steps=self.steps, window=1), notebook, address, asked)[0]

    def unroll(
        self, entry: Tensor, unroll: Unroll, notebook: Notebook, address: str, asked: Tensor | None = None
    ) -> Tensor:
        """Run as often as the unroll says; the states it reads out, stacked.

        Iterations before the last `grad_steps` keep no graph, so memory grows with those and not with
        the number of steps. With `recompute` each of those keeps its input only.
        """
        again = run_again(self, self.step) if unroll.recompute else self.step
        untracked = 0 if unroll.grad_steps is None else unroll.steps - unroll.grad_steps
        state = self.start(entry)
        if unroll.recompute and self.inject == "none":
            entry = entry.detach()  # nobody looks at it again, and what made it must not be kept
        states = []
        for iteration in range(1, unroll.steps + 1):
            # nobody goes on from the last state: only of that one the other tokens are left out
            last = asked if iteration == unroll.steps else None
            with stop_tracking(iteration > untracked):
                state = again(state, entry, notebook, f"{address}[{iteration}]", last)
            if iteration >= unroll.first_step:
                states.append(state if asked is None or last is not None else state.index_select(1, asked))
        return torch.stack(states)


class ParallelModule(nn.Module):
    """Branches on the same stream, summed."""

    def __init__(self, parallel: Parallel, *, width: int, context: int) -> None:
        super().__init__()
        self.branches: list[ProgramModule] = nn.ModuleList(  # type: ignore[assignment]
            ProgramModule(branch, width=width, context=context) for branch in parallel.branches
        )

    def forward(
        self, stream: Tensor, notebook: Notebook, address: str, asked: Tensor | None = None
    ) -> Tensor:
        """The sum of what the branches make of the stream."""
        results = [branch(stream, notebook, name, asked) for branch, name in self._named(address)]
        return torch.stack(results).sum(0)

    def unroll(
        self, entry: Tensor, unroll: Unroll, notebook: Notebook, address: str, asked: Tensor | None = None
    ) -> Tensor:
        """Every branch with a loop follows the same unroll; one without contributes the same at each step."""
        results = [
            branch.unroll(entry, unroll, notebook, name, asked) for branch, name in self._named(address)
        ]
        return torch.stack(results).sum(0)

    def _named(self, address: str) -> list[tuple[ProgramModule, str]]:
        return [(branch, f"{address}/branch{number}") for number, branch in enumerate(self.branches)]


class ProgramModule(nn.Module):
    """Parts in order. `forward` runs the program as it says; `unroll` runs its traced loop as asked."""

    def __init__(self, program: Program, *, width: int, context: int) -> None:
        super().__init__()
        self.program = program
        self.parts = nn.ModuleList(build_part(part, width=width, context=context) for part in program)
        self.traced = traced_part(program)

    def forward(
        self, stream: Tensor, notebook: Notebook, address: str = "", asked: Tensor | None = None
    ) -> Tensor:
        """Run every part once, loops as often as they say."""
        return self._run(stream, 0, len(self.parts), notebook, address, asked)

    def before(self, stream: Tensor, notebook: Notebook, address: str = "") -> Tensor:
        """Run the parts before the traced one."""
        return self._run(
            stream, 0, len(self.parts) if self.traced is None else self.traced, notebook, address
        )

    def after(
        self,
        states: Float[Tensor, "step batch token width"],
        notebook: Notebook,
        address: str = "",
        asked: Tensor | None = None,
    ) -> Float[Tensor, "step batch asked width"]:
        """Run the parts after the traced one, once, on all states together."""
        if self.traced is None or self.traced + 1 == len(self.parts):
            return states if asked is None else states.index_select(2, asked)
        seen = notebook.visibility
        stacked = Notebook((), self.program, 1, None if seen is None else seen.stacked(len(states)))
        stacked.keep = notebook.keep
        result = self._run(states.flatten(0, 1), self.traced + 1, len(self.parts), stacked, address, asked)
        for name, state in stacked.states.items():
            notebook.note(name, state.unflatten(0, states.shape[:2]))
        return result.unflatten(0, states.shape[:2])

    def unroll(
        self,
        stream: Float[Tensor, "batch token width"],
        unroll: Unroll,
        notebook: Notebook,
        address: str = "",
        asked: Tensor | None = None,
    ) -> Float[Tensor, "step batch asked width"]:
        """The stream after the whole program, once for each iteration in the unroll's window."""
        if self.traced is None:
            stream = self(stream, notebook, address, asked)
            return stream.expand(unroll.length, *stream.shape)
        stream = self.before(stream, notebook, address)
        name = part_address(self.program, self.traced, address)
        ends = self.traced + 1 == len(self.parts)
        states: Tensor = self.parts[self.traced].unroll(  # type: ignore[operator]
            stream, unroll, notebook, name, asked if ends else None
        )
        if isinstance(self.program.parts[self.traced], Parallel):
            notebook.note(name, states)
        return states if ends else self.after(states, notebook, address, asked)

    def _run(
        self,
        stream: Tensor,
        first: int,
        last: int,
        notebook: Notebook,
        address: str,
        asked: Tensor | None = None,
    ) -> Tensor:
        for index in range(first, last):
            name = part_address(self.program, index, address)
            stream = self.parts[index](stream, notebook, name, asked if index + 1 == last else None)
            if name != address and not isinstance(self.program.parts[index], Loop):
                notebook.note(name, stream)
        return stream


def head_width(layers: Layers, width: int) -> int:
    """How wide one head is on a stream of `width`."""
    if layers.head_width is not None:
        return layers.head_width
    if width % layers.heads:
        raise ValueError(
            f"{layers.heads} heads do not divide a stream of width {width}; "
            "choose other heads, another width, or give head_width"
        )
    return width // layers.heads


def build_part(part: Part, *, width: int, context: int) -> LayersModule | LoopModule | ParallelModule:
    """The module of one part."""
    if isinstance(part, Layers):
        return LayersModule(part, width=width, context=context)
    if isinstance(part, Loop):
        return LoopModule(part, width=width, context=context)
    return ParallelModule(part, width=width, context=context)
