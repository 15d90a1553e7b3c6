"""Write the 9 × 9 puzzles of `Sudoku(size=9)` into the package: `python -m scripts.sudoku_puzzles`.

Each puzzle has one solution and is minimal: without any of its givens it has more. It is found by removing
cells of a random solved grid in a random order, as long as the solution stays unique. A puzzle depends on
its number alone, so that a few of them can be generated again without the others.
"""

from __future__ import annotations

import gzip
from collections.abc import Sequence

import numpy as np
from jaxtyping import Int

from algoformer.tasks.sudoku_boards import GENERATED, solve, unit_cells
from scripts.small_corpora.dice import Dice

COUNT = 2000
"""The number of puzzles in the file."""

CELLS, DIGITS = range(81), range(1, 10)
DIAGONAL = (18, 22, 26)
"""The three boxes on the diagonal among the units of a board: any digits in them can be completed."""


def generate(numbers: Sequence[int]) -> Int[np.ndarray, "board cell"]:
    """Return the puzzles with these numbers, digits 1 to 9 and 0 for empty cells."""
    dice = [Dice(number) for number in numbers]
    boards = _grids(dice)
    for cells in np.array([_shuffled(CELLS, one) for one in dice]).T:
        fewer = boards.copy()
        fewer[np.arange(len(boards)), cells] = 0
        unique = solve(fewer)[1] == 1
        boards[unique] = fewer[unique]
    return boards


def _grids(dice: Sequence[Dice]) -> Int[np.ndarray, "board cell"]:
    """Return random solved grids: random digits in random cells until only one solution is left."""
    boards = np.zeros((len(dice), 81), dtype=np.int64)
    for unit in DIAGONAL:
        boards[:, unit_cells(9)[unit]] = [_shuffled(DIGITS, one) for one in dice]
    orders = [
        _shuffled(np.flatnonzero(board == 0).tolist(), one) for board, one in zip(boards, dice, strict=True)
    ]
    choices = [[_shuffled(DIGITS, one) for _ in order] for order, one in zip(orders, dice, strict=True)]
    place, choice = np.zeros(len(dice), dtype=np.int64), np.zeros(len(dice), dtype=np.int64)
    open_ = np.arange(len(dice))
    while len(open_):
        tried = boards[open_]
        for row, (number, at, which) in enumerate(zip(open_, place[open_], choice[open_], strict=True)):
            tried[row, orders[number][at]] = choices[number][at][which]
        solutions, counts = solve(tried)
        possible = counts > 0
        boards[open_[possible]] = np.where((counts == 1)[:, None], solutions, tried)[possible]
        place[open_] += possible
        choice[open_] = np.where(possible, 0, choice[open_] + 1)
        open_ = open_[counts != 1]
    return boards


def _shuffled(things: Sequence[int], dice: Dice) -> list[int]:
    left, shuffled = list(things), []
    while left:
        chosen = dice.choose(left)
        left.remove(chosen)
        shuffled.append(chosen)
    return shuffled


def as_text(boards: Int[np.ndarray, "board cell"]) -> str:
    """Return one line for each puzzle, with a dot for an empty cell."""
    return "".join("".join(map(str, board)).replace("0", ".") + "\n" for board in boards.tolist())


if __name__ == "__main__":
    text = as_text(generate(range(COUNT)))
    GENERATED.parent.mkdir(exist_ok=True)
    # without a time, so that the same puzzles give the same file
    GENERATED.write_bytes(gzip.compress(text.encode(), mtime=0))
    print(f"{GENERATED}: {GENERATED.stat().st_size:,} bytes")
