"""The best fixed step of gradient descent: one for all prompts, chosen on prompts that are not shown."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from algoformer.algorithms import GradientDescent
from algoformer.evaluation import evaluation_prompts
from algoformer.prompt import Prompt
from algoformer.tasks import Task
from algoformer.trace import Unroll

TUNING_SEED = 1
"""Prompts that steps are chosen on: neither of training nor of evaluation, which has seed 0."""

TUNING_PROMPTS = 4096
"""Three times as many as are shown: the largest eigenvalue among them decides what is stable."""

STEP_GRID = tuple(0.8 * 0.85**power for power in range(12))
"""Steps that are tried, as shares of 2/λ, where the first of the tuning prompts begins to diverge.

The largest is a fifth below it: among as many prompts again λ may well be a tenth larger (features of Φ*).
"""


@dataclass(frozen=True, kw_only=True)
class FixedStep:
    """A step for all prompts of a task.

    Attributes:
        size: of the step.
        share: the same as a share of 2/λ.
        largest: λ, the largest eigenvalue of all Hessians of the tuning prompts.
    """

    size: float
    share: float
    largest: float


def best_fixed_step(task: Task, *, iterations: int, prompts: int = TUNING_PROMPTS) -> FixedStep:
    """The step of `STEP_GRID` with which gradient descent is best after so many iterations.

    A step that is best on average after a few iterations may be one that diverges on the worst prompts and
    has not got far yet. So the grid ends where no tuning prompt diverges, however long it is run.
    """
    prompt = tuning_prompts(task, prompts)
    largest = float(largest_eigenvalues(task, prompt).max())
    errors = {share: error_with(2 * share / largest, task, prompt, iterations) for share in STEP_GRID}
    share = min(errors, key=lambda share: errors[share])
    return FixedStep(size=2 * share / largest, share=share, largest=largest)


def tuning_prompts(task: Task, count: int, *, seed: int = TUNING_SEED) -> Prompt:
    """Prompts to choose on, with their last question only."""
    return evaluation_prompts(task, count=count, seed=seed).to(torch.float64).prefix()


def largest_eigenvalues(task: Task, prompt: Prompt) -> torch.Tensor:
    """λ_max of each prompt's Hessian FᵀF/n, F being the rows of features that come before the question."""
    features = task.problems(prompt).features[:, 0, :-1]
    return torch.linalg.eigvalsh(features.mT @ features / features.shape[1])[:, -1]


@torch.no_grad()
def error_with(step_size: float, task: Task, prompt: Prompt, iterations: int) -> float:
    """The mean error on the last question after so many steps of this size."""
    solver = GradientDescent(step_size=step_size, view=task.problems)
    answers = solver(prompt, Unroll(steps=iterations, window=1)).predictions[-1]
    wanted = prompt.targets if prompt.clean is None else prompt.clean
    return float((answers - wanted).square().mean())
