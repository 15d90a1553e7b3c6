"""The instrument for series: one question is asked of each, and tests change the series."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from algoformer.insight.answered import Answered, answers_to
from algoformer.insight.answers import precision_of
from algoformer.insight.comparison import Comparison
from algoformer.insight.findings import Findings
from algoformer.insight.fit import Fit, residual_parts, step_numbers
from algoformer.insight.gates import ADDITIVE, LINEAR, ORDER, SCALE, SHUFFLED, SPAN, TURNED, Gate, correlation
from algoformer.insight.influence import Influence
from algoformer.insight.series import Series, SeriesReader, are_close, draw_series, series_reader
from algoformer.tasks import Task
from algoformer.trace import Solver

_NUMBERS = 320
"""Series × outputs that a symmetry is tested on, at least."""

_DISTURBANCE = 0.1
"""The size of the change of one state, relative to the states' root mean square."""

_LOST = 10.0
"""What a family does not predict on a shuffled series counts so much at most."""


@dataclass(frozen=True, kw_only=True)
class OnSeries:
    """A solver with its answers to the question of each series."""

    own_features: ClassVar[bool] = True
    """Features are the task's own: they are computed from several states."""

    read: SeriesReader
    series: Series
    data: Answered

    @classmethod
    def of(cls, solver: Solver, task: Task, *, steps: int, prompts: int, seed: int) -> OnSeries:
        """Measure a solver on held-out series."""
        series = draw_series(task, count=prompts, seed=seed, dtype=precision_of(solver))
        read = series_reader(solver)
        return cls(read=read, series=series, data=answers_to(read, series, steps))

    def examine(self, compared: Comparison, *, seed: int) -> Findings:
        """Test the symmetries that a series has, and disturb its states."""
        passes, steps = compared.passes, len(self.data.answers)
        some = self.series.head(max(16, -(-_NUMBERS // self.data.outs)))
        gates = series_gates(self.read, some, passes, compared.best, seed=seed)
        tested = {gate.name for gate in gates}
        symmetries = (LINEAR, ADDITIVE, ORDER, TURNED, SCALE, SPAN)
        late = min(passes[-1] + 1, steps - 1)
        return Findings(
            gates=gates,
            untested=tuple(name for name in symmetries if name not in tested),
            influence=influence_of_states(self.read, self.series.head(8), steps=late + 1, seed=seed),
            late=late,
            measured="answers",
            foreign=foreign_states(self.read, self.series.head(96), steps=late + 1),
        )


def series_gates(
    read: SeriesReader, series: Series, passes: Sequence[int], best: Fit, *, seed: int
) -> tuple[Gate, ...]:
    """Test what can be tested by changing a series, at the given passes (counted from 0).

    A change shows a symmetry only where the regression inside the series stays the same; where it does not,
    the test is left out. Two series with the same examples in another order exist because windows may recur.
    On shuffled series, which no dynamics produced, the nearest family must still predict the answers.
    """
    generator = torch.Generator().manual_seed(seed)
    chosen, steps = list(passes), max(passes) + 1
    found = []
    pair = series.with_recurrence()
    if pair is not None and all(map(are_close, pair[0].moments(), pair[1].moments())):
        one, other = (answers_to(read, changed, steps).left_parts for changed in pair)
        found.append(correlation(ORDER, one, other, chosen))
    size = series.states.shape[-1]
    turn = torch.linalg.qr(torch.randn(series.batch, size, size, generator=generator).double())[0]
    turned = series.rotated(turn)
    if turned.is_turned_by(turn, series):
        one, other = (answers_to(read, changed, steps).left_parts for changed in (series, turned))
        back = other.unflatten(1, (-1, size)).mT @ turn.mT
        found.append(correlation(TURNED, one, back, chosen))
    predicted = _predicted(best, answers_to(read, series.shuffled(generator), steps), chosen)
    return *found, Gate(name=SHUFFLED, value=predicted, threshold=0.9, correlation=True)


def _predicted(best: Fit, data: Answered, passes: list[int]) -> float:
    """Return the share that a fitted family predicts on other series, over some passes.

    What it does not predict counts relative to what is left, or to its own answers where these are smaller,
    so that neither answers of 0 nor the reference's can take its place. The median series counts: on series
    that no dynamics produced a true method may diverge.
    """
    numbers = step_numbers(passes, best.pace, best.offset)
    left = residual_parts(best.family, data, max(numbers), *best.parameters)[numbers]

    def size(values: Tensor) -> Tensor:
        return values.unflatten(1, (-1, data.outs)).square().sum((0, 2, 3))

    measured = data.left_parts[passes]
    least = torch.minimum(size(measured), size(data.solved - left)).clamp(min=1e-300)
    unexplained = (size(measured - left) / least).nan_to_num(nan=_LOST).clamp(max=_LOST)
    return float(1 - unexplained.median())


def influence_of_states(read: SeriesReader, series: Series, *, steps: int, seed: int) -> Influence:
    """Disturb one state before the question's window at a time, and read how far the answers move."""
    states = series.states
    batch, count, dim = states.shape
    places = count - series.window
    size = _DISTURBANCE * float(states.square().mean().sqrt())
    generator = torch.Generator().manual_seed(seed)
    change = size * torch.randn(batch, places, dim, generator=generator).to(states.dtype)
    changed = states[:, None].repeat(1, places + 1, 1, 1)
    changed[:, 1:, :places] += torch.eye(places, dtype=states.dtype)[None, :, :, None] * change[:, None]
    data = answers_to(read, series.with_states(changed.flatten(0, 1)), steps)

    def moved(answers: Tensor) -> Tensor:
        by_place = answers.unflatten(-1, (batch, places + 1, data.outs))
        return ((by_place[..., 1:, :] - by_place[..., :1, :]) / size).square().mean((-3, -1))

    return Influence(by_pass=moved(data.answers), least_squares=moved(data.solved[:, 0]))


def foreign_states(read: SeriesReader, series: Series, *, steps: int) -> tuple[float, float]:
    """Return how far answers move when the last quarter of the states before the window is another series'.

    The first number is the solver's mean squared change after the last pass, the second that of the
    reference, both relative to the mean square of a label.
    """
    end = series.states.shape[1] - series.window
    mixed = series.states.clone()
    mixed[:, end * 3 // 4 : end] = series.states.roll(1, 0)[:, end * 3 // 4 : end]
    before, after = (answers_to(read, one, steps) for one in (series, series.with_states(mixed)))
    scale = series.labels.square().mean()
    solver = (after.answers[-1] - before.answers[-1]).square().mean() / scale
    return float(solver), float((after.solved - before.solved).square().mean() / scale)
