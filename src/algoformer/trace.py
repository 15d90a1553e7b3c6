"""The request to a solver (`Unroll`), its answer (`Trace`), and the protocol of solvers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Float, Int
from torch import Tensor

from algoformer.common.plain_data import check_count
from algoformer.common.terminal import short
from algoformer.prompt import Prompt


class Carry:
    """The state of a loop between two unrolls: the first one fills it, the next one continues from it.

    The state has no gradient history, so that a loss after every unroll is deep supervision with a detached
    state, as in HRM and TRM. An empty carry starts where the program starts.

    Attributes:
        state: the last state of the traced loop; None before the first unroll.
        iterations: how many iterations have led to it; signals of the iteration's number count on from there.
    """

    def __init__(self, state: Tensor | None = None, iterations: int = 0) -> None:
        self.state, self.iterations = state, iterations

    def resume(self, initial: Tensor) -> Tensor:
        """Return the state to continue from: the initial one if nothing is carried yet."""
        if self.state is None:
            return initial
        if self.state.shape != initial.shape:
            raise ValueError(
                f"carry holds a state of shape {tuple(self.state.shape)}, the loop's has "
                f"{tuple(initial.shape)}; use a new Carry for other sequences"
            )
        return self.state


@dataclass(frozen=True, kw_only=True)
class Unroll:
    """Run `steps` iterations; read out the last `window`; differentiate through the last `grad_steps`.

    `None` means all of them. `keep` lists addresses of hidden states to return (see `docs/notation.md`).
    With `gradient_checkpointing` an iteration stores only its input for the backward pass.

    `steps` is about the traced loop, the last one of a program. `inner` gives other loops, by name or by
    address without iterations ("inner" or "loop/inner"), a number of iterations that is not the program's.
    `carry` starts the traced loop from the state in it and leaves the last state there. `depths` runs every
    sequence of the batch for a number of iterations of its own: one with fewer than `steps` starts later, so
    that window and gradient are about the last iterations of every sequence.

    >>> Unroll(steps=20, window=15).first_step
    6
    """

    steps: int
    window: int | None = None
    grad_steps: int | None = None
    keep: tuple[str, ...] = ()
    gradient_checkpointing: bool = False
    inner: Mapping[str, int] = field(default_factory=dict, hash=False)
    carry: Carry | None = field(default=None, compare=False)
    depths: Int[Tensor, " batch"] | None = field(default=None, compare=False)
    length: int = field(init=False, repr=False, compare=False)
    """The number of iterations that are read out."""
    first_step: int = field(init=False, repr=False, compare=False)
    """The first iteration that is read out, counting from 1."""

    def __post_init__(self) -> None:
        check_count("steps", self.steps)
        for name, least in (("window", 1), ("grad_steps", 0)):
            count = getattr(self, name)
            if count is not None and not (type(count) is int and least <= count <= self.steps):
                raise ValueError(
                    f"{name} must be a whole number in {least}..{self.steps} (the steps), got {short(count)}"
                )
        if not isinstance(self.inner, Mapping):
            raise ValueError(
                f'inner must map names of loops to iterations, such as {{"inner": 8}}, got {self.inner!r}'
            )
        for name, count in self.inner.items():
            if not isinstance(count, int) or isinstance(count, bool) or count < 1:
                raise ValueError(f"inner: loop {name!r} must run a whole number of times, got {count!r}")
        if self.gradient_checkpointing and self.keep:
            raise ValueError(
                f"gradient_checkpointing drops the hidden states that keep={self.keep} asks for; choose one"
            )
        length = self.steps if self.window is None else self.window
        # not vars(self).update(…): torch.compile of torch 2.11 cannot trace that
        object.__setattr__(self, "length", length)
        object.__setattr__(self, "first_step", self.steps - length + 1)

    def waiting(self, entry: Float[Tensor, "batch token width"]) -> Int[Tensor, " batch"]:
        """Return how many iterations pass before each sequence's first one, by its number of `depths`."""
        depths, batch = torch.as_tensor(self.depths), len(entry)
        if depths.shape != (batch,) or depths.is_floating_point():
            raise ValueError(
                f"depths must be one whole number for each of {batch} sequences, got {short(depths.tolist())}"
            )
        # numbers on a GPU are not read back
        if depths.device.type == "cpu" and not bool(((depths >= 1) & (depths <= self.steps)).all()):
            raise ValueError(f"depths must lie in 1..{self.steps} (the steps), got {short(depths.tolist())}")
        return self.steps - depths


@dataclass(frozen=True, kw_only=True)
class Trace:
    """Predictions for every question after iterations first_step, first_step + 1, ...

    `states` holds the hidden states requested by `Unroll.keep`. `iterations` holds the number of iterations
    of each prompt if the solver stopped prompts individually. `halting` holds what a loop with `halt` says
    after each iteration: the logit of its exit gate, or the ponder cost of adaptive computation time.
    """

    predictions: Float[Tensor, "step batch point out"]
    first_step: int = 1
    states: Mapping[str, Tensor] = field(default_factory=dict)
    iterations: Int[Tensor, " batch"] | None = None
    halting: Float[Tensor, "step batch point"] | None = None

    def __repr__(self) -> str:
        count, batch, questions, out = self.predictions.shape
        last = self.first_step + count - 1
        states = f", states {', '.join(self.states)}" if self.states else ""
        return (
            f"Trace(iterations {self.first_step}..{last}, {batch} prompts, {questions} questions "
            f"with answers of {out}{states})"
        )

    @property
    def final(self) -> Float[Tensor, "batch point out"]:
        """The predictions after the last iteration."""
        return self.predictions[-1]

    @property
    def steps(self) -> tuple[int, ...]:
        """The iteration that each slice of `predictions` was read after."""
        return tuple(range(self.first_step, self.first_step + self.predictions.shape[0]))


@runtime_checkable
class Solver(Protocol):
    """The protocol of solvers: trained models, models built from theorems, and textbook methods."""

    def __call__(self, prompt: Prompt, unroll: Unroll, /) -> Trace:
        """Answer every question of `prompt`, once for each iteration in the window of `unroll`."""
        ...


def constant_trace(answer: Float[Tensor, "batch point out"], unroll: Unroll) -> Trace:
    """Return the trace of a solver that does not iterate: the same answer at every iteration."""
    return iterated_trace([answer], unroll)


def iterated_trace(answers: Iterable[Float[Tensor, "batch point out"]], unroll: Unroll) -> Trace:
    """Return the trace of a solver that gives its answers after each iteration; the last ones are kept."""
    if unroll.keep:
        raise ValueError(f"this solver has no hidden states, got keep={unroll.keep}; leave keep empty")
    read = islice(_without_end(answers), unroll.first_step - 1, unroll.steps)
    return Trace(predictions=torch.stack(list(read)), first_step=unroll.first_step)


def _without_end(answers: Iterable[Tensor]) -> Iterator[Tensor]:
    for answer in answers:
        yield answer
    while True:
        yield answer
