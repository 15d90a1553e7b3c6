"""The presentation of puzzles in the explorer: names of symbols and classes, boards and their rules."""

from __future__ import annotations

from math import isqrt
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor

from algoformer.model import AlgoFormer
from algoformer.model.program import default_steps
from algoformer.prompt import Prompt
from algoformer.report.explorer import Puzzle
from algoformer.tasks import Addition, Copy, Hops, Parity, Sudoku, Task
from algoformer.tasks.sudoku_boards import unit_cells
from algoformer.trace import Unroll

PADDING = "·"
"""A row that holds nothing."""


def puzzle_of(task: Task) -> Puzzle:
    """Return how a page shows the prompts of a task whose answers are classes."""
    match task:
        case Sudoku(size=size):
            digits = _numbers(1, size)
            units = tuple(map(tuple, unit_cells(size).tolist()))
            return Puzzle(
                symbols=("", *digits), classes=digits, grid=task.grid, block=isqrt(size), units=units
            )
        case Hops(symbols=count):
            return Puzzle(symbols=_letters(count), classes=(*_letters(count), "none"))
        case Addition():
            return Puzzle(symbols=(*_numbers(0, 9), "+", "?"), classes=_numbers(0, 9))
        case Parity():
            return Puzzle(symbols=("0", "1", PADDING, "?"), classes=("even", "odd"))
        case Copy(symbols=count):
            return Puzzle(symbols=(*_letters(count), "end", PADDING, "|"), classes=(*_letters(count), "end"))
        case _:
            return Puzzle(symbols=_numbers(0, task.dim - 1), classes=_numbers(0, task.out - 1))


def stored_puzzles(model: AlgoFormer, prompt: Prompt) -> tuple[dict[str, Any], ...]:
    """Return prompts as numbers of symbols and classes, those first that the model solves last."""
    prompt = prompt.select(_needed_iterations(model, prompt).argsort(descending=True, stable=True))
    symbols, targets = prompt.rows.argmax(dim=2).tolist(), prompt.targets.argmax(dim=2).tolist()
    return tuple(
        {"symbols": shown, "reads": list(prompt.reads), "targets": wanted}
        for shown, wanted in zip(symbols, targets, strict=True)
    )


@torch.no_grad()
def _needed_iterations(model: AlgoFormer, prompt: Prompt) -> Int[Tensor, " batch"]:
    """Return how many of the trained iterations leave a wrong answer, for each prompt."""
    scores = model(prompt, Unroll(steps=default_steps(model.program))).predictions
    return (scores.argmax(dim=-1) != prompt.targets.argmax(dim=-1)).any(dim=-1).sum(dim=0)


def _numbers(first: int, last: int) -> tuple[str, ...]:
    return tuple(str(number) for number in range(first, last + 1))


def _letters(count: int) -> tuple[str, ...]:
    return tuple("abcdefghijklmnopqrstuvwxyz"[:count]) if count <= 26 else _numbers(0, count - 1)
