import math
from dataclasses import replace

import pytest
import torch
from torch import nn

import algoformer
from algoformer import AlgoFormer, programs
from algoformer.algorithms import GradientDescent, LeastSquares
from algoformer.evaluation import Evaluation, bootstrap, compare, evaluate, evaluation_prompts
from algoformer.prompt import Prompt
from algoformer.tasks import TASKS, ChainOfThought, LinearRegression
from algoformer.trace import Solver, Trace, Unroll, constant_trace
from algoformer.training.presets import SMALL_TASKS
from evaluation.known import Off, pairs

TASK = LinearRegression(dim=3, points=6)


def tiny(program: algoformer.Program, task: LinearRegression | ChainOfThought = TASK) -> AlgoFormer:
    torch.manual_seed(0)
    return AlgoFormer(program, dim=task.dim, out=task.out, context=task.context, width=8)


def zero(prompt: Prompt, unroll: Unroll) -> Trace:
    return constant_trace(torch.zeros_like(prompt.targets), unroll)


def oracle(prompt: Prompt, unroll: Unroll) -> Trace:
    assert prompt.clean is not None
    return constant_trace(prompt.clean, unroll)


def test_one_line_is_enough() -> None:
    prompt = evaluation_prompts(TASK, count=64)
    result = algoformer.evaluate(GradientDescent(), prompt)
    assert result.label == "GradientDescent"
    assert result.steps == 20
    assert result.scale == 3
    assert result.error == result.by_sample.final == result.by_step.final
    assert result.error < result.by_sample.error[0]


def test_the_numbers_are_those_of_an_explicit_loop() -> None:
    prompt = evaluation_prompts(TASK, count=10).to(torch.float64)
    assert prompt.clean is not None
    result = evaluate(GradientDescent(), prompt, steps=5, batch=3)
    for point in range(TASK.points):
        total = 0.0
        for number in range(10):
            one = prompt.select(slice(number, number + 1))
            answer = GradientDescent()(one, Unroll(steps=5)).predictions[-1, 0, point, 0]
            total += float((answer - prompt.clean[number, point, 0]) ** 2)
        assert result.by_sample.at(point) == pytest.approx(total / 10 / 3, rel=1e-9)
    for step in range(1, 6):
        answers = GradientDescent()(prompt, Unroll(steps=step)).final[:, -1, 0]
        mean = float((answers - prompt.clean[:, -1, 0]).square().mean())
        assert result.by_step.at(step) == pytest.approx(mean / 3, rel=1e-9)


def test_batches_do_not_change_what_a_model_gets() -> None:
    model, prompt = tiny(programs.algoformer(heads=2, steps=4)), evaluation_prompts(TASK, count=20)
    one = evaluate(model, prompt, batch=20)
    for batch, at_once in ((1, None), (7, None), (20, 12)):
        other = evaluate(model, prompt, batch=batch, at_once=at_once)
        assert other.by_sample.error == pytest.approx(one.by_sample.error, rel=1e-5)
        assert other.by_step.error == pytest.approx(one.by_step.error, rel=1e-5)
        assert other.by_step.high == pytest.approx(one.by_step.high, rel=1e-5)


def test_the_band_is_the_bootstrap_of_the_prompts() -> None:
    prompt = evaluation_prompts(TASK, count=50)
    result = evaluate(zero, prompt, seed=4, resamples=200)
    band = bootstrap(prompt.targets[..., 0].double().square().numpy() / 3, seed=4, resamples=200)
    assert result.by_sample.low == pytest.approx(tuple(band.low), rel=1e-9)
    assert result.by_sample.high == pytest.approx(tuple(band.high), rel=1e-9)


def test_predicting_zero_costs_one() -> None:
    result = evaluate(zero, evaluation_prompts(LinearRegression(), count=1280))
    assert result.by_sample.error == pytest.approx([1.0] * 41, abs=0.15)


def test_noise_adds_its_variance_to_the_shown_answers_only() -> None:
    prompt = evaluation_prompts(LinearRegression(dim=4, points=10, noise=0.5), count=2000)
    assert evaluate(oracle, prompt).by_sample.error == (0.0,) * 10
    shown = evaluate(oracle, prompt, against="shown")
    assert sum(shown.by_sample.error) / 10 == pytest.approx(0.5**2 / 4, rel=0.03)


def test_the_chain_is_averaged_over_its_layers() -> None:
    task = ChainOfThought(dim=4, points=5, layers=3)
    prompt = evaluation_prompts(task, count=30)
    result = evaluate(zero, prompt)
    assert result.by_sample.x == (0.0, 1.0, 2.0, 3.0, 4.0)
    squares = prompt.targets.double().square().sum(-1).reshape(30, 5, 3).mean(dim=(0, 2)) / 4
    assert result.by_sample.error == pytest.approx(squares.tolist(), rel=1e-9)


@pytest.mark.parametrize(
    ("solver", "steps"),
    [
        (tiny(programs.algoformer(heads=2, steps=7)), 7),
        (tiny(programs.looped(heads=2, steps=3)), 3),
        (tiny(programs.standard(2, heads=2)), 1),
        (LeastSquares(), 20),
        (zero, 20),
    ],
)
def test_a_solver_runs_as_far_as_it_does_by_itself(solver: Solver, steps: int) -> None:
    result = evaluate(solver, evaluation_prompts(TASK, count=4))
    assert result.steps == steps
    assert result.by_step.x == tuple(float(step) for step in range(1, steps + 1))


def test_more_steps_and_a_window_may_be_asked_for() -> None:
    result = evaluate(
        tiny(programs.looped(heads=2, steps=3)), evaluation_prompts(TASK, count=4), steps=9, window=2
    )
    assert result.by_step.x == (8.0, 9.0)
    with pytest.raises(ValueError, match="window must be a whole number"):
        evaluate(zero, pairs(), steps=3, window=4)


def test_a_module_gets_prompts_in_its_own_precision() -> None:
    seen: list[torch.dtype] = []

    class Spy(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.zeros(3, dtype=torch.bfloat16))

        def forward(self, prompt: Prompt, unroll: Unroll) -> Trace:
            seen.append(prompt.rows.dtype)
            return constant_trace(prompt.targets, unroll)

    result = evaluate(Spy(), evaluation_prompts(TASK, count=8), steps=1)
    assert set(seen) == {torch.bfloat16}
    # it answered with the rounded targets; the error is measured against the true ones
    assert 0 < result.error < 1e-3
    assert result.parameters == 3
    assert result.provenance["precision"] == "bfloat16"


def test_broken_prompts_are_counted_and_not_hidden() -> None:
    def sick(prompt: Prompt, unroll: Unroll) -> Trace:
        answer = prompt.targets.clone()
        answer[:2, 1] = torch.nan
        return constant_trace(answer, unroll)

    result = evaluate(sick, pairs(batch=5), steps=2)
    assert result.broken == 2
    assert [math.isnan(error) for error in result.by_sample.error] == [False, True, False]
    assert math.isnan(result.by_sample.high[1])


@pytest.mark.usefixtures("as_a_user")
def test_a_task_in_place_of_prompts_is_refused_with_the_remedy() -> None:
    with pytest.raises(ValueError, match=r"got LinearRegression; use evaluation_prompts\(task\)"):
        evaluate(zero, LinearRegression(dim=2, points=3))  # type: ignore[arg-type]


@pytest.mark.parametrize("name", TASKS)
def test_errors_are_divided_by_the_scale_of_the_task(name: str) -> None:
    task = TASKS[name](**SMALL_TASKS.get(name, {}))
    prompt = evaluation_prompts(task, count=8)
    assert prompt.divisor == task.scale == prompt.prefix().divisor == prompt.select(slice(2)).divisor
    sampled = task.sample(8, generator=torch.Generator().manual_seed(1))
    assert sampled.divisor == task.scale
    found, undivided = evaluate(zero, prompt), evaluate(zero, replace(prompt, scale=1.0))
    assert found.scale == task.scale
    assert found.error == pytest.approx(undivided.error / task.scale, rel=1e-6)


def test_several_solvers_stand_side_by_side() -> None:
    told: list[tuple[int, int]] = []
    prompt = evaluation_prompts(TASK, count=8)
    results = compare(
        {"nothing": zero, "all": oracle},
        prompt,
        steps=2,
        against="shown",
        progress=lambda done, total: told.append((done, total)),
    )
    assert [result.label for result in results] == ["nothing", "all"]
    assert results[0].by_sample == evaluate(zero, prompt, steps=2, label="nothing", against="shown").by_sample
    assert told == sorted(told)
    assert told[-1] == (16, 16)


def test_where_the_numbers_come_from_is_kept() -> None:
    result = evaluate(zero, pairs(), provenance={"commit": "abc", "device": "mine"})
    assert result.provenance["commit"] == "abc"
    assert result.provenance["device"] == "mine"
    assert result.provenance["torch"] == torch.__version__
    assert Evaluation.from_json(result.to_json()) == result


def test_the_solver_is_asked_once_for_each_batch() -> None:
    solver = Off((1.0,) * 3)
    evaluate(solver, pairs(batch=5), batch=2, steps=3)
    assert [size for size, _ in solver.calls] == [2, 2, 1]
