"""The quick solver gives the model's own answers, whatever the depth, the window and the batch."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

from algoformer.evaluation import errors_at, evaluate, evaluation_prompts
from algoformer.model import AlgoFormer
from algoformer.model import presets as programs
from algoformer.tasks import LinearRegression
from algoformer.trace import Unroll
from algoformer.training import solver as solver_module
from algoformer.training.solver import StepwiseSolver, open_solver
from tests.model.test_cost import PROGRAMS, SIZES, prompt

UNROLLS = [None, Unroll(steps=1), Unroll(steps=7, window=3), Unroll(steps=5, keep=())]


@pytest.fixture
def captures(monkeypatch: pytest.MonkeyPatch) -> list[Callable[[], None]]:
    """Captured functions, which are simply called here."""
    made: list[Callable[[], None]] = []
    monkeypatch.setattr(solver_module, "capture", lambda function: made.append(function) or function)
    return made


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("unroll", UNROLLS, ids=str)
@torch.no_grad()
def test_answers_are_the_models(name: str, unroll: Unroll | None) -> None:
    model = AlgoFormer(PROGRAMS[name], **SIZES)
    expected = model(prompt(), unroll)
    with open_solver(model) as solver:
        found = solver(prompt(), unroll)
    assert found.steps == expected.steps
    torch.testing.assert_close(found.predictions, expected.predictions, rtol=1e-5, atol=1e-6)


@pytest.mark.usefixtures("captures")
@torch.no_grad()
def test_one_capture_serves_every_depth_window_and_smaller_batch(captures: list[Any]) -> None:
    model = AlgoFormer(PROGRAMS["gate"], **SIZES)
    solver, whole = StepwiseSolver(model, captured=True), prompt()
    for part, unroll in [
        (slice(0, 3), Unroll(steps=4)),
        (slice(0, 3), Unroll(steps=9, window=2)),
        (slice(1, 2), Unroll(steps=3)),
        (slice(0, 2), Unroll(steps=6, window=1)),
    ]:
        given = whole.select(part)
        expected = model(given, unroll).predictions
        torch.testing.assert_close(solver(given, unroll).predictions, expected, rtol=1e-5, atol=1e-6)
    assert len(captures) == 2  # an iteration, and its answers


@torch.no_grad()
def test_products_of_another_precision_and_larger_batches_are_captured_anew(captures: list[Any]) -> None:
    solver = StepwiseSolver(AlgoFormer(PROGRAMS["looped"], **SIZES), captured=True)
    before = torch.get_float32_matmul_precision()
    solver(prompt().select(slice(0, 1)), Unroll(steps=2))
    solver(prompt(), Unroll(steps=2))
    assert len(captures) == 4
    try:
        torch.set_float32_matmul_precision("high")
        solver(prompt(), Unroll(steps=2))
    finally:
        torch.set_float32_matmul_precision(before)
    assert len(captures) == 6
    solver(prompt(), Unroll(steps=3))
    assert len(captures) == 6


def test_gradients_and_hidden_states_are_left_to_the_model() -> None:
    model = AlgoFormer(PROGRAMS["algoformer"], **SIZES)
    with open_solver(model) as solver:
        assert solver(prompt(), Unroll(steps=2)).predictions.requires_grad
        with torch.no_grad():
            assert set(solver(prompt(), Unroll(steps=2, keep=("loop[1]",))).states) == {"loop[1]"}


@pytest.mark.usefixtures("as_a_user")
@torch.no_grad()
def test_wrong_prompts_are_refused_as_by_the_model() -> None:
    model = AlgoFormer(programs.looped(heads=2), dim=5, out=1, context=12, width=8)
    with open_solver(model) as solver, pytest.raises(ValueError, match="reads rows of dim=5"):
        solver(prompt(), Unroll(steps=2))


def test_evaluation_gives_the_same_numbers_and_more_prompts_at_once() -> None:
    task = LinearRegression(dim=3, points=5)
    torch.manual_seed(0)
    model = AlgoFormer(programs.algoformer(heads=2), dim=3, out=1, context=task.context, width=8)
    prompts = evaluation_prompts(task, count=32)
    expected = evaluate(model, prompts, steps=12, label="a")
    batches = []
    with open_solver(model) as solver:
        solver.register_forward_pre_hook(lambda module, given: batches.append(given[0].batch))
        found = evaluate(solver, prompts, steps=12, label="a", batch=16)
    assert batches == [16, 16]
    assert (found.parameters, found.by_step.x) == (expected.parameters, expected.by_step.x)
    assert found.by_step.error == pytest.approx(expected.by_step.error, rel=1e-5)
    assert found.by_sample.high == pytest.approx(expected.by_sample.high, rel=1e-5)


@pytest.mark.parametrize("program", [programs.algoformer(heads=2), programs.standard(2, heads=2)], ids=str)
@pytest.mark.parametrize("at_once", [None, 12])
def test_a_sweep_is_one_run_with_the_same_numbers(program: Any, at_once: int | None) -> None:
    task = LinearRegression(dim=3, points=5)
    torch.manual_seed(0)
    model = AlgoFormer(program, dim=3, out=1, context=task.context, width=8)
    prompts, depths = evaluation_prompts(task, count=16), (2, 5, 11)
    expected = errors_at(model, prompts, depths=depths, label="a")["clean"].by_depth
    asked: list[tuple[int, ...]] = []
    with open_solver(model) as solver:
        original = solver.at_depths
        solver.at_depths = lambda prompt, depths: asked.append(tuple(depths)) or original(prompt, depths)
        solver.register_forward_pre_hook(lambda module, given: asked.append((given[1].steps,)))
        found = errors_at(solver, prompts, depths=depths, label="a", at_once=at_once)["clean"].by_depth
    assert found.x == expected.x
    assert found.error == pytest.approx(expected.error, rel=1e-5)
    # in bounded memory the depths are read one by one, prompt by prompt
    assert set(asked) == ({depths} if at_once is None else {(2,), (5,), (11,)})


@torch.no_grad()
def test_what_stands_after_the_loop_runs_only_where_somebody_looks() -> None:
    model = AlgoFormer(PROGRAMS["algoformer"], **SIZES)
    calls = {"loop": 0, "post": 0}
    _, loop, post = model.body.parts
    with open_solver(model) as solver:
        loop.body.register_forward_hook(lambda *_: calls.update(loop=calls["loop"] + 1))
        post.register_forward_hook(lambda *_: calls.update(post=calls["post"] + 1))
        solver.at_depths(prompt(), (5, 50))
    assert calls == {"loop": 50, "post": 2}


@pytest.mark.parametrize("name", PROGRAMS)
@torch.no_grad()
def test_one_run_gives_what_an_unroll_to_each_depth_gives(name: str) -> None:
    model = AlgoFormer(PROGRAMS[name], **SIZES)
    with open_solver(model) as solver:
        found = solver.at_depths(prompt(), (1, 4, 9))
    for depth, answers in zip((1, 4, 9), found, strict=True):
        expected = model(prompt(), Unroll(steps=depth, window=1)).final
        torch.testing.assert_close(answers, expected, rtol=1e-5, atol=1e-6)


def test_a_window_that_is_not_held_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("algoformer.evaluation.solvers._ROWS_ON_CPU", 40)
    task = LinearRegression(dim=3, points=5)
    model = AlgoFormer(programs.looped(heads=2), dim=3, out=1, context=task.context, width=8)
    prompts, sizes = evaluation_prompts(task, count=8), []
    for solver in (model, StepwiseSolver(model)):
        hook = solver.register_forward_pre_hook(lambda module, given: sizes.append(given[0].batch))
        evaluate(solver, prompts, steps=4)
        hook.remove()
    assert sizes == [1] * 8 + [4, 4]  # prompts of 10 rows: 40 rows are one prompt × 4 steps, or 4 prompts


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")
@pytest.mark.parametrize("engine", ["graph", "compiled"])
@pytest.mark.parametrize("name", ["algoformer", "looped", "nested", "standard"])
def test_captured_answers_are_the_models(engine: Any, name: str) -> None:
    model = AlgoFormer(PROGRAMS[name], **SIZES).cuda()
    prompts = prompt().to("cuda")
    with torch.no_grad(), open_solver(model, engine=engine) as solver:
        for unroll in (Unroll(steps=4), Unroll(steps=30, window=5), Unroll(steps=2)):
            for given in (prompts, prompts.select(slice(0, 2))):
                expected = model(given, unroll).predictions
                torch.testing.assert_close(solver(given, unroll).predictions, expected, rtol=1e-4, atol=1e-5)
