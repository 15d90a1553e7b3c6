"""Sudoku: the exact solver, the pools of puzzles, and the files they come from."""

import gzip
from itertools import product
from pathlib import Path

import numpy as np
import pytest
import torch

from algoformer.tasks import Sudoku
from algoformer.tasks.sudoku_boards import GENERATED, small_puzzles, solve, solved_puzzles, unit_cells
from scripts.sudoku_puzzles import COUNT, as_text, every_puzzle, generate

EASY = "53..7....6..195....98....6.8...6...34..8.3..17...2...6.6....28....419..5....8..79"
HARD = "8..........36......7..9.2...5...7.......457.....1...3...1....68..85...1..9....4.."


def board(text: str) -> np.ndarray:
    return np.array([[int(cell) for cell in text.replace(".", "0")]])


def plain_solutions(cells: list[int], size: int) -> list[list[int]]:
    """Every solution by plain backtracking, cell by cell: another way to compute the same."""
    if 0 not in cells:
        whole = all(len({cells[place] for place in unit}) == size for unit in unit_cells(size))
        return [cells] if whole else []  # givens may contradict each other
    place = cells.index(0)
    seen = {cells[other] for unit in unit_cells(size) if place in unit for other in unit}
    found = []
    for digit in range(1, size + 1):
        if digit not in seen:
            found += plain_solutions([*cells[:place], digit, *cells[place + 1 :]], size)
    return found


@pytest.mark.parametrize("text", [EASY, HARD])
def test_a_solution_keeps_the_givens_and_has_every_digit_in_every_unit(text: str) -> None:
    (solution,), (count,) = solve(board(text))
    assert count == 1
    givens = board(text)[0]
    assert (solution == givens)[givens > 0].all()
    assert (np.sort(solution[unit_cells(9)], axis=1) == np.arange(1, 10)).all()


def test_it_finds_as_many_solutions_as_plain_backtracking() -> None:
    generator = np.random.default_rng(0)
    _, solutions = small_puzzles()
    boards = np.where(generator.random((200, 16)) < 0.25, solutions[:200], 0)
    boards[::3, generator.integers(16)] = 1  # some of them contradictory
    _, counts = solve(boards, most=300)
    assert counts.tolist() == [len(plain_solutions(list(cells), 4)) for cells in boards.tolist()]
    assert {0, 1} < set(counts.tolist())


def test_the_small_puzzles_are_minimal_and_complete() -> None:
    puzzles, solutions = small_puzzles()
    found, counts = solve(puzzles)
    assert (counts == 1).all()
    assert (found == solutions).all()
    for place in range(16):
        fewer = puzzles[puzzles[:, place] > 0].copy()
        fewer[:, place] = 0
        assert (solve(fewer)[1] == 2).all()
    # 288 boards in 24 orders of the digits; three givens leave two digits that can be exchanged
    assert len(np.unique(solutions, axis=0)) == 12
    assert (puzzles > 0).sum(axis=1).min() == 4


def renamed(boards: list[list[int]]) -> set[tuple[int, ...]]:
    """Boards with their digits named 1, 2, ... in the order in which they appear."""
    names = []
    for cells in boards:
        order: dict[int, int] = {0: 0}
        names.append(tuple(order.setdefault(cell, len(order)) for cell in cells))
    return set(names)


def test_the_generated_puzzles_are_distinct_minimal_and_have_one_solution() -> None:
    puzzles, solutions = solved_puzzles(str(GENERATED))  # refuses a puzzle without exactly one solution
    assert puzzles.shape == (COUNT, 81)
    assert len(renamed(puzzles.tolist())) == COUNT
    assert ((puzzles == 0) | (puzzles == solutions)).all()
    assert (np.sort(solutions[:, unit_cells(9)], axis=2) == np.arange(1, 10)).all()
    few = np.concatenate(
        [
            np.where(np.arange(81) == place, 0, board)[None]
            for board in puzzles[::100]
            for place in board.nonzero()[0]
        ]
    )
    assert (solve(few)[1] == 2).all()  # the givens that are left have another solution


def test_the_generator_gives_the_puzzles_of_the_data_file() -> None:
    puzzles = solved_puzzles(str(GENERATED))[0]
    numbers = [0, 700, COUNT - 1]
    assert (generate(numbers) == puzzles[numbers]).all()
    with gzip.open(GENERATED, "rt") as file:
        assert as_text(puzzles) == file.read()


def test_all_puzzles_as_prompts_ask_for_their_solutions() -> None:
    prompt = every_puzzle().select(slice(0, COUNT, 50))
    solutions, _ = solve(prompt.rows.argmax(dim=2).numpy())
    assert (prompt.targets.argmax(dim=2).numpy() + 1 == solutions).all()
    assert prompt.classes
    assert prompt.reads == tuple(range(81))


@pytest.mark.parametrize(("size", "least"), [(4, 100), (9, 190)])
def test_the_splits_share_no_puzzle_whatever_the_digits_are_called(size: int, least: int) -> None:
    task = Sudoku(size=size)
    pools = [
        renamed(each.sample(3000, generator=torch.Generator().manual_seed(seed)).rows.argmax(dim=2).tolist())
        for seed, each in enumerate((task, task.held_out("valid"), task.held_out("test")))
    ]
    assert all(len(pool) > least for pool in pools)
    assert not any(one & other for one, other in product(pools, pools) if one is not other)


def test_cells_are_revealed_as_often_as_asked_and_agree_with_the_solution() -> None:
    generator = torch.Generator().manual_seed(0)
    prompt = Sudoku(least=2, most=4).sample(4000, generator=generator)
    bare = Sudoku().sample(4000, generator=torch.Generator().manual_seed(0))
    cells, solution = prompt.rows.argmax(dim=2), prompt.targets.argmax(dim=2) + 1
    assert ((cells == 0) | (cells == solution)).all()
    assert torch.equal(prompt.targets, bare.targets)
    more = (cells > 0).sum(dim=1) - (bare.rows.argmax(dim=2) > 0).sum(dim=1)
    assert set(more.tolist()) == {2, 3, 4}
    assert ((more == 3).float().mean() - 1 / 3).abs() < 0.03


def test_a_fixed_number_of_boards_is_fixed() -> None:
    task = Sudoku(boards=50)
    prompt = task.sample(2000, generator=torch.Generator().manual_seed(0))
    assert len(prompt.rows.argmax(dim=2).unique(dim=0)) == 50


def test_exchanged_boards_are_the_fixed_ones_with_other_digits() -> None:
    task = Sudoku(boards=50, exchange=True)
    prompt = task.sample(2000, generator=torch.Generator().manual_seed(0))
    cells = prompt.rows.argmax(dim=2)
    assert len(cells.unique(dim=0)) > 500
    solutions = prompt.targets.argmax(dim=2) + 1
    assert torch.equal(torch.where(cells > 0, solutions, 0), cells)

    def named(boards: torch.Tensor) -> set[tuple[int, ...]]:
        # digits by the order in which the solution shows them
        first = (boards[:, None] == torch.arange(1, 5)[:, None]).int().argmax(dim=2)
        names = torch.cat([torch.zeros_like(first[:, :1]), first.argsort(dim=1).argsort(dim=1) + 1], dim=1)
        return {tuple(row) for row in names.gather(1, boards).tolist()}

    fixed = Sudoku(boards=50).sample(2000, generator=torch.Generator().manual_seed(0))
    assert named(solutions) == named(fixed.targets.argmax(dim=2) + 1)
    with pytest.raises(ValueError, match="exchange=True with boards=0"):
        Sudoku(exchange=True)


def test_puzzles_are_read_from_text_and_from_gzip(tmp_path: Path) -> None:
    (tmp_path / "plain.txt").write_text(f"# two puzzles\n{EASY}\n\n{HARD.replace('.', '0')}\n")
    with gzip.open(tmp_path / "packed.txt.gz", "wt") as file:
        file.write(f"{EASY}\n{HARD}\n")
    plain, packed = (solved_puzzles(str(tmp_path / name)) for name in ("plain.txt", "packed.txt.gz"))
    assert (plain[0] == packed[0]).all()
    assert (plain[1] == packed[1]).all()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "holds no puzzle"),
        (EASY[:-1], "line 1 of .* is not a puzzle of 81 digits or dots"),
        (EASY + "\n" + EASY.replace("7", "x"), "line 2 of .* is not a puzzle"),
        ("55" + EASY[2:], "puzzle 1 of .* has no solution; remove it"),
        ("." * 81, "puzzle 1 of .* has more than one solution; remove it"),
        (f"{EASY}\n{HARD}\n", "holds 2 puzzles, too few to hold some out"),
    ],
)
def test_a_wrong_file_is_refused_in_one_line(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "puzzles.txt"
    path.write_text(text)
    with pytest.raises(ValueError, match=message):
        Sudoku(size=9, puzzles=str(path)).sample(1, generator=torch.Generator())


def test_a_missing_or_binary_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "broken.gz").write_bytes(b"\x1f\x8b\x08 no")
    for name in ("broken.gz", "missing.txt"):
        with pytest.raises(ValueError, match=f"puzzles: .*{name}.* cannot be read"):
            Sudoku(size=9, puzzles=str(tmp_path / name)).sample(1, generator=torch.Generator())


def test_a_given_file_is_read_instead_of_the_library_s_own_puzzles(tmp_path: Path) -> None:
    path = tmp_path / "puzzles.txt"
    # the same puzzle three times: any board of any split is this one with other digits
    path.write_text(f"{EASY}\n" * 3)
    prompt = Sudoku(size=9, puzzles=str(path)).sample(8, generator=torch.Generator().manual_seed(0))
    assert renamed(prompt.rows.argmax(dim=2).tolist()) == renamed(board(EASY).tolist())


@pytest.mark.usefixtures("as_a_user")
def test_impossible_settings_are_refused() -> None:
    for settings, message in (
        ({"size": 5}, "size must be 4 or 9, got 5"),
        ({"puzzles": "x"}, "size=4 with puzzles='x': a file holds boards of size 9; leave puzzles out"),
        ({"least": 3, "most": 2}, "most must be at least 3"),
        ({"split": "all"}, "split"),
    ):
        with pytest.raises(ValueError, match=message):
            Sudoku(**settings)  # type: ignore[arg-type]
