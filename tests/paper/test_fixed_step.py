"""One step of gradient descent for all prompts: stable on prompts that it was not chosen on."""

import pytest
import torch

from algoformer.evaluation import evaluation_prompts
from algoformer.prompt import Prompt
from algoformer.tasks import LinearRegression, RegressionWithRepresentation, Task
from paper.fixed_step import (
    STEP_GRID,
    FixedStep,
    best_fixed_step,
    error_with,
    largest_eigenvalues,
    tuning_prompts,
)

TASKS = [
    LinearRegression(),
    LinearRegression(noise=1.0),
    RegressionWithRepresentation(),
    RegressionWithRepresentation(noise=1.0),
]


@pytest.fixture(scope="module", params=TASKS, ids=lambda task: f"{type(task).__name__} {task.noise:g}")
def chosen(request: pytest.FixtureRequest) -> tuple[Task, FixedStep]:
    return request.param, best_fixed_step(request.param, iterations=20, prompts=512)


def slopes(step: float, task: Task, prompt: Prompt, at: tuple[int, ...]) -> list[torch.Tensor]:
    """Gradient descent written down once more, w ← w - η Fᵀ(Fw - y)/n: how steep it is at some iterations."""
    problems = task.problems(prompt)
    rows, labels = problems.features[:, 0, :-1], problems.labels[:, 0, :-1]
    hessian, pull = rows.mT @ rows / rows.shape[1], rows.mT @ labels / rows.shape[1]
    weights = torch.zeros_like(pull)
    found = []
    for iteration in range(max(at) + 1):
        gradient = hessian @ weights - pull
        if iteration in at:
            found.append(gradient.flatten(1).norm(dim=1))
        weights = weights - step * gradient
    return found


def test_no_fresh_prompt_diverges_however_long_it_runs(chosen: tuple[Task, FixedStep]) -> None:
    task, step = chosen
    fresh = tuning_prompts(task, 512, seed=7)
    assert float(largest_eigenvalues(task, fresh).max()) * step.size < 2
    # every iteration multiplies the gradient by 1 - ηH: it grows on a prompt that diverges, and only there
    first, near, far, farthest = slopes(step.size, task, fresh, (0, 20, 100, 400))
    assert (near <= first).all()
    assert (far <= near).all()
    assert (farthest <= far + 1e-12).all()
    too_large = slopes(2.02 / float(largest_eigenvalues(task, fresh).max()), task, fresh, (0, 400))
    assert (too_large[1] > too_large[0]).any(), "one per cent beyond the border this test notices"


def test_the_step_is_the_best_of_the_grid_for_the_tuning_prompts(chosen: tuple[Task, FixedStep]) -> None:
    task, step = chosen
    prompt = tuning_prompts(task, 512)
    place = STEP_GRID.index(step.share)
    best = error_with(step.size, task, prompt, 20)
    for neighbour in STEP_GRID[max(0, place - 1) : place + 2]:
        assert best <= error_with(2 * neighbour / step.largest, task, prompt, 20)


def test_the_prompts_that_it_is_chosen_on_are_not_those_that_are_shown() -> None:
    task = LinearRegression(dim=3, points=12)
    shown = evaluation_prompts(task, count=64).to(torch.float64).prefix()
    assert not torch.equal(tuning_prompts(task, 64).rows, shown.rows)


def test_the_best_step_may_lie_inside_the_grid() -> None:
    # with many samples all eigenvalues are near 1, and so is the best step, while 2 is stable
    step = best_fixed_step(LinearRegression(dim=2, points=400), iterations=3, prompts=256)
    assert 0 < STEP_GRID.index(step.share) < len(STEP_GRID) - 1
    assert step.size == pytest.approx(1.0, abs=0.15)
