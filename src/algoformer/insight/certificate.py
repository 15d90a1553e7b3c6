"""The depth certificate of a loop as a value."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from algoformer.common.plain_data import Stored
from algoformer.common.terminal import filled
from algoformer.insight.stopping import StoppingRule

AnswerClass = Literal["hold", "improve", "swing", "grow", "diverge", "unclear"]
"""The behaviour of the error beyond the trained depth; unclear if there are too few prompts to tell."""


@dataclass(frozen=True, kw_only=True)
class StateReport:
    """A summary of a loop's states at the far end of a long run.

    A spectral radius below 1 predicts little about answers, and states that settle prove nothing: a loop
    with random weights settles too. This part explains the certificate; `DepthCertificate.answers` is the
    certificate.

    Attributes:
        prompts: the number of prompts in each class; a prompt is as restless as its most restless token.
        tokens: the share of tokens in each class.
        read: the share of tokens in each class among those that answers are read at.
        periods: the number of cycling tokens by period.
        predicted: the growth of a disturbance in one pass, by prompt.
        observed: the decay of the residual in a pass, by prompt; None where it was at rounding too soon.
        settled: whether the prompt's residual had fallen below 1e-4 by then.
        radii: the exact spectral radius of each token's own block, for one prompt; empty if it was not
            computed.
        residual: the median over prompts of the largest token residual, after each pass in `passes`.
        passes: the passes of `residual`.
    """

    prompts: dict[str, int]
    tokens: dict[str, float]
    read: dict[str, float]
    periods: dict[str, int]
    predicted: tuple[float, ...] = ()
    observed: tuple[float | None, ...] = ()
    settled: tuple[bool, ...] = ()
    radii: tuple[float, ...] = ()
    residual: tuple[float, ...] = ()
    passes: tuple[int, ...] = ()


@dataclass(frozen=True, kw_only=True)
class DepthCertificate(Stored):
    """The behaviour of a solver's answers and states beyond its trained depth.

    Attributes:
        answers: what the answers do: hold, improve, swing, grow, diverge, or unclear.
        trained: the trained depth.
        far: the depth that was run to.
        depths: passes after which answers were read.
        error: the mean error after each of `depths`.
        ratio: the error at `far` over that at `trained`, with its 5-95 % band in `ratio_band`.
        swing: the spread of an answer over the last passes, relative to its root-mean-square error.
        best_depth: the depth of the lowest mean error.
        steady_from: the depth from which answers stay within a tenth of their error; None if they never do.
        stopping: a recommended stopping rule with its cost and loss.
        worst: the prompts with the largest error at `far`, as (number, error at trained depth, error at far).
        states: what the states do; None for a solver without an accessible loop.
        setting: task, sizes, seed and provenance.
        peak: the depth of the largest error in between, where that is far above those at `trained` and `far`;
            `ratio` and `typical` are then about this depth, else about `far`.
        typical: the geometric mean over prompts of the error's ratio, which no single prompt decides, with
            its 5-95 % band; None in certificates of earlier versions.
    """

    answers: AnswerClass
    trained: int
    far: int
    depths: tuple[int, ...]
    error: tuple[float, ...]
    ratio: float
    ratio_band: tuple[float, float]
    swing: float
    best_depth: int
    steady_from: int | None
    stopping: StoppingRule
    worst: tuple[tuple[int, float, float], ...]
    states: StateReport | None
    setting: dict[str, Any] = field(default_factory=dict)
    typical: tuple[float, float, float] | None = None
    peak: int | None = None

    def error_at(self, depth: int) -> float:
        """Return the mean error after a pass at which answers were read."""
        if depth not in self.depths:
            raise ValueError(
                f"depth must be one that was read, got {depth}; nearest is {self.nearest(depth)}"
            )
        return self.error[self.depths.index(depth)]

    def nearest(self, depth: int) -> int:
        """Return the depth nearest to `depth` at which answers were read."""
        return min(self.depths, key=lambda one: abs(one - depth))

    @property
    def sentence(self) -> str:
        """The certificate in one sentence."""
        at = f"from {self.trained} to {self.far if self.peak is None else self.peak} passes"
        low, high = self.ratio_band
        size = f"error × {_number(self.ratio)} [{_number(low)}, {_number(high)}] {at}"
        words = {
            "hold": f"answers hold: {size}, swing {_number(self.swing)} of the error",
            "improve": f"answers still improve: {size}",
            "swing": f"the error holds, single answers swing by {_number(self.swing)} of it: {size}",
            "grow": f"the error grows: {size}{self._typical()}; stop at {self.best_depth} passes",
            "diverge": f"answers diverge: {size}; stop at {self.best_depth} passes",
            "unclear": f"too few prompts to tell whether the error holds: {size}{self._typical()}",
        }
        return words[self.answers] + "."

    def _typical(self) -> str:
        if self.typical is None:
            return ""
        value, low, high = (_number(one) for one in self.typical)
        return f", of a typical prompt × {value} [{low}, {high}]"

    def __str__(self) -> str:
        steady = "never at rest" if self.steady_from is None else f"at rest from {self.steady_from} on"
        worst = ", ".join(f"{number} ({_number(one)} to {_number(two)})" for number, one, two in self.worst)
        multiples = (self.trained * factor for factor in (1, 2, 5, 10, 20))
        depths = 1, max(1, self.trained // 2), *multiples, self.far
        shown = sorted({self.nearest(depth) for depth in depths})
        lines = [
            filled(self.sentence),
            "",
            f"{'depth':7}" + "".join(f"{depth:>9}" for depth in shown),
            f"{'error':7}" + "".join(f"{_number(self.error_at(depth)):>9}" for depth in shown),
            f"best depth {self.best_depth} · answers {steady}",
            f"stop by {self.stopping}",
            filled(f"worst prompts (error at {self.trained} to {self.far} passes): {worst}"),
        ]
        return "\n".join([*lines, *map(filled, state_lines(self.states) if self.states is not None else [])])

    def __repr__(self) -> str:
        depths = f"trained={self.trained}, far={self.far}"
        return f"DepthCertificate({self.answers!r}, {depths}, ratio={self.ratio:.3g})"


def state_lines(states: StateReport) -> list[str]:
    """Return the states as lines for a reader: classes, periods, growth and spectrum."""
    total = sum(states.prompts.values())
    classes = ", ".join(f"{name} {count}" for name, count in states.prompts.items() if count)
    lines = [f"states of {total} prompts: {classes}"]
    if states.periods:
        periods = ", ".join(f"{period} ({count})" for period, count in states.periods.items())
        lines.append(f"periods of cycling tokens: {periods}")
    pairs = list(zip(states.predicted, states.observed, states.settled, strict=True))
    if pairs:
        growth = sorted(states.predicted)
        gaps = [abs(one - two) for one, two, settled in pairs if settled and two is not None]
        line = f"growth of a disturbance in a pass: {growth[0]:.3f} to {growth[-1]:.3f}"
        if gaps:
            line += f"; differs from the observed decay by at most {max(gaps):.3f} where prompts settle"
        lines.append(line)
    if states.radii:
        largest = max(states.radii)
        lines.append(f"spectral radius of one prompt: {largest:.3f}, at token {states.radii.index(largest)}")
    return lines


def _number(value: float) -> str:
    return f"{value:.3g}"
