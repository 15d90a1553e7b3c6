"""Stopping rules: when a loop has run long enough, sequence by sequence.

A rule reads one of three things, by its attribute `reads`:

- "output" (the default): what is read out of the loop, such as the scores of the next token. Each reading
  costs the parts after the loop and the read-out.
- "state": the loop's state, which costs nothing to read.
- "gate": the probability to have exited by now, from the trained gate of a loop with `halt`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from operator import itemgetter
from typing import ClassVar, Literal, Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from algoformer.common.plain_data import check_count, read_value

Reads = Literal["output", "state", "gate"]
"""The quantity that a rule reads."""


@runtime_checkable
class StoppingRule(Protocol):
    """A rule that compares what is read of a loop with what was read before.

    A sequence stops when `unchanged` held for it at `times` consecutive readings, or after `max_steps`
    iterations (None: as many as the program says). A rule without an attribute `reads` reads the output. The
    first output is compared with nothing; state and gate also have a value before the first iteration.
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
        """Return what is compared of an output, a state or a gate, one row for each sequence."""
        ...

    def unchanged(self, before: Tensor, now: Tensor) -> Bool[Tensor, " batch"]:
        """Return for each sequence whether its summary has not changed; NaN counts as a change."""
        ...


def what_it_reads(rule: StoppingRule) -> Reads:
    """Return what a rule reads; refuse what a loop does not have."""
    return read_value("reads", Reads, getattr(rule, "reads", "output"))


class _Rule:
    """The checks and defaults that the rules share; subclasses are dataclasses."""

    reads: ClassVar[Reads] = "output"

    def __post_init__(self) -> None:
        for name in ("max_steps", "every", "times"):
            if getattr(self, name) is not None:
                check_count(name, getattr(self, name))

    def summary(self, output: Tensor) -> Tensor:
        """Return what is read, as it is."""
        return output


@dataclass(frozen=True)
class Fixed(_Rule):
    """Run a fixed number of iterations and read out the last one."""

    max_steps: int
    times: ClassVar[int] = 1

    @property
    def every(self) -> int:
        """Number of iterations before the only reading."""
        return self.max_steps

    def unchanged(self, before: Tensor, now: Tensor) -> Tensor:
        """Return False for every sequence."""
        return torch.zeros(now.shape[0], dtype=torch.bool, device=now.device)


@dataclass(frozen=True)
class _Tolerance(_Rule):
    tolerance: int | float
    max_steps: int | None = None
    every: int = 1
    times: int = 1

    def __post_init__(self) -> None:
        if not self.tolerance >= 0:
            raise ValueError(f"tolerance must not be negative, got {self.tolerance}")
        super().__post_init__()


@dataclass(frozen=True)
class Converged(_Tolerance):
    """Stop when no number of the output moved by more than `tolerance` since the last reading.

    >>> Converged(1e-3).unchanged(torch.tensor([[1.0], [1.0]]), torch.tensor([[1.0005], [1.1]])).tolist()
    [True, False]
    """

    def summary(self, output: Tensor) -> Tensor:
        """Return the output itself."""
        return output.flatten(1)

    def unchanged(self, before: Tensor, now: Tensor) -> Tensor:
        """Return whether the largest change is at most the tolerance."""
        return (now - before).abs().amax(1) <= self.tolerance


@dataclass(frozen=True)
class StateDifference(_Tolerance):
    """Stop when the state of every token moved by at most `tolerance` of its norm since the last reading.

    Nothing is read out before a sequence has stopped. Huginn uses 0.03.
    """

    reads: ClassVar[Reads] = "state"

    def unchanged(self, before: Tensor, now: Tensor) -> Tensor:
        """Return whether every token's change is at most the tolerance times its norm."""
        moved, size = (now - before).norm(dim=-1), now.norm(dim=-1)
        return ((moved <= self.tolerance * size) & moved.isfinite() & size.isfinite()).flatten(1).all(dim=1)


@dataclass(frozen=True)
class SameAnswer(_Rule):
    """Stop when the most probable choice was the same at `times` more readings in a row.

    The last axis of the output holds the scores of the choices: tokens or labels.
    """

    times: int = 1
    max_steps: int | None = None
    every: int = 1

    def summary(self, output: Tensor) -> Tensor:
        """Return the index of the largest score; -1 where a score is not a number."""
        choice = output.argmax(dim=-1).masked_fill(output.isnan().any(dim=-1), -1)
        return choice.reshape(choice.shape[0], -1)

    def unchanged(self, before: Tensor, now: Tensor) -> Tensor:
        """Return whether all choices are the same."""
        return ((now == before) & (now >= 0)).all(dim=1)


@dataclass(frozen=True)
class _Threshold(_Rule):
    threshold: int | float
    every: int = 1
    max_steps: int | None = None
    times: int = 1


@dataclass(frozen=True)
class ProbabilityShift(_Threshold):
    """Stop when no probability moved by `threshold` or more since the last reading.

    The last axis of the output holds scores (logits). A reading costs the parts after the loop and the map
    to the vocabulary, which can be more than an iteration: read out `every` few iterations.

    Attributes:
        threshold: difference of probabilities, 0..1; 0 never stops early, and is exact.
        every: number of iterations between two readings.
        max_steps: the most iterations; None means as many as the program says.
    """

    def __post_init__(self) -> None:
        if not 0 <= self.threshold <= 1:
            raise ValueError(f"threshold is a difference of probabilities, 0..1, got {self.threshold}")
        super().__post_init__()

    def summary(self, output: Tensor) -> Tensor:
        """Return the probabilities."""
        return output.softmax(dim=-1).flatten(1)

    def unchanged(self, before: Tensor, now: Tensor) -> Tensor:
        """Return whether the largest shift is below the threshold."""
        return (now - before).abs().amax(dim=1) < self.threshold


@dataclass(frozen=True)
class KLShift(_Threshold):
    """Stop when the distribution of the choices changed by less than `threshold` nats since the last reading.

    The change is the Kullback–Leibler divergence of the new distribution from the one before, for several
    distributions the largest. The last axis of the output holds scores (logits). Huginn uses 1e-3.

    Attributes:
        threshold: divergence in nats; 0 never stops early, and is exact.
        every: and `max_steps`: as for `ProbabilityShift`.
    """

    def __post_init__(self) -> None:
        if not self.threshold >= 0:
            raise ValueError(f"threshold is a divergence and cannot be negative, got {self.threshold}")
        super().__post_init__()

    def summary(self, output: Tensor) -> Tensor:
        """Return the logarithms of the probabilities."""
        return output.log_softmax(dim=-1)

    def unchanged(self, before: Tensor, now: Tensor) -> Tensor:
        """Return whether the largest divergence is below the threshold."""
        ratio = torch.where(now == -torch.inf, torch.zeros_like(now), now - before)
        divergence = (now.exp() * ratio).sum(dim=-1)
        # rounding can leave a little less than nothing
        return divergence.reshape(len(now), -1).amax(dim=1).clamp(min=0) < self.threshold


@dataclass(frozen=True)
class Gate(_Rule):
    """Stop when the trained gate has exited with at least `probability` by now, for every token that is read.

    The loop needs a gate: `Loop(halt="gate")` or `Loop(halt="act")`, which halts at 0.99.
    """

    probability: int | float
    max_steps: int | None = None

    reads: ClassVar[Reads] = "gate"
    every: ClassVar[int] = 1
    times: ClassVar[int] = 1

    def __post_init__(self) -> None:
        if not 0 < self.probability <= 1:
            raise ValueError(f"probability must be above 0 and at most 1, got {self.probability}")
        super().__post_init__()

    def unchanged(self, before: Tensor, now: Tensor) -> Tensor:
        """Return whether all tokens have exited with the probability asked for."""
        return (now >= self.probability).flatten(1).all(dim=1)


# each with a function of the most iterations and of the numbers in the form, as text
_WORDS: dict[str, tuple[str, Callable[..., StoppingRule]]] = {
    "fixed": ("fixed:STEPS", lambda most, steps: Fixed(int(steps))),
    "converged": ("converged:TOLERANCE", lambda most, tolerance: Converged(float(tolerance), most)),
    "state": ("state:TOLERANCE", lambda most, tolerance: StateDifference(float(tolerance), most)),
    "same": ("same:TIMES", lambda most, times: SameAnswer(int(times), most)),
    "shift": (
        "shift:THRESHOLD[:EVERY]",
        lambda most, threshold, every=1: ProbabilityShift(float(threshold), int(every), most),
    ),
    "kl": (
        "kl:THRESHOLD[:EVERY]",
        lambda most, threshold, every=1: KLShift(float(threshold), int(every), most),
    ),
    "gate": ("gate:PROBABILITY", lambda most, probability: Gate(float(probability), most)),
}

FORMS = ", ".join(map(itemgetter(0), _WORDS.values()))
"""The stopping rules as the command line writes them."""


def parse_stopping(text: str, *, max_steps: int | None = None) -> StoppingRule:
    """Read a stopping rule as the command line writes it.

    >>> parse_stopping("converged:1e-4", max_steps=100)
    Converged(tolerance=0.0001, max_steps=100, every=1, times=1)
    >>> parse_stopping("shift:0.01:4")
    ProbabilityShift(threshold=0.01, every=4, max_steps=None, times=1)
    >>> parse_stopping("gate:0.9")
    Gate(probability=0.9, max_steps=None)
    """
    name, *values = text.split(":")
    form, build = _WORDS.get(name, ("", None))
    if build is None or not 1 <= len(values) <= form.count(":"):
        raise ValueError(f"unknown stopping rule {text!r}; write {FORMS}")
    try:
        return build(max_steps, *values)
    except ValueError as error:
        raise ValueError(f"cannot read the stopping rule {text!r}: {error}; write {form}") from None
