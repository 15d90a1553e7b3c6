import numpy as np
import pytest
import torch

from algoformer.algorithms import GradientDescent
from algoformer.evaluation import depth_sweep, evaluate, evaluation_prompts
from algoformer.evaluation.at_depths import errors_at, solver_answers
from algoformer.tasks import AutoregressiveWithRepresentation, ChainOfThought, LinearRegression

DESCENT = GradientDescent(step_size="lipschitz")


@pytest.mark.parametrize(
    "task",
    [LinearRegression(dim=3, points=6, noise=0.5), ChainOfThought(dim=3, points=4, layers=2)],
    ids=["pairs", "chain"],
)
def test_errors_are_those_of_evaluate(task) -> None:
    prompt = evaluation_prompts(task, count=24)
    solver = GradientDescent(step_size="lipschitz", view=task.problems)
    found = errors_at(
        solver_answers(solver), prompt, depths=(1, 3, 7), whole={3, 7}, scale=task.scale, batch=10,
        against=("clean", "shown"),
    )  # fmt: skip
    for kind in ("clean", "shown"):
        for depth in (3, 7):
            expected = evaluate(solver, prompt, steps=depth, scale=task.scale, against=kind)
            curve = found[kind].by_sample[depth]
            assert curve.x == expected.by_sample.x
            for column in ("error", "low", "high"):
                np.testing.assert_allclose(
                    getattr(curve, column), getattr(expected.by_sample, column), rtol=1e-9
                )
        sweep = depth_sweep(solver, prompt, depths=(1, 3, 7), scale=task.scale, against=kind)
        np.testing.assert_allclose(found[kind].by_depth.error, sweep.error, rtol=1e-9)
        np.testing.assert_allclose(found[kind].by_depth.high, sweep.high, rtol=1e-9)


def test_a_series_counts_rows_as_samples() -> None:
    task = AutoregressiveWithRepresentation(dim=2, points=8)
    prompt = evaluation_prompts(task, count=16)
    solver = GradientDescent(step_size="lipschitz", view=task.problems)
    found = errors_at(solver_answers(solver), prompt, depths=(2,), whole={2}, scale=task.scale)["clean"]
    assert found.by_sample[2].x == (3, 4, 5, 6, 7)


def test_only_depths_that_are_run_can_be_looked_at() -> None:
    prompt = evaluation_prompts(LinearRegression(dim=2, points=4), count=8)
    with pytest.raises(ValueError, match="whole must be among the depths, got 5"):
        errors_at(solver_answers(DESCENT), prompt, depths=(1, 2), whole={5}, scale=2)


def test_progress_ends_at_all_prompts() -> None:
    prompt = evaluation_prompts(LinearRegression(dim=2, points=4), count=10)
    heard: list[tuple[int, int]] = []
    errors_at(
        solver_answers(DESCENT), prompt, depths=(1,), scale=2, batch=4,
        progress=lambda done, total: heard.append((done, total)),
    )  # fmt: skip
    assert heard == [(4, 10), (8, 10), (10, 10)]


def test_prompts_without_clean_answers_are_measured_against_the_shown() -> None:
    from dataclasses import replace

    prompt = replace(evaluation_prompts(LinearRegression(dim=2, points=4), count=8), clean=None)
    with pytest.raises(ValueError, match="measure against='shown'"):
        errors_at(solver_answers(DESCENT), prompt, depths=(1,), scale=2)
    assert torch.isfinite(
        torch.tensor(
            errors_at(solver_answers(DESCENT), prompt, depths=(1,), scale=2, against=("shown",))[
                "shown"
            ].by_depth.error
        )
    ).all()
