"""Stopping rules: when a loop has run long enough, sequence by sequence."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Float
from torch import Tensor


@runtime_checkable
class StoppingRule(Protocol):
    """A rule that compares what is read out of a loop with what was read before.

    A sequence stops when `unchanged` held for it at `times` consecutive readings, or after `max_steps`
    iterations (None: as many as the program says).

    Attributes:
        max_steps: the most iterations.
        every: number of iterations between two readings.
        times: number of consecutive readings that must be unchanged.
    """

    @property
    def max_steps(self) -> int | None:
        """The most iterations; None means as many as the program says."""
        ...

    @property
    def every(self) -> int:
        """Number of iterations between two readings."""
        ...

    @property
    def times(self) -> int:
        """Number of consecutive readings that must be unchanged."""
        ...

    def summary(self, output: Float[Tensor, "batch ..."]) -> Tensor:
        """Return what is compared of an output, one row for each sequence."""
        ...

    def unchanged(self, before: Tensor, now: Tensor) -> Bool[Tensor, " batch"]:
        """Return for each sequence whether its summary has not changed; NaN counts as a change."""
        ...


def _check(rule: StoppingRule) -> None:
    steps = rule.max_steps
    if steps is not None and steps < 1:
        raise ValueError(f"max_steps must be at least 1, got {steps}")
    for name in ("every", "times"):
        if getattr(rule, name) < 1:
            raise ValueError(f"{name} must be at least 1, got {getattr(rule, name)}")


@dataclass(frozen=True)
class Fixed:
    """Run a fixed number of iterations and read out the last one."""

    max_steps: int
    times = 1

    def __post_init__(self) -> None:
        _check(self)

    @property
    def every(self) -> int:
        """Number of iterations before the only reading."""
        return self.max_steps

    def summary(self, output: Tensor) -> Tensor:
        """Return nothing to compare."""
        return output.new_empty(output.shape[0], 0)

    def unchanged(self, before: Tensor, now: Tensor) -> Tensor:
        """Return False for every sequence."""
        return torch.zeros(now.shape[0], dtype=torch.bool, device=now.device)


@dataclass(frozen=True)
class Converged:
    """Stop when no number of the output moved by more than `tolerance` since the last reading.

    >>> Converged(1e-3).unchanged(torch.tensor([[1.0], [1.0]]), torch.tensor([[1.0005], [1.1]])).tolist()
    [True, False]
    """

    tolerance: int | float
    max_steps: int | None = None
    every: int = 1
    times: int = 1

    def __post_init__(self) -> None:
        if not self.tolerance >= 0:
            raise ValueError(f"tolerance must not be negative, got {self.tolerance}")
        _check(self)

    def summary(self, output: Tensor) -> Tensor:
        """Return the output itself."""
        return output.flatten(1)

    def unchanged(self, before: Tensor, now: Tensor) -> Tensor:
        """Return whether the largest change is at most the tolerance."""
        return (now - before).abs().amax(1) <= self.tolerance


@dataclass(frozen=True)
class SameAnswer:
    """Stop when the most probable choice was the same at `times` more readings in a row.

    The last axis of the output holds the scores of the choices: tokens or labels.
    """

    times: int = 1
    max_steps: int | None = None
    every: int = 1

    def __post_init__(self) -> None:
        _check(self)

    def summary(self, output: Tensor) -> Tensor:
        """Return the index of the largest score; -1 where a score is not a number."""
        choice = output.argmax(dim=-1).masked_fill(output.isnan().any(dim=-1), -1)
        return choice.reshape(choice.shape[0], -1)

    def unchanged(self, before: Tensor, now: Tensor) -> Tensor:
        """Return whether all choices are the same."""
        return ((now == before) & (now >= 0)).all(dim=1)


@dataclass(frozen=True, kw_only=True)
class ProbabilityShift:
    """Stop when no probability moved by `threshold` or more since the last reading.

    The last axis of the output holds scores (logits). A reading costs the parts after the loop and the map
    to the vocabulary, which can be more than an iteration: read out `every` few iterations.

    Attributes:
        threshold: difference of probabilities, 0..1; 0 never stops early, and is exact.
        every: number of iterations between two readings.
        max_steps: the most iterations; None means as many as the program says.
    """

    threshold: int | float
    every: int = 1
    max_steps: int | None = None
    times: int = 1

    def __post_init__(self) -> None:
        if not 0 <= self.threshold <= 1:
            raise ValueError(f"threshold is a difference of probabilities, 0..1, got {self.threshold}")
        _check(self)

    def summary(self, output: Tensor) -> Tensor:
        """Return the probabilities."""
        return output.softmax(dim=-1).flatten(1)

    def unchanged(self, before: Tensor, now: Tensor) -> Tensor:
        """Return whether the largest shift is below the threshold."""
        return (now - before).abs().amax(dim=1) < self.threshold


_FORMS = "fixed:STEPS, converged:TOLERANCE, same:TIMES, shift:THRESHOLD or shift:THRESHOLD:EVERY"


def parse_stopping(text: str, *, max_steps: int | None = None) -> StoppingRule:
    """Read a stopping rule as the command line writes it.

    >>> parse_stopping("converged:1e-4", max_steps=100)
    Converged(tolerance=0.0001, max_steps=100, every=1, times=1)
    >>> parse_stopping("shift:0.01:4")
    ProbabilityShift(threshold=0.01, every=4, max_steps=None, times=1)
    """
    word, *values = text.split(":")
    try:
        if word == "fixed" and len(values) == 1:
            return Fixed(int(values[0]))
        if word == "converged" and len(values) == 1:
            return Converged(float(values[0]), max_steps)
        if word == "same" and len(values) == 1:
            return SameAnswer(int(values[0]), max_steps)
        if word == "shift" and len(values) in (1, 2):
            every = int(values[1]) if len(values) == 2 else 1
            return ProbabilityShift(threshold=float(values[0]), every=every, max_steps=max_steps)
    except ValueError as error:
        raise ValueError(f"cannot read the stopping rule {text!r}: {error}; write {_FORMS}") from None
    raise ValueError(f"unknown stopping rule {text!r}; write {_FORMS}")
