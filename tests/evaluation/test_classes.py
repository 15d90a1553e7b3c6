"""Prompts whose answers are classes: losses, errors and solved prompts against counting by hand."""

import math
from dataclasses import replace

import pytest
import torch

from algoformer import Program
from algoformer.data.objective import error_at, stage_loss, window_loss
from algoformer.evaluation import Evaluation, evaluate, evaluation_prompts
from algoformer.model import AlgoFormer, Layers, Loop
from algoformer.prompt import Prompt
from algoformer.tasks import ChainOfSolves, Copy, Parity, Sudoku
from algoformer.trace import Trace

FULL = Program(Loop(Layers(1, heads=2, causal=False, positions="none"), steps=2, name="loop"))


def two_questions() -> Prompt:
    """Two prompts with two questions of three classes each; the right answers are 0 1 and 2 2."""
    targets = torch.eye(3)[torch.tensor([[0, 1], [2, 2]])]
    return Prompt(
        rows=torch.zeros(2, 2, 1),
        targets=targets,
        clean=targets,
        reads=(0, 1),
        classes=True,
        answers_in_rows=False,
    )


def answering(*answers: list[list[int]]) -> Trace:
    return Trace(predictions=5 * torch.eye(3)[torch.tensor(answers)])


def test_the_loss_is_the_cross_entropy() -> None:
    prompt = two_questions()
    logits = torch.randn(4, 2, 2, 3, generator=torch.Generator().manual_seed(0))
    expected = torch.nn.functional.cross_entropy(
        logits.flatten(0, 2), prompt.targets.argmax(dim=-1).expand(4, 2, 2).flatten()
    )
    torch.testing.assert_close(window_loss(Trace(predictions=logits), prompt), expected)
    uniform = Trace(predictions=torch.zeros(1, 2, 2, 3))
    assert window_loss(uniform, prompt).item() == pytest.approx(math.log(3))


def test_errors_are_shares_of_wrong_answers_and_a_prompt_is_solved_as_a_whole() -> None:
    prompt = two_questions()
    trace = answering([[0, 0], [1, 2]], [[0, 1], [1, 2]], [[0, 1], [2, 2]])
    found = evaluate(lambda _, unroll: trace, prompt, steps=3)
    assert found.by_step.error == (0.5, 0.25, 0.0)
    assert found.unsolved is not None
    assert found.unsolved.error == (1.0, 0.5, 0.0)
    assert found.by_sample.x == (0.0,)
    assert error_at(answering([[0, 0], [1, 2]]), prompt, torch.tensor([1])).item() == 0.5
    assert Evaluation.from_json(found.to_json()) == found


def test_every_symbol_of_a_copy_counts() -> None:
    prompt = evaluation_prompts(Copy(length=3, symbols=2, least=3), count=2)
    answers = prompt.targets.clone()
    answers[0, 0] = answers[0, 0].roll(1)
    found = evaluate(lambda _, unroll: Trace(predictions=answers[None]), prompt, steps=1)
    assert found.by_sample.x == (0.0,)
    assert found.error == 1 / 8
    assert found.unsolved is not None
    assert found.unsolved.error == (0.5,)


def test_an_evaluation_of_numbers_is_stored_as_before() -> None:
    prompt = two_questions()
    numbers = Prompt(rows=prompt.rows, targets=prompt.targets, clean=prompt.clean, reads=prompt.reads)
    found = evaluate(lambda _, unroll: answering([[0, 0], [1, 2]]), numbers, steps=1)
    assert found.unsolved is None
    assert "unsolved" not in found.to_data()
    assert Evaluation.from_json(found.to_json()) == found


def test_logits_that_are_not_finite_are_counted_as_broken() -> None:
    prompt = two_questions()
    trace = answering([[0, 1], [2, 2]])
    trace.predictions[0, 1, 0, 0] = torch.nan
    found = evaluate(lambda _, unroll: trace, prompt, steps=1)
    assert found.broken == 1
    assert found.unsolved is not None
    assert math.isnan(found.unsolved.error[0])


def test_full_attention_reads_all_cells_of_a_board() -> None:
    task = Sudoku()
    model = AlgoFormer(FULL, dim=task.dim, out=task.out, context=task.context, width=16)
    prompt = evaluation_prompts(task, count=2)
    changed = prompt.rows.clone()
    changed[:, -1] = changed[:, -1].roll(1, dims=-1)
    before = model(prompt).final
    after = model(
        Prompt(rows=changed, targets=prompt.targets, reads=prompt.reads, answers_in_rows=False)
    ).final
    assert (before[:, 0] != after[:, 0]).any()
    with pytest.raises(ValueError, match="full attention would see rows"):
        model(replace(prompt, answers_in_rows=True))


def test_without_learned_positions_prompts_may_be_longer_than_in_training() -> None:
    short, long = Parity(length=4), Parity(length=9, least=9)
    model = AlgoFormer(FULL, dim=short.dim, out=short.out, context=short.context, width=16)
    assert model(evaluation_prompts(long, count=2)).final.shape == (2, 1, 2)
    learned = Program(Loop(Layers(1, heads=2, causal=False), steps=2))
    model = AlgoFormer(learned, dim=short.dim, out=short.out, context=short.context, width=16)
    with pytest.raises(ValueError, match="the prompt has 10 rows"):
        model(evaluation_prompts(long, count=2))


def test_each_stage_is_compared_with_its_own_answer() -> None:
    prompt = evaluation_prompts(ChainOfSolves(size=3, rounds=3), count=5)
    assert prompt.stages is not None
    exact = prompt.stages.repeat_interleave(2, dim=0)  # after iterations 2, 4 and 6
    exact[::2] = torch.nan  # iterations between the stages do not count
    assert stage_loss(Trace(predictions=exact), prompt).item() == 0
    shifted = prompt.stages.roll(1, dims=0)
    expected = (shifted - prompt.stages).square().mean()
    torch.testing.assert_close(stage_loss(Trace(predictions=shifted), prompt), expected)
    # a window that begins after the first stage
    last = Trace(predictions=exact[3:], first_step=4)
    assert stage_loss(last, prompt).item() == 0
    with pytest.raises(ValueError, match="a multiple of the 3 stages, got 4"):
        stage_loss(Trace(predictions=exact[:4]), prompt)


def test_validation_and_test_use_other_puzzles_than_training() -> None:
    task = Sudoku()
    tested = evaluation_prompts(task, count=500)
    expected = task.held_out("test").sample(500, generator=torch.Generator().manual_seed(1))
    assert torch.equal(tested.rows, expected.rows)
    valid = evaluation_prompts(task, count=500, split="valid")
    assert not torch.equal(valid.rows, tested.rows)
