"""Write the 9 × 9 puzzles of `Sudoku(size=9)` into the package: `python -m scripts.sudoku_puzzles`.

Each puzzle has one solution and is minimal: without any of its givens it has more. It is found by removing
cells of a random solved grid in a random order, as long as the solution stays unique. A puzzle depends on
its number alone, so that a few of them can be generated again without the others.

`python -m scripts.sudoku_puzzles --measure MODEL` writes nothing, and prints the share of all these puzzles
that a model solves, each once and with its own digits. It is for models that were trained on other puzzles.
"""

from __future__ import annotations

import argparse
import gzip
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from jaxtyping import Int

from algoformer.evaluation import errors_at
from algoformer.prompt import Prompt
from algoformer.shipped import load
from algoformer.tasks import Sudoku
from algoformer.tasks.sudoku_boards import GENERATED, solve, solved_puzzles, unit_cells
from algoformer.tasks.symbols import one_hot
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


def every_puzzle() -> Prompt:
    """Return all puzzles of the file as one batch of prompts."""
    puzzles, solutions = map(torch.from_numpy, solved_puzzles(str(GENERATED)))
    rows, targets = one_hot(puzzles, 10, torch.float32), one_hot(solutions - 1, 9, torch.float32)
    prompt = Sudoku(size=9).sample(1, generator=torch.Generator().manual_seed(0))
    return replace(prompt, rows=rows, targets=targets, clean=targets)


def measure(model: str, depths: Sequence[int]) -> None:
    """Print the shares of solved puzzles: those of a model by depth, and that of constraint propagation."""
    prompt, propagation = every_puzzle(), Sudoku(size=9).textbook()
    solvers = [(model, load(model).model, depths), ("propagation", propagation, (81,))]
    for name, solver, steps in solvers:
        unsolved = errors_at(solver, prompt, depths=steps)["clean"].unsolved
        assert unsolved is not None
        for depth, error, low, high in zip(
            unsolved.x, unsolved.error, unsolved.low, unsolved.high, strict=True
        ):
            print(f"{name}, {depth:g} iterations: {1 - error:.2%} ({1 - high:.2%} to {1 - low:.2%})")


def write() -> None:
    """Generate the puzzles and write their file."""
    text = as_text(generate(range(COUNT)))
    GENERATED.parent.mkdir(exist_ok=True)
    # without a time, so that the same puzzles give the same file
    GENERATED.write_bytes(gzip.compress(text.encode(), mtime=0))
    print(f"{GENERATED}: {GENERATED.stat().st_size:,} bytes")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--measure", metavar="MODEL", help="A shipped model, file or run folder.")
    parser.add_argument("--depths", type=int, nargs="+", default=[32, 64, 128])
    chosen = parser.parse_args()
    if chosen.measure:
        measure(chosen.measure, chosen.depths)
    else:
        write()
