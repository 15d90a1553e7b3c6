"""Sudoku: complete a board."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from algoformer.common.names import check_choice
from algoformer.common.plain_data import check_count
from algoformer.common.terminal import short
from algoformer.tasks.sudoku_boards import GENERATED, propagate_once, small_puzzles, solved_puzzles
from algoformer.tasks.symbols import Shape, SymbolTask

Split = Literal["train", "valid", "test"]

Boards = tuple[Int[Tensor, "batch cell"], Int[Tensor, "batch cell"]]
"""Cells as they are shown, 0 where they are empty, and the classes of their digits."""

HELD_OUT = {"test": 10_000, "valid": 1_000}
"""Puzzles of a file that are held out, as in Palm et al. (2018); at most a fifth and a tenth of it."""


@dataclass(frozen=True, kw_only=True)
class Sudoku(SymbolTask):
    """Boards of Sudoku: every cell is a row of the prompt and a question, and all cells attend to all.

    Boards follow the protocol of Palm et al. (2018, "Recurrent Relational Networks"): a puzzle of the pool,
    with its digits exchanged at random, and some further cells of its solution revealed. The pool of 9 × 9
    puzzles is that of the library, 2,000 generated minimal puzzles, or a file with one puzzle a line.
    Training, validation and test draw from different puzzles.

    Attributes:
        size: 9, or 4 for boards of 4 × 4 cells.
        puzzles: the path of a file of 9 × 9 puzzles with one solution each; empty for the library's own.
        least: the least number of cells that are revealed besides a puzzle's own givens.
        most: the largest number of them.
        boards: the number of distinct boards of the split; 0 draws a new board every time.
        exchange: exchange the digits of a distinct board at random every time it is drawn.
        split: "train", "valid" or "test".

    >>> prompt = Sudoku(size=4).sample(2, generator=torch.Generator().manual_seed(0))
    >>> prompt.rows.shape, prompt.targets.shape
    (torch.Size([2, 16, 5]), torch.Size([2, 16, 4]))
    """

    size: int = 4
    puzzles: str = ""
    least: int = 0
    most: int = 0
    boards: int = 0
    exchange: bool = False
    split: Split = "train"

    def __post_init__(self) -> None:
        if self.size not in (4, 9):
            raise ValueError(f"size must be 4 or 9, got {short(self.size)}")
        if self.size == 4 and self.puzzles:
            raise ValueError(
                f"size=4 with puzzles={short(self.puzzles)}: a file holds boards of size 9; "
                "leave puzzles out, or set size=9"
            )
        check_count("least", self.least, 0, self.context)
        check_count("most", self.most, self.least, self.context)
        check_count("boards", self.boards, 0)
        if self.exchange and not self.boards:
            raise ValueError(
                "exchange=True with boards=0: new boards have their digits exchanged; leave it out"
            )
        check_choice("split", self.split, ("train", "valid", "test"))

    @property
    def shape(self) -> Shape:
        """A row for each cell, which is empty or holds a digit; every cell is a question."""
        cells = self.size * self.size
        return Shape(symbols=self.size + 1, classes=self.size, rows=cells, questions=cells)

    @property
    def grid(self) -> tuple[int, int]:
        """The rows and columns in which a picture shows the answers."""
        return self.size, self.size

    def held_out(self, split: Split) -> Sudoku:
        """Return the task on other puzzles: those of validation or of the test."""
        return replace(self, split=split, boards=0, exchange=False)

    def _symbols(self, batch: int, generator: torch.Generator) -> Boards:
        if not self.boards:
            return self._new_boards(batch, generator)
        cells, digits = _fixed_boards(self, str(generator.device))
        index = torch.randint(self.boards, (batch,), generator=generator, device=generator.device)
        if not self.exchange:
            return cells[index], digits[index]
        return _exchange_digits(cells[index], digits[index] + 1, self.size, generator)

    def _new_boards(self, batch: int, generator: torch.Generator) -> Boards:
        device = generator.device
        puzzles, solutions = _pool(self.size, self.puzzles, self.split, str(device))
        index = torch.randint(len(puzzles), (batch,), generator=generator, device=device)
        cells, answers = _exchange_digits(puzzles[index], solutions[index], self.size, generator)
        # the first `count` empty cells in a random order are revealed; givens come last in that order
        score = torch.rand(batch, self.context, generator=generator, device=device) + (cells > 0)
        rank = score.argsort(dim=1).argsort(dim=1)
        count = torch.randint(self.least, self.most + 1, (batch, 1), generator=generator, device=device)
        return torch.where(rank < count, answers + 1, cells), answers

    def _steps(self, symbols: Int[Tensor, "batch cell"]) -> Iterator[Int[Tensor, "batch cell"]]:
        """Run constraint propagation: at every iteration, cells and digits with one possibility are set.

        It does not guess, so that it leaves cells open on harder puzzles; an open cell is answered with its
        smallest candidate.
        """
        cells = symbols.cpu().numpy()
        candidates = np.where(cells > 0, 1 << (cells - 1), (1 << self.size) - 1)
        while True:
            candidates = propagate_once(candidates.astype(np.uint16), self.size)
            smallest = torch.from_numpy(np.log2(np.maximum(candidates & -candidates.astype(np.int64), 1)))
            yield smallest.long().to(symbols.device)


def _exchange_digits(
    cells: Int[Tensor, "batch cell"],
    solutions: Int[Tensor, "batch cell"],
    size: int,
    generator: torch.Generator,
) -> Boards:
    """Give every board its digits in a random order of its own."""
    order = torch.rand(len(cells), size, generator=generator, device=cells.device).argsort(dim=1) + 1
    digits = torch.cat([torch.zeros_like(order[:, :1]), order], dim=1)
    return digits.gather(1, cells), digits.gather(1, solutions) - 1


@lru_cache(maxsize=8)
def _pool(size: int, path: str, split: str, device: str) -> tuple[Tensor, Tensor]:
    puzzles, solutions = small_puzzles() if size == 4 else solved_puzzles(path or str(GENERATED))
    order = np.random.default_rng(0).permutation(len(puzzles))
    test = max(1, min(HELD_OUT["test"], len(order) // 5))
    valid = max(1, min(HELD_OUT["valid"], len(order) // 10))
    parts = np.split(order, [test, test + valid])
    places = parts[("test", "valid", "train").index(split)]
    if not len(places):
        raise ValueError(
            f"puzzles: {short(path)} holds {len(order)} puzzles, too few to hold some out; give at least 3"
        )
    with torch.inference_mode(False):
        return torch.from_numpy(puzzles[places]).to(device), torch.from_numpy(solutions[places]).to(device)


@lru_cache(maxsize=4)
def _fixed_boards(task: Sudoku, device: str) -> Boards:
    generator = torch.Generator("cpu").manual_seed(["train", "valid", "test"].index(task.split))
    with torch.inference_mode(False):
        cells, digits = task._new_boards(task.boards, generator)
        return cells.to(device), digits.to(device)
