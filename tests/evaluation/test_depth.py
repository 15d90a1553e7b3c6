import numpy as np
import pytest
import torch

from algoformer import AlgoFormer, programs
from algoformer.algorithms import GradientDescent
from algoformer.evaluation import errors_at, evaluate, evaluation_prompts
from algoformer.tasks import AutoregressiveWithRepresentation, ChainOfThought, LinearRegression, Sudoku
from evaluation.known import Off, pairs


def test_a_sweep_is_the_evaluation_at_chosen_depths() -> None:
    task = LinearRegression(dim=3, points=5)
    torch.manual_seed(0)
    model = AlgoFormer(programs.algoformer(heads=2), dim=3, out=1, context=task.context, width=8)
    prompt = evaluation_prompts(task, count=16)
    whole = evaluate(model, prompt, steps=12, label="a").by_step
    sweep = errors_at(model, prompt, depths=(1, 5, 12), label="a")["clean"].by_depth
    assert sweep.x == (1.0, 5.0, 12.0)
    for name in ("error", "low", "high"):
        chosen = [getattr(whole, name)[depth - 1] for depth in (1, 5, 12)]
        assert getattr(sweep, name) == pytest.approx(chosen, rel=1e-5)


def test_one_state_is_read_for_each_depth() -> None:
    solver = Off((1.0,) * 3)
    errors_at(solver, pairs(), depths=(3, 1000))
    assert [(size, unroll.steps, unroll.length) for size, unroll in solver.calls] == [(2, 3, 1), (2, 1000, 1)]


def test_progress_runs_over_all_depths() -> None:
    told: list[tuple[int, int]] = []
    errors_at(
        Off((1.0,) * 3),
        pairs(),
        depths=(1, 4),
        batch=1,
        progress=lambda done, total: told.append((done, total)),
    )
    assert told == [(1, 10), (5, 10), (6, 10), (10, 10)]


@pytest.mark.parametrize("depths", [(), (2, 2), (3, 1), (0, 1)])
def test_depths_must_rise_from_one(depths: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="depths must be a rising list of iterations from 1 on"):
        errors_at(Off((1.0,) * 3), pairs(), depths=depths)


def test_depths_without_a_gap_are_read_from_one_run() -> None:
    solver = Off((1.0,) * 3)
    errors_at(solver, pairs(), depths=(1, 2, 3, 7, 8))
    assert [(unroll.first_step, unroll.steps) for _, unroll in solver.calls] == [(1, 3), (7, 8)]


@pytest.mark.parametrize(
    "task",
    [LinearRegression(dim=3, points=6, noise=0.5), ChainOfThought(dim=3, points=4, layers=2)],
    ids=["pairs", "chain"],
)
def test_errors_are_those_of_evaluate(task) -> None:
    prompt = evaluation_prompts(task, count=24)
    solver = GradientDescent(step_size="lipschitz", view=task.problems)
    found = errors_at(
        solver, prompt, depths=(1, 3, 7), whole={3, 7}, batch=10,
        against=("clean", "shown"),
    )  # fmt: skip
    for kind in ("clean", "shown"):
        for depth in (3, 7):
            expected = evaluate(solver, prompt, steps=depth, against=kind)
            curve = found[kind].by_sample[depth]
            assert curve.x == expected.by_sample.x
            for column in ("error", "low", "high"):
                np.testing.assert_allclose(
                    getattr(curve, column), getattr(expected.by_sample, column), rtol=1e-9
                )
        whole = evaluate(solver, prompt, steps=7, against=kind).by_step
        for column in ("error", "low", "high"):
            chosen = [getattr(whole, column)[depth - 1] for depth in (1, 3, 7)]
            np.testing.assert_allclose(getattr(found[kind].by_depth, column), chosen, rtol=1e-9)


def test_unsolved_prompts_are_those_of_evaluate() -> None:
    prompt = evaluation_prompts(Sudoku(most=4), count=24)
    solver = Sudoku().textbook()
    found = errors_at(solver, prompt, depths=(1, 2, 5))["clean"].unsolved
    expected = evaluate(solver, prompt, steps=5).unsolved
    assert found is not None
    assert expected is not None
    for depth in (1, 2, 5):
        assert found.at(depth) == expected.at(depth)
        assert found.low[found.x.index(depth)] == expected.low[depth - 1]
    assert 0 < found.at(2) < 1
    numbers = evaluation_prompts(LinearRegression(dim=2, points=4), count=8)
    assert errors_at(GradientDescent(), numbers, depths=(1,))["clean"].unsolved is None


def test_a_series_counts_rows_as_samples() -> None:
    task = AutoregressiveWithRepresentation(dim=2, points=8)
    prompt = evaluation_prompts(task, count=16)
    solver = GradientDescent(step_size="lipschitz", view=task.problems)
    found = errors_at(solver, prompt, depths=(2,), whole={2})["clean"]
    assert found.by_sample[2].x == (3, 4, 5, 6, 7)


def test_only_depths_that_are_run_can_be_looked_at() -> None:
    prompt = evaluation_prompts(LinearRegression(dim=2, points=4), count=8)
    with pytest.raises(ValueError, match="whole must be among the depths, got 5"):
        errors_at(GradientDescent(), prompt, depths=(1, 2), whole={5})
