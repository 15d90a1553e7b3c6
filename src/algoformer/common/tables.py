"""Tables of numbers and words, for terminals, pages and files."""

from __future__ import annotations

import math
from dataclasses import dataclass

from algoformer.common.terminal import printable

Cell = str | int | float | None
"""A cell of a table; None is a number that was not measured."""


def show(cell: Cell) -> str:
    """Format a cell: three significant digits, thousands separated, a dash for None.

    >>> [show(cell) for cell in (None, 0.25412, 4.04e-4, 2371584, 13, 1.0, float("nan"), "newton")]
    ['–', '0.254', '4.04e-4', '2,371,584', '13', '1.00', 'NaN', 'newton']
    """
    if cell is None:
        return "–"
    if isinstance(cell, str):
        return cell
    if isinstance(cell, int):
        return f"{cell:,}"
    if math.isnan(cell):
        return "NaN"
    if math.isinf(cell):
        return "∞" if cell > 0 else "-∞"
    if cell == 0:
        return "0"
    if not 1e-3 <= abs(cell) < 1e4:
        digits, _, power = f"{cell:.2e}".partition("e")
        return f"{digits}e{int(power)}"
    places = max(0, 2 - math.floor(math.log10(abs(cell))))
    return f"{cell:.{places}f}"


@dataclass(frozen=True, kw_only=True)
class Table:
    """Rows under named columns; `str` formats them for a terminal.

    >>> table = Table(columns=("solver", "error"), rows=(("newton", 1e-4), ("zero", 1.0)))
    >>> table.column("error")
    (0.0001, 1.0)
    >>> print(table)
    solver    error
    newton  1.00e-4
    zero       1.00
    """

    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    title: str = ""
    note: str = ""

    def __post_init__(self) -> None:
        if not self.columns:
            raise ValueError("a table has at least one column")
        for row in self.rows:
            if len(row) != len(self.columns):
                raise ValueError(f"{len(self.columns)} columns need as many cells in a row, got {row}")

    def __str__(self) -> str:
        cells = [list(self.columns), *([show(cell) for cell in row] for row in self.rows)]
        lines = [[printable(cell) for cell in row] for row in cells]
        widths = [max(len(row[place]) for row in lines) for place in range(len(self.columns))]
        shown = [
            "  ".join(
                cell.ljust(width) if self.is_text(place) else cell.rjust(width)
                for place, (cell, width) in enumerate(zip(row, widths, strict=True))
            ).rstrip()
            for row in lines
        ]
        return "\n".join([*([printable(self.title)] if self.title else []), *shown])

    def is_text(self, place: int) -> bool:
        """Return whether a column holds text, which is aligned left."""
        return any(isinstance(row[place], str) for row in self.rows)

    def column(self, name: str) -> tuple[Cell, ...]:
        """Return the cells under one heading."""
        if name not in self.columns:
            raise ValueError(f"no column {name!r}; there are {', '.join(self.columns)}")
        return tuple(row[self.columns.index(name)] for row in self.rows)
