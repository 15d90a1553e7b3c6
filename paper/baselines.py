"""Textbook methods that stand beside the models of a figure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from algoformer.tasks import RegressionWithRepresentation, Task
from paper.runs import FIXED_STEP, BaselineSpec, Sizes

ITERATIONS = {
    FIXED_STEP: "gradient descent, one step for all",
    "gd": "gradient descent, a step for each prompt",
    "newton": "Newton",
}
"""Textbook iterations beside a loop: the best step for all prompts, one for each prompt, second order."""


def references(group: str, task: Task, sizes: Sizes) -> Iterator[BaselineSpec]:
    """The textbook beside a task's models: the best that is possible, and what one does without Φ*."""
    yield _reference("oracle", "oracle", group, task, sizes)
    if task.noise:
        yield _reference("least-squares", "least squares", group, task, sizes)
    if isinstance(task, RegressionWithRepresentation):
        yield _reference("linear-in-x", "best linear in x", group, task, sizes)
    if task.parts == 1:
        yield _reference("zero", "predict zero", group, task, sizes)


def iterative(group: str, task: Task, sizes: Sizes) -> Iterator[BaselineSpec]:
    """Gradient descent and Newton beside a loop, on everything that the task's maker knows."""
    for name, label in ITERATIONS.items():
        yield replace(_reference(name, label, group, task, sizes), iterates=True)


def _reference(name: str, label: str, group: str, task: Task, sizes: Sizes) -> BaselineSpec:
    return BaselineSpec(
        name=f"{group}/{name}",
        label=label,
        solver=name,
        task=task,
        trained_depth=sizes.depth,
        far=sizes.far,
        prompts=sizes.prompts,
    )
