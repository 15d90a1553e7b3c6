"""The context of a forward pass, and the loop driver: the only place that runs a body again and again."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from algoformer.nn import AttentionContext, AttentionMask, KVCache

Edit = Callable[[Tensor], Tensor] | Tensor
"""The replacement of a state: a function of the state, or a tensor that broadcasts to its shape."""


@dataclass(frozen=True, kw_only=True)
class StateAccess:
    """The states that one forward pass records and edits, by address.

    Attributes:
        keep: addresses of the states to record.
        edits: replacements by address; a recorded state is the edited one.
        states: the states recorded so far.
        visited: the addresses of all states that were recorded or edited so far.
        stacked: how many iterations of a loop lie one after the other in the batch; they are taken apart
            before a state is edited or recorded. None means that the batch is a plain batch.
    """

    keep: frozenset[str] = frozenset()
    edits: Mapping[str, Edit] = field(default_factory=dict)
    states: dict[str, Tensor] = field(default_factory=dict)
    visited: set[str] = field(default_factory=set)
    stacked: int | None = None

    def wants(self, address: str) -> bool:
        """Return whether the state at `address` is recorded or edited."""
        return address in self.keep or address in self.edits

    def visit(self, address: str, state: Tensor) -> Tensor:
        """Edit and record the state at `address`; return the state to continue with."""
        if not self.wants(address):
            return state
        self.visited.add(address)
        seen = state if self.stacked is None else state.unflatten(0, (self.stacked, -1))
        if address in self.edits:
            seen = _edited(address, seen, self.edits[address])
        if address in self.keep:
            self.states[address] = seen
        return seen if self.stacked is None else seen.flatten(0, 1)


def _edited(address: str, state: Tensor, edit: Edit) -> Tensor:
    if isinstance(edit, Tensor):
        try:
            return edit.to(state).expand(state.shape)
        except RuntimeError:
            pass
        found = tuple(edit.shape)
    else:
        result = edit(state)
        if isinstance(result, Tensor) and result.shape == state.shape:
            return result
        found = tuple(result.shape) if isinstance(result, Tensor) else type(result).__name__
    raise ValueError(
        f"the edit at {address!r} gives {found}, but the state there has shape {tuple(state.shape)}; "
        "return a tensor of that shape"
    )


@dataclass(frozen=True, kw_only=True)
class ForwardContext:
    """Everything that the modules of a program need beside the stream; all of it is optional.

    Attributes:
        causal_mask: the mask of modules whose attention is causal; None means the plain causal mask.
        full_mask: the mask of modules with full attention; None means no mask.
        positions: where each token stands in its sequence; None means 0, 1, 2, ...
        cache: returns the key-value cache of the layer at an address; None means that nothing is cached.
        access: states to record and edit; None means none.
        read_rows: the rows (tokens) at which the result is read; None means all. The module that runs last
            computes its output at these rows only.
        loop_steps: the iterations of some loops by their address without iterations, in place of the
            program's numbers; None means that all loops run as the program says.
        address: where in the program the current module stands; tracked only if something depends on it.
    """

    causal_mask: AttentionMask | None = None
    full_mask: AttentionMask | None = None
    positions: Int[Tensor, "#batch token"] | None = None
    cache: Callable[[str], KVCache] | None = None
    access: StateAccess | None = None
    read_rows: Int[Tensor, " row"] | None = None
    loop_steps: Mapping[str, int] | None = None
    address: str = ""

    @property
    def has_addresses(self) -> bool:
        """True if anything in this context depends on where a module stands."""
        return self.cache is not None or self.access is not None or self.loop_steps is not None

    def steps_of_loop(self, default: int) -> int:
        """Return how often the loop at the current address runs, if the program says `default`."""
        if self.loop_steps is None:
            return default
        return self.loop_steps.get(re.sub(r"\[\d+\]", "", self.address), default)

    @property
    def whole(self) -> ForwardContext:
        """The same context, but with results at all rows, because something else still needs them."""
        return self if self.read_rows is None else replace(self, read_rows=None)

    def at(self, address: str) -> ForwardContext:
        """Return the context of the module at `address`."""
        return replace(self, address=address) if self.has_addresses else self

    def enter(self, word: str) -> ForwardContext:
        """Return the context of the module called `word` inside the current one."""
        return self.at(f"{self.address}/{word}") if self.has_addresses else self

    def iteration(self, number: int) -> ForwardContext:
        """Return the context of one iteration of the current loop, counting from 1."""
        return self.at(f"{self.address}[{number}]") if self.has_addresses else self

    def visit(self, state: Tensor) -> Tensor:
        """Edit and record the state at the current address; return the state to continue with."""
        return state if self.access is None else self.access.visit(self.address, state)

    def check_attention(self) -> None:
        """Refuse an attention module that did not show the weights that are recorded or edited there."""
        name = f"{self.address}/attention"
        if self.access is not None and self.access.wants(name) and name not in self.access.visited:
            raise ValueError(
                f"nothing was recorded or edited at {name!r}: the attention module there is not this "
                "library's, and does not call context.visit_weights with its attention weights"
            )

    def attention(self, *, causal: bool) -> AttentionContext:
        """Return the context of the attention of the layer at the current address."""
        visit_weights = None
        if self.access is not None and self.access.wants(name := f"{self.address}/attention"):
            access = self.access

            def visit_weights(weights: Tensor) -> Tensor:
                return access.visit(name, weights)

        return AttentionContext(
            mask=self.causal_mask if causal else self.full_mask,
            cache=None if self.cache is None else self.cache(self.address),
            positions=self.positions,
            query_rows=self.read_rows,
            visit_weights=visit_weights,
        )

    def select(self, sequences: Int[Tensor, " sequence"]) -> ForwardContext:
        """Return the context of some sequences of the batch."""
        return self._each(lambda values: values.index_select(0, sequences))

    def stacked(self, times: int) -> ForwardContext:
        """Return the context of `times` copies of the batch, one after the other, as one batch."""
        if self.cache is not None and times != 1:
            raise ValueError(f"a cache holds one batch, not {times}; read out one iteration (window=1)")
        repeated = self._each(lambda values: values.repeat(times, *(1 for _ in values.shape[1:])))
        access = None if self.access is None else replace(self.access, stacked=times)
        return replace(repeated, access=access)

    def _each(self, change: Callable[[Tensor], Tensor]) -> ForwardContext:
        """Change what has a row for each sequence of the batch."""
        changed: dict[str, Any] = {}
        for name in ("causal_mask", "full_mask", "positions"):
            values = getattr(self, name)
            if values is not None and values.shape[0] != 1:
                changed[name] = change(values)
        return replace(self, **changed)


DEFAULT = ForwardContext()
"""The context of a forward pass that was given none."""


def select_rows(stream: Tensor, rows: Tensor | None) -> Tensor:
    """Return the stream at `rows` of its token axis; None means all."""
    return stream if rows is None else torch.index_select(stream, stream.ndim - 2, rows)


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
        waiting: iterations that pass before each sequence's first one; None means that all start at once.
        done: iterations that the state has behind it, from which its signal counts on.

    Attributes:
        iteration: number of iterations so far.
    """

    def __init__(
        self,
        step: Step,
        state: Tensor,
        entry: Tensor,
        context: ForwardContext,
        signal: Callable[[Tensor], Tensor] | None = None,
        waiting: Int[Tensor, " batch"] | None = None,
        done: int = 0,
    ) -> None:
        self.step, self.state, self.entry, self.context = step, state, entry, context
        self.signal, self.waiting, self.done = signal, waiting, done
        self._initial = state if waiting is not None else None
        self.iteration = 0

    def advance(self, *, final: bool = False) -> Tensor:
        """Run one iteration; after the final one only the rows to read are there."""
        self.iteration += 1
        context = (self.context if final else self.context.whole).iteration(self.iteration)
        state = self.state
        if self.waiting is not None and self._initial is not None:
            # the initial state again, with its gradient, until a sequence has had its first iteration
            waits = (self.waiting >= self.iteration - 1)[:, None, None]
            state = torch.where(waits, self._initial, state)
        if self.signal is not None:
            state = state + self._signal(self.signal)
        self.state = self.step(state, self.entry, context)
        return self.state

    def _signal(self, signal: Callable[[Tensor], Tensor]) -> Tensor:
        # filled on the device: a captured graph copies nothing from the host
        number = torch.full((1,), self.done + self.iteration, device=self.state.device)
        if self.waiting is not None:
            number = self.done + (self.iteration - self.waiting).clamp(min=1)
        return signal(number)[:, None].to(self.state)

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
