"""Series with one question each, and the changes that tests make to them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor

from algoformer.evaluation import held_out_seed
from algoformer.evaluation.solvers import full_precision
from algoformer.insight.answers import ROWS_AT_ONCE, every_answer
from algoformer.problems import Problems
from algoformer.prompt import Prompt
from algoformer.tasks import Task
from algoformer.trace import Solver

_CLOSE = 1e-5
"""Regression problems whose moments differ by less, relative to their size, are the same."""


@dataclass(frozen=True, kw_only=True)
class Series:
    """A batch of series, each with the question which state comes next.

    Each state is the label of one example and an input of the next ones, so neither labels nor queries can
    be changed alone. What can be changed is the series.

    Attributes:
        states: (batch, state, dim).
        task: names the regression inside: its examples, their labels, and the features of the question.
    """

    states: Tensor
    task: Task

    @property
    def prompt(self) -> Prompt:
        """The series as prompts that ask for the state after the last one."""
        batch, count, _ = self.states.shape
        targets = self.states.new_zeros(batch, 1, self.task.out)
        return Prompt(rows=self.states, targets=targets, reads=(count - 1,), parts=self.task.parts)

    @cached_property
    def problems(self) -> Problems:
        """The regression problem of each series, in float64."""
        return self.task.problems(self.prompt.to(torch.float64))

    @property
    def examples(self) -> int:
        """The number of examples before the question."""
        return self.problems.questions[-1][1]

    @property
    def window(self) -> int:
        """The number of last states that the question's features are made of."""
        return self.states.shape[1] - self.examples

    @property
    def features(self) -> Tensor:
        """Features of the examples, (batch, sample, feature)."""
        return self.problems.features[:, self.problems.questions[-1][0], : self.examples]

    @property
    def labels(self) -> Tensor:
        """Labels of the examples, (batch, sample, out)."""
        return self.problems.labels[:, self.problems.questions[-1][0], : self.examples]

    @property
    def query(self) -> Tensor:
        """Features of the question, (batch, feature)."""
        return self.problems.features[:, self.problems.questions[-1][0], self.examples]

    @property
    def batch(self) -> int:
        """The number of series."""
        return self.states.shape[0]

    def with_states(self, states: Tensor) -> Series:
        """Return other series of the same task."""
        return replace(self, states=states.to(self.states.dtype))

    def head(self, count: int) -> Series:
        """Return the first `count` series."""
        return self.with_states(self.states[:count])

    def shuffled(self, generator: torch.Generator) -> Series:
        """Return the states of each series in random order."""
        order = torch.rand(self.states.shape[:2], generator=generator).argsort(1)
        return self.with_states(self.states.gather(1, order[..., None].expand_as(self.states)))

    def rotated(self, rotation: Tensor) -> Series:
        """Multiply the states of each series by an orthogonal matrix, (batch, dim, dim)."""
        return self.with_states(self.states.double() @ rotation)

    def with_recurrence(self) -> tuple[Series, Series] | None:
        """Return two series that have the same examples in another order, and the same question.

        In the first a window W comes three times, P W A W B W Q; the second is P W B W A W Q. Every example
        lies inside one of the pieces between two windows, so that both have the same ones. Short series have
        no room for three windows; None is returned.
        """
        free = self.states.shape[1] - 3 * self.window
        if free < 3:
            return None
        piece, ends = free // 3, free - 2 * (free // 3)
        sizes = [self.window, ends // 2, piece, piece, ends - ends // 2]
        window, start, one, other, end = self.states[:, : sum(sizes)].split(sizes, dim=1)
        return (
            self.with_states(torch.cat([start, window, one, window, other, window, end], dim=1)),
            self.with_states(torch.cat([start, window, other, window, one, window, end], dim=1)),
        )

    def moments(self) -> tuple[Tensor, Tensor, Tensor]:
        """Return FᵀF, FᵀY and the question's features, on which alone most textbook methods depend."""
        return self.features.mT @ self.features, self.features.mT @ self.labels, self.query

    def is_turned_by(self, rotation: Tensor, before: Series) -> bool:
        """Return whether labels are those of `before` times a rotation, and features differ by one, too."""
        kernels = []
        for one in (before, self):
            points = torch.cat([one.features, one.query[:, None]], dim=1)
            kernels.append(points @ points.mT)  # no rotation of the features changes their inner products
        turns = before.labels.shape[-1] == rotation.shape[-1]
        return turns and are_close(*kernels) and are_close(before.labels @ rotation, self.labels)


SeriesReader = Callable[[Series, int], Tensor]
"""Returns answers (step, batch, out) to the questions of series, before the task's link, in float64."""


def draw_series(task: Task, *, count: int, seed: int, dtype: torch.dtype = torch.float64) -> Series:
    """Draw held-out series of a task."""
    generator = torch.Generator().manual_seed(held_out_seed(seed))
    return Series(states=task.sample(count, generator=generator, dtype=dtype).prefix().rows, task=task)


def series_reader(solver: Solver) -> SeriesReader:
    """Return a function that reads a solver's answers to the questions of series."""

    def read(series: Series, steps: int) -> Tensor:
        size = max(1, ROWS_AT_ONCE // series.states.shape[1])
        with full_precision(solver, torch.device("cpu")):
            parts = [
                every_answer(solver, series.with_states(states).prompt, steps)[:, :, -1]
                for states in series.states.split(size)
            ]
        return series.problems.unlink(torch.cat(parts, dim=1).double())

    return read


def are_close(one: Tensor, other: Tensor) -> bool:
    """Return whether two tensors agree up to rounding in float32, relative to their size."""
    return bool((one - other).norm() <= _CLOSE * one.norm())
