"""Labelled examples and queries of a regression task, and the changes that symmetry tests make to them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, is_dataclass, replace

import torch
from torch import Tensor
from torch.nn.functional import pad

from algoformer.evaluation import held_out_seed
from algoformer.problems import identity
from algoformer.prompt import Prompt
from algoformer.tasks import PuzzleTask, Task

Link = Callable[[Tensor], Tensor]
"""Maps values elementwise."""

FeatureMap = Callable[[Tensor], Tensor]
"""Maps inputs (batch, sample, dim) to the features in which the task is linear."""


@dataclass(frozen=True, kw_only=True)
class Contexts:
    """A batch of labelled examples of one regression problem, each with its own queries.

    A sample of a prompt consists of several rows: (x, y), or x and a state for each layer of a chain. Problem
    p has its inputs in row p of a sample and its labels in row p + 1. Other rows stay as they were drawn when
    labels or inputs are changed. In a deep layer of a chain some outputs are negative at nearly every query;
    the leaky ReLU hides their weights, and the gate "other queries" shows how well they are measured.

    Attributes:
        samples: the examples' rows, (batch, sample, part, dim); the label's row is not read.
        labels: the examples' labels in the regression problem, (batch, sample, out).
        query_rows: the rows of a query's sample up to the query itself, (batch, query, problem + 1, dim).
        feature_map: the map from inputs to features.
        link: the map from <weights, features> to an answer; `unlink` is its inverse.
    """

    samples: Tensor
    labels: Tensor
    query_rows: Tensor
    feature_map: FeatureMap = identity
    link: Link = identity
    unlink: Link = identity

    @property
    def problem(self) -> int:
        """The number of the regression problem, which is the row of its inputs in a sample."""
        return self.query_rows.shape[2] - 1

    @property
    def inputs(self) -> Tensor:
        """The examples' inputs, (batch, sample, dim)."""
        return self.samples[:, :, self.problem]

    @property
    def queries(self) -> Tensor:
        """Inputs at which predictions are read, (batch, query, dim)."""
        return self.query_rows[:, :, -1]

    @property
    def features(self) -> Tensor:
        """Features of the examples in float64, (batch, sample, feature)."""
        return self.feature_map(self.inputs).double()

    @property
    def query_features(self) -> Tensor:
        """Features of the queries in float64, (batch, query, feature)."""
        return self.feature_map(self.queries).double()

    @property
    def rows(self) -> Tensor:
        """The examples as rows of a prompt, (batch, token, dim)."""
        shown = self.link(self.labels)
        shown = pad(shown, (0, self.samples.shape[-1] - shown.shape[-1]))
        before, after = self.samples[:, :, : self.problem + 1], self.samples[:, :, self.problem + 2 :]
        return torch.cat([before, shown[:, :, None], after], dim=2).flatten(1, 2)

    @property
    def parts(self) -> int:
        """The number of rows of a sample."""
        return self.samples.shape[2]

    @property
    def batch(self) -> int:
        """The number of prompts."""
        return self.samples.shape[0]

    def select(self, index: slice | Tensor) -> Contexts:
        """Return some of the prompts, by index in the batch."""
        chosen = {name: getattr(self, name)[index] for name in ("samples", "labels", "query_rows")}
        return replace(self, **chosen)

    def head(self, count: int) -> Contexts:
        """Return the first `count` prompts."""
        return self.select(slice(count))

    def repeated(self, count: int) -> Contexts:
        """Return every prompt `count` times, copies side by side."""
        return self.select(torch.arange(self.batch).repeat_interleave(count))

    def with_labels(self, labels: Tensor) -> Contexts:
        """Return the same examples with other labels."""
        return replace(self, labels=labels.to(self.labels.dtype))

    def with_queries(self, query_rows: Tensor) -> Contexts:
        """Return the same examples with other queries."""
        return replace(self, query_rows=query_rows)

    def reordered(self, order: Tensor) -> Contexts:
        """Return the examples of each prompt in another order, (batch, sample) indices."""
        prompt = torch.arange(self.batch)[:, None]
        return replace(self, samples=self.samples[prompt, order], labels=self.labels[prompt, order])

    def rotated(self, rotation: Tensor) -> Contexts:
        """Multiply inputs and queries by an orthogonal matrix for each prompt, (batch, dim, dim)."""
        rotation = rotation.to(self.samples.dtype)
        samples, query_rows = self.samples.clone(), self.query_rows.clone()
        samples[:, :, self.problem] = self.inputs @ rotation
        query_rows[:, :, -1] = self.queries @ rotation
        return replace(self, samples=samples, query_rows=query_rows)


def check_regression(task: Task, problem: int = 0) -> None:
    """Raise ValueError unless prompts of the task hold labelled examples or a series."""
    name = type(task).__name__
    if isinstance(task, PuzzleTask):
        raise ValueError(f"{name} has no regression inside its prompts; use `certify`, which needs none")
    last = max(task.parts - 2, 0)
    if not 0 <= problem <= last:
        raise ValueError(f"problem must lie in 0..{last} for {name}, got {problem}")
    if task.points < 2:
        raise ValueError(f"points must be at least 2 to show an example, got {task.points} for {name}")
    if task.parts > 1 and not is_dataclass(task):
        raise ValueError(f"identification draws longer prompts of a task, but {name} is not a dataclass")


def draw_contexts(
    task: Task,
    *,
    prompts: int,
    queries: int,
    seed: int,
    dtype: torch.dtype = torch.float64,
    problem: int = 0,
) -> Contexts:
    """Draw held-out prompts of a task with several queries each, all from the task's own distribution.

    A prompt with `queries` more samples than usual is drawn, and its last samples become the queries: they
    share the prompt's weights and have the distribution that the solver was trained on.
    """
    check_regression(task, problem)
    examples = task.points - 1
    longer: Task = replace(task, points=examples + queries)  # type: ignore[type-var]
    generator = torch.Generator().manual_seed(held_out_seed(seed))
    prompt = longer.sample(prompts, generator=generator, dtype=dtype)
    samples, found = prompt.rows.unflatten(1, (-1, task.parts)), task.problems(prompt)
    return Contexts(
        samples=samples[:, :examples],
        labels=found.labels[:, problem, :examples],
        query_rows=samples[:, examples:, : problem + 1],
        feature_map=feature_map_of(task, problem),
        link=found.link,
        unlink=found.unlink,
    )


def feature_map_of(task: Task, problem: int = 0) -> FeatureMap:
    """Return the task's own map from inputs to features, as its `problems` apply it."""

    def features(inputs: Tensor) -> Tensor:
        batch, count, dim = inputs.shape
        rows = inputs.new_zeros(batch, count, task.parts, dim)
        rows[:, :, problem] = inputs
        targets = inputs.new_zeros(batch, 1, task.out)
        shown = Prompt(rows=rows.flatten(1, 2), targets=targets, reads=(0,), parts=task.parts)
        return task.problems(shown).features[:, problem]

    return features


def derivative(function: Link, values: Tensor) -> Tensor:
    """Return the derivative of an elementwise function at `values`."""
    with torch.enable_grad():
        given = values.detach().requires_grad_()
        (slope,) = torch.autograd.grad(function(given).sum(), given)
    return slope
