"""Sudoku boards: an exact solver for many boards at once, files of puzzles, and all 4 × 4 boards."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from functools import lru_cache
from itertools import permutations, product
from pathlib import Path

import numpy as np
from jaxtyping import Bool, Int, UInt16

from algoformer.common.terminal import short

GENERATED = Path(__file__).parent / "data" / "sudoku.txt.gz"
"""The 9 × 9 puzzles of the library; `scripts/sudoku_puzzles.py` of the repository generates them."""

MAX_PUZZLES = 2_000_000
"""The largest number of puzzles that a file may hold."""

LONGEST_LINE = 1000
"""The number of characters of a line that are read; a puzzle has 81."""

AT_ONCE = 1024
"""Boards that are worked on at the same time."""

_BITS = np.array(list(map(int.bit_count, range(1 << 9))))


@lru_cache
def unit_cells(size: int) -> Int[np.ndarray, "unit place"]:
    """Return the cells of every row, column and box of a board; cells are numbered by row."""
    side = int(size**0.5)
    row, column = np.divmod(np.arange(size * size), size)
    box = row // side * side + column // side
    return np.stack([np.flatnonzero(of == number) for of in (row, column, box) for number in range(size)])


def solve(
    boards: Int[np.ndarray, "board cell"], *, most: int = 2
) -> tuple[Int[np.ndarray, "board cell"], Int[np.ndarray, " board"]]:
    """Solve many boards by propagation of constraints and branching, all boards at the same time.

    Args:
        boards: digits 1, 2, ... and 0 for an empty cell.
        most: stop counting the solutions of a board at this number.

    Returns:
        A solution of each board (zeros where there is none), and the number of solutions, at most `most`.
    """
    size = int(boards.shape[1] ** 0.5)
    bits = np.array([(1 << size) - 1, *(1 << np.arange(size))], dtype=np.uint16)
    solutions, counts = np.zeros_like(boards), np.zeros(len(boards), dtype=np.int64)
    waiting = np.arange(len(boards)), bits[boards]
    while len(waiting[0]):
        # the newest branches first, so that few boards wait however many branches there are
        owner, candidates = waiting[0][-AT_ONCE:], waiting[1][-AT_ONCE:]
        waiting = waiting[0][:-AT_ONCE], waiting[1][:-AT_ONCE]
        candidates = _propagate(candidates, size)
        possible = _BITS[candidates]
        alive = (possible > 0).all(axis=1)
        done = alive & (possible == 1).all(axis=1)
        digits = np.log2(candidates[done]).astype(np.int64) + 1
        for board, cells in zip(owner[done], digits, strict=True):
            if counts[board] < most:
                solutions[board], counts[board] = cells, counts[board] + 1
        alive &= ~done & (counts[owner] < most)
        owner, candidates = _branch(owner[alive], candidates[alive], size)
        waiting = np.concatenate([waiting[0], owner]), np.concatenate([waiting[1], candidates])
    return solutions, counts


def _propagate(candidates: UInt16[np.ndarray, "board cell"], size: int) -> UInt16[np.ndarray, "board cell"]:
    """Remove digits that a neighbour has, and place digits that fit into one cell of a unit only.

    A set of candidates is a number with one bit for each digit. A contradictory board becomes all zeros.
    """
    result, active = candidates.copy(), np.arange(len(candidates))
    while len(active):
        now = result[active]
        result[active] = new = propagate_once(now, size)
        active = active[(new != now).any(axis=1) & new.any(axis=1)]
    return result


def propagate_once(
    candidates: UInt16[np.ndarray, "board cell"], size: int
) -> UInt16[np.ndarray, "board cell"]:
    """Apply both rules of `_propagate` once, to all cells at the same time."""
    members, units_of = unit_cells(size), _units_of(size)
    single = np.where(_BITS[candidates] == 1, candidates, 0).astype(np.uint16)
    seen, twice = _once_and_twice(candidates[:, members])
    placed, clash = _once_and_twice(single[:, members])
    taken = np.bitwise_or.reduce(placed[:, units_of], axis=2) & ~single
    only = candidates & np.bitwise_or.reduce((seen & ~twice)[:, units_of], axis=2)
    new = np.where(only != 0, only, candidates & ~taken)
    dead = (clash != 0).any(axis=1) | (seen != (1 << size) - 1).any(axis=1) | (new == 0).any(axis=1)
    new[dead] = 0
    return new


@lru_cache
def _units_of(size: int) -> Int[np.ndarray, "cell 3"]:
    members = unit_cells(size)
    return np.stack([np.flatnonzero((members == cell).any(axis=1)) for cell in range(size * size)])


def _once_and_twice(
    inside: UInt16[np.ndarray, "board unit place"],
) -> tuple[UInt16[np.ndarray, "board unit"], UInt16[np.ndarray, "board unit"]]:
    """Return the digits that are candidates of at least one cell of a unit, and of at least two."""
    once, twice = np.zeros_like(inside[..., 0]), np.zeros_like(inside[..., 0])
    for place in range(inside.shape[-1]):
        twice |= once & inside[..., place]
        once |= inside[..., place]
    return once, twice


def _branch(
    owner: Int[np.ndarray, " board"], candidates: UInt16[np.ndarray, "board cell"], size: int
) -> tuple[Int[np.ndarray, " branch"], UInt16[np.ndarray, "branch cell"]]:
    """Replace each board by one for each digit of its cell with the fewest candidates above one."""
    possible = _BITS[candidates]
    cell = np.where(possible > 1, possible, size + 1).argmin(axis=1)
    digits = (1 << np.arange(size)).astype(np.uint16)
    board, digit = np.nonzero(candidates[np.arange(len(owner)), cell][:, None] & digits)
    branches = candidates[board]
    branches[np.arange(len(board)), cell[board]] = digits[digit]
    return owner[board], branches


def read_puzzles(path: str | Path) -> Int[np.ndarray, "board cell"]:
    """Read a text file, or a gzip of one, with one puzzle a line: 81 characters, "." or "0" for empty cells.

    Raises:
        ValueError: the file does not exist, is not text, or a line is not a puzzle; the line is named.
    """
    path, lines = Path(path), []
    try:
        opened = gzip.open if path.suffix == ".gz" else open
        with opened(path, "rt", encoding="ascii") as file:
            # a line is read up to a bound, so that a damaged file cannot fill the memory
            for number, line in enumerate(iter(lambda: file.readline(LONGEST_LINE), ""), start=1):
                if not (line := line.strip()) or line.startswith("#"):
                    continue
                if len(line) != 81 or not set(line) <= set(".0123456789"):
                    raise ValueError(
                        f"puzzles: line {number} of {short(str(path))} is not a puzzle of 81 digits or dots: "
                        f"{short(line)}"
                    )
                lines.append(line)
                if len(lines) > MAX_PUZZLES:
                    raise ValueError(
                        f"puzzles: {short(str(path))} has more than {MAX_PUZZLES:,} puzzles; split it"
                    )
    except (OSError, EOFError, UnicodeDecodeError, zlib.error) as error:
        raise ValueError(f"puzzles: {short(str(path))} cannot be read: {short(str(error))}") from None
    if not lines:
        raise ValueError(f"puzzles: {short(str(path))} holds no puzzle")
    text = "".join(lines).replace(".", "0").encode()
    return (np.frombuffer(text, dtype=np.uint8) - ord("0")).reshape(-1, 81).astype(np.int64)


@lru_cache(maxsize=2)
def solved_puzzles(path: str) -> tuple[Int[np.ndarray, "board cell"], Int[np.ndarray, "board cell"]]:
    """Return the puzzles of a file and their solutions; refuse a puzzle without one, or with several."""
    puzzles = read_puzzles(path)
    solutions, counts = solve(puzzles)
    if (counts != 1).any():
        wrong = int(np.flatnonzero(counts != 1)[0])
        found = "no solution" if counts[wrong] == 0 else "more than one solution"
        raise ValueError(f"puzzles: puzzle {wrong + 1} of {short(path)} has {found}; remove it")
    return puzzles, solutions


@lru_cache(maxsize=1)
def small_puzzles() -> tuple[Int[np.ndarray, "board 16"], Int[np.ndarray, "board 16"]]:
    """Return every minimal 4 × 4 puzzle whose solution begins with 1 2 3 4, and its solution.

    A puzzle is minimal if it has one solution and loses that property with any of its givens. All other
    minimal puzzles arise from these by exchanging digits.
    """
    rows = list(permutations(range(1, 5)))
    boards = np.array([rows[0] + sum(rest, ()) for rest in product(rows, repeat=3)])
    boards = boards[(np.sort(boards[:, unit_cells(4)], axis=2) == rows[0]).all(axis=(1, 2))]
    # every board is one of these with its digits exchanged: a puzzle is a set of cells of one board that no
    # other board agrees with, whatever its digits are called
    every = np.concatenate([np.array((0, *order))[boards] for order in rows])
    masks = (np.arange(1 << 16)[:, None] >> np.arange(16) & 1).astype(bool)
    masks = masks[(masks.sum(axis=1) >= 4) & (masks.sum(axis=1) <= 6)]
    puzzles, solutions = [], []
    for board in boards:
        differs = (every != board).astype(np.float32)
        differs = differs[differs.any(axis=1)]
        missed = masks.astype(np.float32) @ differs.T  # how many givens tell each other board apart
        unique = masks[(missed > 0).all(axis=1)]
        known = {mask.tobytes() for mask in unique}
        minimal = [mask for mask in unique if not any(each.tobytes() in known for each in _smaller(mask))]
        puzzles += [np.where(mask, board, 0) for mask in minimal]
        solutions += [board] * len(minimal)
    return np.array(puzzles), np.array(solutions)


def _smaller(mask: Bool[np.ndarray, " cell"]) -> Iterator[Bool[np.ndarray, " cell"]]:
    """Return the masks with one cell less."""
    for cell in np.flatnonzero(mask):
        smaller = mask.copy()
        smaller[cell] = False
        yield smaller
