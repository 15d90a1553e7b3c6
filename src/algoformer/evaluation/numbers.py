"""Format numbers for tables."""

from __future__ import annotations

import math

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
    return _show_float(cell)


def _show_float(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "∞" if value > 0 else "-∞"
    if value == 0:
        return "0"
    if not 1e-3 <= abs(value) < 1e4:
        digits, _, power = f"{value:.2e}".partition("e")
        return f"{digits}e{int(power)}"
    places = max(0, 2 - math.floor(math.log10(abs(value))))
    return f"{value:.{places}f}"
