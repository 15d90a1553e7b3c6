"""What every task promises. A new task adds one row to TASKS_UNDER_TEST."""

import json
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from algoformer.prompt import Prompt
from algoformer.tasks import (
    TASKS,
    Addition,
    AutoregressiveWithRepresentation,
    ChainOfSolves,
    ChainOfThought,
    Copy,
    Hops,
    LeadingEigenvector,
    LinearRegression,
    LinearSystem,
    Parity,
    PuzzleTask,
    RegressionWithRepresentation,
    RobustRegression,
    Sudoku,
    Task,
    from_data,
    register,
    to_data,
)
from algoformer.trace import Unroll
from tests.docs.pages import ROOT, Reader, blocks_of, own_registrations

pytestmark = pytest.mark.contract


def task_of_the_page(folder: Path) -> Task:
    """The task that docs/extending.md tells its readers to write."""
    page = blocks_of((ROOT / "docs" / "extending.md").read_text(encoding="utf-8"))
    reader = Reader(folder, ModuleType("extending_page"))
    with own_registrations():
        reader.run(page[0])
    task: Task = reader.module.SparseRegression(dim=4, points=7, active=2, noise=0.5)
    return task


TASKS_UNDER_TEST: list[Task] = [
    LinearRegression(dim=4, points=7),
    LinearRegression(dim=4, points=7, noise=0.5),
    RegressionWithRepresentation(dim=4, points=7),
    RegressionWithRepresentation(dim=4, points=7, noise=0.5, layers=2, slope=0.2, phi_seed=1),
    AutoregressiveWithRepresentation(dim=4, points=9),
    AutoregressiveWithRepresentation(dim=4, points=9, order=1, noise=0.0),
    ChainOfThought(dim=4, points=7),
    ChainOfThought(dim=4, points=3, layers=2, slope=0.5),
    RobustRegression(dim=4, points=7),
    RobustRegression(dim=4, points=7, noise=0.5, outliers=0.5),
    task_of_the_page(Path()),
    Sudoku(),
    Sudoku(size=9, least=30, most=40),  # propagation alone solves boards with this many givens
    Sudoku(most=5, boards=100, split="test"),
    Hops(length=9, symbols=3, hops=2),
    Addition(numbers=3, digits=2),
    Parity(length=7),
    Copy(length=5, symbols=3),
    LinearSystem(size=4),
    LeadingEigenvector(size=4),
    ChainOfSolves(size=4),
]
every_task = pytest.mark.parametrize("task", TASKS_UNDER_TEST, ids=str)
regression_task = pytest.mark.parametrize(
    "task", [task for task in TASKS_UNDER_TEST if not isinstance(task, PuzzleTask)], ids=str
)
puzzle = pytest.mark.parametrize(
    "task", [task for task in TASKS_UNDER_TEST if isinstance(task, PuzzleTask)], ids=str
)


def seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def assert_same(one: Prompt, other: Prompt) -> None:
    assert torch.equal(one.rows, other.rows)
    assert torch.equal(one.targets, other.targets)
    assert one.clean is not None
    assert other.clean is not None
    assert torch.equal(one.clean, other.clean)


@every_task
def test_it_is_a_task(task: Task) -> None:
    assert isinstance(task, Task)


@every_task
def test_the_generator_alone_decides(task: Task) -> None:
    torch.manual_seed(1)
    one = task.sample(5, generator=seeded(0))
    torch.manual_seed(2)
    before = torch.get_rng_state()
    assert_same(one, task.sample(5, generator=seeded(0)))
    assert torch.equal(torch.get_rng_state(), before), "the global generator was touched"


@every_task
def test_another_seed_gives_other_prompts(task: Task) -> None:
    one, other = (task.sample(5, generator=seeded(seed)) for seed in (0, 1))
    assert not torch.allclose(one.rows, other.rows)
    assert not torch.allclose(one.targets, other.targets)


@every_task
def test_a_generator_goes_on_where_it_stopped(task: Task) -> None:
    generator = seeded(0)
    first, second = (task.sample(5, generator=generator) for _ in range(2))
    assert not torch.allclose(first.rows, second.rows)


@every_task
@pytest.mark.parametrize("batch", [1, 2, 17])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_prompts_have_the_shape_and_precision_that_are_announced(
    task: Task, batch: int, dtype: torch.dtype
) -> None:
    prompt = task.sample(batch, generator=seeded(0), dtype=dtype)
    assert prompt.rows.shape == (batch, task.context, task.dim)
    assert prompt.targets.shape == (batch, prompt.points, task.out)
    assert prompt.parts == task.parts
    assert prompt.clean is not None
    assert prompt.clean.shape == prompt.targets.shape
    assert prompt.rows.dtype == prompt.targets.dtype == prompt.clean.dtype == dtype
    assert prompt.rows.isfinite().all()
    assert prompt.targets.isfinite().all()


@every_task
def test_one_seed_means_the_same_prompts_in_every_precision(task: Task) -> None:
    single, double = (
        task.sample(5, generator=seeded(0), dtype=dtype) for dtype in (torch.float32, torch.float64)
    )
    torch.testing.assert_close(single.rows.double(), double.rows, rtol=1e-4, atol=1e-4)


@regression_task
def test_rows_after_a_read_show_its_target_unless_labels_are_corrupted(task: Task) -> None:
    prompt = task.sample(5, generator=seeded(0))
    shown = [row + 1 for row in prompt.reads if row + 1 < task.context]
    revealed = prompt.rows[:, shown, : task.out]
    wrong = (revealed != prompt.targets[:, : len(shown)]).any(dim=-1)
    assert wrong.any() == isinstance(task, RobustRegression)


@every_task
def test_targets_are_clean_exactly_where_there_is_no_noise(task: Task) -> None:
    prompt = task.sample(5, generator=seeded(0))
    assert prompt.clean is not None
    assert torch.equal(prompt.clean, prompt.targets) == (task.noise == 0)


@every_task
def test_it_survives_the_way_through_json(task: Task) -> None:
    with own_registrations():
        if type(task) not in TASKS.values():
            register(type(task))  # the task of the page
        assert from_data(json.loads(json.dumps(to_data(task)))) == task


@regression_task
def test_the_problems_ask_each_question_of_the_prompt_once(task: Task) -> None:
    prompt = task.sample(3, generator=seeded(0))
    problems = task.problems(prompt)
    batch, columns, samples, _ = problems.features.shape
    assert batch == 3
    assert problems.labels.shape == (3, columns, samples, task.out)
    assert len(set(problems.questions)) == len(problems.questions) == prompt.points
    assert all(0 <= column < columns and 0 <= sample < samples for column, sample in problems.questions)


@regression_task
def test_the_problems_of_a_prefix_are_those_of_the_prompt_cut_off(task: Task) -> None:
    prompt = task.sample(3, generator=seeded(0), dtype=torch.float64)
    whole = task.problems(prompt)
    for point in range(prompt.points):
        cut = task.problems(prompt.prefix(point))
        assert cut.questions == (whole.questions[point],)
        column, sample = whole.questions[point]
        torch.testing.assert_close(
            cut.features[:, column, : sample + 1], whole.features[:, column, : sample + 1]
        )
        torch.testing.assert_close(cut.labels[:, column, :sample], whole.labels[:, column, :sample])


@regression_task
def test_problems_never_read_the_targets(task: Task) -> None:
    prompt = task.sample(3, generator=seeded(0))
    blind = Prompt(
        rows=prompt.rows,
        targets=torch.full_like(prompt.targets, torch.nan),
        reads=prompt.reads,
        parts=prompt.parts,
    )
    problems, blinded = task.problems(prompt), task.problems(blind)
    assert torch.equal(problems.labels, blinded.labels)
    assert torch.equal(problems.features, blinded.features)


@every_task
def test_active_dims_are_obeyed_or_refused(task: Task) -> None:
    if not task.takes_dims:
        with pytest.raises(ValueError, match="got active_dims=2: leave it out"):
            task.sample(3, generator=seeded(0), active_dims=2)
        return
    counted = task.sample(3, generator=seeded(0), active_dims=2)
    assert_same(counted, task.sample(3, generator=seeded(0), active_dims=torch.tensor(2)))
    assert not counted.part(0)[..., 2:].any()
    whole = task.sample(3, generator=seeded(0), active_dims=task.dim)
    assert_same(whole, task.sample(3, generator=seeded(0)))


@every_task
def test_sampling_never_reads_a_value_back(task: Task) -> None:
    task.sample(1, generator=seeded(0))  # a captured step is warmed up first, which fills the cache of Φ*
    # a fake tensor has a shape and no values: whatever asks for one raises, as it would stall a CUDA graph
    with FakeTensorMode(allow_non_fake_inputs=True):
        active_dims = torch.tensor(2) if task.takes_dims else None
        prompt = task.sample(3, generator=seeded(0), active_dims=active_dims)
    assert prompt.rows.shape == (3, task.context, task.dim)


@puzzle
def test_a_puzzle_has_no_regression_problem(task: Task) -> None:
    with pytest.raises(ValueError, match="has no regression problem inside its prompts"):
        task.problems(task.sample(1, generator=seeded(0)))


@puzzle
def test_the_textbook_algorithm_solves_a_puzzle_without_its_targets(task: PuzzleTask) -> None:
    prompt = task.sample(20, generator=seeded(0), dtype=torch.float64)  # type: ignore[attr-defined]
    blind = replace(prompt, targets=torch.zeros_like(prompt.targets), clean=None, stages=None)
    answers = task.textbook()(blind, Unroll(steps=100, window=1)).final  # type: ignore[attr-defined]
    if prompt.classes:
        assert torch.equal(answers.argmax(dim=-1), prompt.targets.argmax(dim=-1))
    else:
        torch.testing.assert_close(answers, prompt.targets, rtol=1e-6, atol=1e-6)


@puzzle
def test_rows_show_the_answers_only_where_a_puzzle_says_so(task: PuzzleTask) -> None:
    prompt = task.sample(3, generator=seeded(0))  # type: ignore[attr-defined]
    assert prompt.answers_in_rows == isinstance(task, Copy)
    if prompt.answers_in_rows:
        shown = [row + 1 for row in prompt.reads if row + 1 < task.context]  # type: ignore[attr-defined]
        assert torch.equal(prompt.rows[:, shown, : prompt.out], prompt.targets[:, : len(shown)])
