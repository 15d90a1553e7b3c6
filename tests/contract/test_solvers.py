"""What every solver promises. A new solver, trained or hand-built or textbook, adds one row to ROWS."""

import copy
from dataclasses import replace

import pytest
import torch

from algoformer.algorithms import (
    Averaging,
    GradientDescent,
    HeavyBall,
    IterativelyReweighted,
    LeastSquares,
    LinearInX,
    Newton,
    Ridge,
    Zero,
)
from algoformer.model import AlgoFormer, Layers, Loop, Parallel, Program
from algoformer.model import presets as programs
from algoformer.model.presets import PRESETS
from algoformer.prompt import Prompt
from algoformer.tasks import (
    AutoregressiveWithRepresentation,
    ChainOfThought,
    LinearRegression,
    RegressionWithRepresentation,
    RobustRegression,
    Task,
)
from algoformer.theory import decoder_gradient_descent
from algoformer.trace import Solver, Trace, Unroll

pytestmark = pytest.mark.contract

LINEAR = LinearRegression(dim=4, points=9, noise=0.3)
REPRESENTATION = RegressionWithRepresentation(dim=4, points=9, slope=0.2)
SERIES = AutoregressiveWithRepresentation(dim=4, points=9)
CHAIN = ChainOfThought(dim=4, points=7, layers=3, slope=0.3)
ROBUST = RobustRegression(dim=4, points=9)


class AnyPrecision:
    """A model in the precision of the prompt: a module has one of its own, the contract asks for two."""

    def __init__(self, model: AlgoFormer) -> None:
        self.models = {dtype: copy.deepcopy(model).to(dtype) for dtype in (torch.float32, torch.float64)}

    def __call__(self, prompt: Prompt, unroll: Unroll, /) -> Trace:
        with torch.no_grad():
            return self.models[prompt.rows.dtype](prompt, unroll)


def untrained(program: Program, task: Task) -> Solver:
    torch.manual_seed(0)
    return AnyPrecision(AlgoFormer(program, dim=task.dim, out=task.out, context=task.context, width=8))


BRANCHES = Program(Parallel(Loop(Layers(1, heads=2), steps=3), Layers(1, heads=2)), Layers(1, heads=2))

ROWS: list[tuple[str, Solver, Task]] = [
    *((f"untrained {name}", untrained(build(heads=2), LINEAR), LINEAR) for name, build in PRESETS.items()),
    ("untrained algoformer on a chain", untrained(programs.algoformer(heads=2), CHAIN), CHAIN),
    ("untrained algoformer on a series", untrained(programs.algoformer(heads=2), SERIES), SERIES),
    ("untrained gated loop", untrained(programs.looped(heads=2, inject="gate"), LINEAR), LINEAR),
    ("untrained branches", untrained(BRANCHES, ROBUST), ROBUST),
    (
        "hand-built decoder",
        AnyPrecision(decoder_gradient_descent(dim=4, points=9, step_size=0.05)),
        LINEAR,
    ),
    ("gradient descent, fixed step", GradientDescent(step_size=0.05), LINEAR),
    ("gradient descent, optimal step", GradientDescent(), LINEAR),
    ("gradient descent, 1/λ", GradientDescent(step_size="lipschitz"), LINEAR),
    ("gradient descent on features", GradientDescent(view=REPRESENTATION.problems), REPRESENTATION),
    ("gradient descent on a series", GradientDescent(view=SERIES.problems), SERIES),
    ("gradient descent on a chain", GradientDescent(view=CHAIN.problems), CHAIN),
    ("heavy ball, fixed", HeavyBall(step_size=0.05, momentum=0.5), LINEAR),
    ("heavy ball, optimal", HeavyBall(), LINEAR),
    ("newton", Newton(), LINEAR),
    ("newton, fixed alpha", Newton(alpha=1e-3), LINEAR),
    ("newton on a chain", Newton(view=CHAIN.problems), CHAIN),
    ("least squares", LeastSquares(), LINEAR),
    ("least squares on features", LeastSquares(view=REPRESENTATION.problems), REPRESENTATION),
    ("least squares on a chain", LeastSquares(view=CHAIN.problems), CHAIN),
    ("ridge", Ridge(strength=0.09), LINEAR),
    ("ridge on a series", Ridge(strength=1.0, view=SERIES.problems), SERIES),
    ("linear in x", LinearInX(noise=0.1), REPRESENTATION),
    ("averaging", Averaging(), LINEAR),
    ("zero", Zero(), LINEAR),
    ("zero on a chain", Zero(view=CHAIN.problems), CHAIN),
    ("reweighted", IterativelyReweighted(), ROBUST),
    ("reweighted with an inner loop", IterativelyReweighted(power=1.0, inner_steps=3), ROBUST),
]
every_solver = pytest.mark.parametrize(
    ("solver", "task"), [row[1:] for row in ROWS], ids=[row[0] for row in ROWS]
)
STEPS = 6
# one row of a batch may be rounded differently from the whole; in float32 the pairs of an almost square
# prefix magnify that, hence the comparisons run in float64
CLOSE = {"rtol": 1e-7, "atol": 1e-9}


def prompts(task: Task, batch: int = 4, dtype: torch.dtype = torch.float64) -> Prompt:
    return task.sample(batch, generator=torch.Generator().manual_seed(0), dtype=dtype)


@every_solver
def test_it_is_a_solver(solver: Solver, task: Task) -> None:
    assert isinstance(solver, Solver)


@every_solver
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_it_answers_every_question_at_every_step(solver: Solver, task: Task, dtype: torch.dtype) -> None:
    prompt = prompts(task, dtype=dtype)
    trace = solver(prompt, Unroll(steps=STEPS))
    assert trace.predictions.shape == (STEPS, *prompt.targets.shape)
    assert trace.predictions.dtype == dtype
    assert trace.steps == tuple(range(1, STEPS + 1))
    assert trace.predictions.isfinite().all()


@every_solver
def test_it_never_peeks(solver: Solver, task: Task) -> None:
    prompt = prompts(task)
    answers = solver(prompt, Unroll(steps=STEPS)).predictions
    generator = torch.Generator().manual_seed(1)
    for point, row in enumerate(prompt.reads):
        rows, later = prompt.rows.clone(), prompt.rows[:, row + 1 :]
        rows[:, row + 1 :] = torch.randn(later.shape, generator=generator, dtype=later.dtype)
        other = torch.full_like(prompt.targets, 7.0)
        changed = replace(prompt, rows=rows, targets=other, clean=other)
        answered = solver(changed, Unroll(steps=STEPS)).predictions
        torch.testing.assert_close(answered[:, :, : point + 1], answers[:, :, : point + 1], **CLOSE)


@every_solver
def test_a_question_alone_gets_the_same_answer_as_among_others(solver: Solver, task: Task) -> None:
    prompt = prompts(task)
    answers = solver(prompt, Unroll(steps=STEPS)).predictions
    for point in range(prompt.points):
        alone = solver(prompt.prefix(point), Unroll(steps=STEPS)).predictions
        torch.testing.assert_close(alone[:, :, 0], answers[:, :, point], **CLOSE)


@every_solver
@pytest.mark.parametrize("window", [1, 3, STEPS])
def test_a_window_is_the_end_of_the_whole_trace(solver: Solver, task: Task, window: int) -> None:
    prompt = prompts(task)
    whole = solver(prompt, Unroll(steps=STEPS))
    part = solver(prompt, Unroll(steps=STEPS, window=window))
    assert part.first_step == STEPS - window + 1
    torch.testing.assert_close(part.predictions, whole.predictions[-window:], rtol=0, atol=0)


@every_solver
def test_it_is_deterministic(solver: Solver, task: Task) -> None:
    prompt = prompts(task)
    torch.manual_seed(1)
    one = solver(prompt, Unroll(steps=STEPS)).predictions
    torch.manual_seed(2)
    assert torch.equal(solver(prompt, Unroll(steps=STEPS)).predictions, one)


@every_solver
def test_prompts_do_not_know_of_each_other(solver: Solver, task: Task) -> None:
    prompt = prompts(task, batch=5)
    together = solver(prompt, Unroll(steps=STEPS)).predictions
    for index in range(5):
        alone = solver(prompt.select(slice(index, index + 1)), Unroll(steps=STEPS)).predictions
        torch.testing.assert_close(alone[:, 0], together[:, index], **CLOSE)


@every_solver
def test_it_leaves_the_prompt_as_it_was(solver: Solver, task: Task) -> None:
    prompt = prompts(task)
    rows, targets = prompt.rows.clone(), prompt.targets.clone()
    solver(prompt, Unroll(steps=STEPS))
    assert torch.equal(prompt.rows, rows)
    assert torch.equal(prompt.targets, targets)


@every_solver
def test_states_that_it_does_not_have_are_refused(solver: Solver, task: Task) -> None:
    with pytest.raises(ValueError, match=r"keep|no state at address"):
        solver(prompts(task), Unroll(steps=2, keep=("nowhere",)))
