"""Tasks on sequences and matrices, against their definitions computed another way."""

import pytest
import torch

from algoformer.prompt import Prompt
from algoformer.tasks import Addition, ChainOfSolves, Copy, Hops, LeadingEigenvector, LinearSystem, Parity
from algoformer.tasks.matrices import random_rotations
from algoformer.tasks.symbols import PuzzleTask
from algoformer.trace import Unroll


def drawn(task: PuzzleTask, batch: int = 200, seed: int = 0) -> Prompt:
    generator = torch.Generator().manual_seed(seed)
    prompt: Prompt = task.sample(batch, generator=generator, dtype=torch.float64)  # type: ignore[attr-defined]
    return prompt


def symbols(prompt: Prompt) -> list[list[int]]:
    found: list[list[int]] = prompt.rows.argmax(dim=2).tolist()
    return found


def answers(prompt: Prompt) -> list[list[int]]:
    found: list[list[int]] = prompt.targets.argmax(dim=2).tolist()
    return found


@pytest.mark.parametrize("every_row", [False, True])
def test_hops_follow_the_latest_earlier_occurrence(every_row: bool) -> None:
    prompt = drawn(Hops(length=12, symbols=3, hops=3, every_row=every_row))
    assert prompt.stages is not None
    stages = prompt.stages.argmax(dim=3)
    for number, (row, given) in enumerate(zip(symbols(prompt), answers(prompt), strict=True)):
        starts = range(len(row)) if every_row else [len(row) - 1]
        for question, (start, answer) in enumerate(zip(starts, given, strict=True)):
            place: int | None = start
            for hop in range(3):
                earlier = [j for j in range(place) if row[j] == row[place]] if place is not None else []
                place = earlier[-1] + 1 if earlier else None
                assert stages[hop, number, question] == (3 if place is None else row[place])
            assert answer == (3 if place is None else row[place])
    assert {answer for given in answers(prompt) for answer in given} == {0, 1, 2, 3}


def test_addition_is_that_of_integers() -> None:
    task = Addition(numbers=5, digits=3)
    prompt = drawn(task)
    assert task.points == 4  # 5 · 999 = 4995
    for row, digits in zip(symbols(prompt), answers(prompt), strict=True):
        text = "".join("0123456789+?"[symbol] for symbol in row)
        numbers = text.rstrip("?").split("+")
        assert [len(number) for number in numbers] == [3] * 5
        assert sum(map(int, numbers)) == int("".join(map(str, digits)))
    assert prompt.stages is not None
    first, second = (
        int("".join(map(str, prompt.stages[stage, 0].argmax(dim=1).tolist()))) for stage in (0, 1)
    )
    assert [first, second - first] == [
        int("".join(map(str, symbols(prompt)[0][start : start + 3]))) for start in (0, 4)
    ]


def test_parity_counts_the_bits_that_are_shown() -> None:
    prompt = drawn(Parity(length=6, least=2), batch=1000)
    lengths = set()
    for row, (answer,) in zip(symbols(prompt), answers(prompt), strict=True):
        assert row[-1] == 3
        bits = [symbol for symbol in row[:-1] if symbol != 2]
        assert row[: -1 - len(bits)] == [2] * (6 - len(bits))
        lengths.add(len(bits))
        assert answer == sum(bits) % 2
    assert lengths == {2, 3, 4, 5, 6}


@pytest.mark.parametrize("task", [Parity(length=6), Hops(hops=6), Addition(numbers=6)])
def test_stages_are_what_the_textbook_algorithm_answers(task: PuzzleTask) -> None:
    prompt = drawn(task)
    assert prompt.stages is not None
    answered = task.textbook()(prompt, Unroll(steps=6)).predictions
    assert torch.equal(answered, prompt.stages)
    assert torch.equal(prompt.stages[-1], prompt.targets)


def test_a_copy_repeats_the_sequence_and_ends() -> None:
    prompt = drawn(Copy(length=5, symbols=3))
    for row, copy in zip(symbols(prompt), answers(prompt), strict=True):
        sequence = [symbol for symbol in row[:5] if symbol != 4]
        assert row[5] == 5
        assert copy == sequence + [3] * (6 - len(sequence))
        assert row[6:] == copy[:-1]


def test_rotations_are_orthogonal_and_uniform() -> None:
    frames = random_rotations(40_000, 3, torch.Generator().manual_seed(0))
    torch.testing.assert_close(frames.mT @ frames, torch.eye(3).double().expand_as(frames))
    # a uniform unit vector in three dimensions has E[x²] = 1/3 and E[x⁴] = 1/5
    torch.testing.assert_close(
        frames.square().mean(dim=0), torch.full((3, 3), 1 / 3).double(), atol=0.01, rtol=0
    )
    torch.testing.assert_close(
        frames.pow(4).mean(dim=0), torch.full((3, 3), 1 / 5).double(), atol=0.01, rtol=0
    )
    assert frames.mean(dim=0).abs().max() < 0.015


def test_a_system_is_solved_and_its_scale_is_the_error_of_answering_zero() -> None:
    task = LinearSystem(size=5, smallest=0.5, largest=3.0)
    prompt = drawn(task, batch=20_000)
    matrix, right = prompt.rows[..., :5], prompt.rows[..., 5:]
    torch.testing.assert_close(torch.linalg.solve(matrix, right), prompt.targets)
    values = torch.linalg.eigvalsh(matrix)
    assert 0.5 <= values.min() < values.max() <= 3.0
    assert prompt.targets.square().mean().item() == pytest.approx(task.scale, rel=0.02)


def test_conjugate_gradients_end_after_as_many_steps_as_rows() -> None:
    task = LinearSystem(size=6, smallest=0.1, largest=10.0)
    prompt = drawn(task)
    errors = (
        (task.textbook()(prompt, Unroll(steps=6)).predictions - prompt.targets).square().mean(dim=(1, 2, 3))
    )
    assert errors[-1] < 1e-12
    assert (errors[:-1] > 1e-6).all()


def test_the_leading_eigenvector_is_that_of_the_largest_eigenvalue() -> None:
    task = LeadingEigenvector(size=5, largest=0.6)
    prompt = drawn(task)
    matrix, start = prompt.rows[..., :5], prompt.rows[..., 5:]
    values, vectors = torch.linalg.eigh(matrix)
    torch.testing.assert_close(values[:, -1], torch.ones(200).double())
    assert values[:, -2].max() <= 0.6
    torch.testing.assert_close(
        (vectors[..., -1:] * prompt.targets).sum(dim=1).abs(), torch.ones(200, 1).double()
    )
    assert ((start * prompt.targets).sum(dim=1) > 0).all()
    assert prompt.targets.square().mean().item() == pytest.approx(task.scale)


def test_a_chain_of_solves_keeps_every_round() -> None:
    prompt = drawn(ChainOfSolves(size=4, rounds=3))
    matrix, state = prompt.rows[..., :4], prompt.rows[..., 4:]
    assert prompt.stages is not None
    for stage in prompt.stages:
        state = torch.tanh(2 * torch.linalg.solve(matrix, state))
        torch.testing.assert_close(stage, state)
    torch.testing.assert_close(prompt.targets, state)


def test_impossible_sizes_are_refused() -> None:
    for build, message in (
        (lambda: Hops(length=4, hops=5), "hops must be at most 4"),
        (lambda: Addition(digits=0), "digits must be at least 1"),
        (lambda: Parity(length=3, least=4), "least must be at most 3"),
        (lambda: Copy(symbols=1), "symbols must be at least 2"),
        (lambda: LinearSystem(smallest=3.0, largest=1.0), "smallest=3.0 is above largest=1.0"),
        (lambda: LeadingEigenvector(largest=1.0), "largest=1.0 must satisfy"),
        (lambda: ChainOfSolves(rounds=0), "rounds must be at least 1"),
    ):
        with pytest.raises(ValueError, match=message):
            build()
