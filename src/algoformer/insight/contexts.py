"""Labelled examples and queries of a regression task, and the changes that symmetry tests make to them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, is_dataclass, replace
from typing import Any

import torch
from torch import Tensor

from algoformer.evaluation import held_out_seed
from algoformer.problems import identity
from algoformer.prompt import Prompt
from algoformer.tasks import Task

FeatureMap = Callable[[Tensor], Tensor]
"""Maps inputs (batch, sample, dim) to the features in which the task is linear."""


@dataclass(frozen=True, kw_only=True)
class Contexts:
    """A batch of labelled examples, each with its own queries.

    Attributes:
        inputs: the examples' x, (batch, sample, dim).
        labels: the examples' y as a solver sees them, (batch, sample, out).
        queries: inputs at which predictions are read, (batch, query, dim).
        feature_map: the map from inputs to features.
    """

    inputs: Tensor
    labels: Tensor
    queries: Tensor
    feature_map: FeatureMap = identity

    @property
    def features(self) -> Tensor:
        """Features of the examples in float64, (batch, sample, feature)."""
        return self.feature_map(self.inputs).double()

    @property
    def query_features(self) -> Tensor:
        """Features of the queries in float64, (batch, query, feature)."""
        return self.feature_map(self.queries).double()

    @property
    def batch(self) -> int:
        """The number of prompts."""
        return self.inputs.shape[0]

    def head(self, count: int) -> Contexts:
        """Return the first `count` prompts."""
        return replace(
            self, inputs=self.inputs[:count], labels=self.labels[:count], queries=self.queries[:count]
        )

    def with_labels(self, labels: Tensor) -> Contexts:
        """Return the same examples with other labels."""
        return replace(self, labels=labels.to(self.labels.dtype))

    def with_queries(self, queries: Tensor) -> Contexts:
        """Return the same examples with other queries."""
        return replace(self, queries=queries)

    def reordered(self, order: Tensor) -> Contexts:
        """Return the examples of each prompt in another order, (batch, sample) indices."""
        inputs = self.inputs.gather(1, order[..., None].expand_as(self.inputs))
        labels = self.labels.gather(1, order[..., None].expand_as(self.labels))
        return replace(self, inputs=inputs, labels=labels)

    def rotated(self, rotation: Tensor) -> Contexts:
        """Multiply inputs and queries by an orthogonal matrix for each prompt, (batch, dim, dim)."""
        rotation = rotation.to(self.inputs.dtype)
        return replace(self, inputs=self.inputs @ rotation, queries=self.queries @ rotation)


def check_regression(task: Task) -> None:
    """Raise ValueError unless prompts of the task are (x, y) pairs with a linear regression inside."""
    name = type(task).__name__
    if task.parts != 2:
        raise ValueError(
            f"identification needs prompts of (x, y) pairs, {name} has samples of {task.parts} row(s); "
            "use `certify`, which needs no regression inside"
        )
    if not is_dataclass(task):
        raise ValueError(f"identification draws longer prompts of a task, but {name} is not a dataclass")


def draw_contexts(
    task: Task, *, prompts: int, queries: int, seed: int, dtype: torch.dtype = torch.float64
) -> Contexts:
    """Draw held-out prompts of a task with several queries each, all from the task's own distribution.

    A prompt with `queries` more samples than usual is drawn, and its last samples become the queries: they
    share the prompt's weights and have the distribution that the solver was trained on.
    """
    check_regression(task)
    examples = task.points - 1
    longer: Task = replace(task, points=examples + queries)  # type: ignore[type-var]
    generator = torch.Generator().manual_seed(held_out_seed(seed))
    prompt = longer.sample(prompts, generator=generator, dtype=dtype)
    inputs, labels = prompt.part(0), prompt.part(1)[..., : prompt.out]
    return Contexts(
        inputs=inputs[:, :examples],
        labels=labels[:, :examples],
        queries=inputs[:, examples:],
        feature_map=feature_map_of(task),
    )


def feature_map_of(task: Task) -> FeatureMap:
    """Return the task's own map from inputs to features, as its `problems` apply it."""

    def features(inputs: Tensor) -> Tensor:
        labels = inputs.new_zeros(*inputs.shape[:2], task.out)
        found: Any = task.problems(Prompt.of_pairs(inputs, labels))
        return found.features[:, 0]

    return features
