"""Write tables as Markdown."""

from __future__ import annotations

from html import escape

from algoformer.common.terminal import printable
from algoformer.evaluation import Table
from algoformer.evaluation.numbers import show


def markdown_table(table: Table) -> str:
    """Return the table in Markdown, numbers aligned right; HTML and column separators are escaped.

    >>> print(markdown_table(Table(columns=("solver", "error"), rows=(("a|b", 0.25), ("c", None)))))
    | solver | error |
    |---|--:|
    | a\\|b | 0.250 |
    | c | – |
    <BLANKLINE>
    """
    rules = ["---" if table.is_text(place) else "--:" for place in range(len(table.columns))]
    rows = [[show(cell) for cell in row] for row in table.rows]
    lines = [_row(list(table.columns)), f"|{'|'.join(rules)}|", *map(_row, rows)]
    return "\n".join(lines) + "\n"


def _row(cells: list[str]) -> str:
    return f"| {' | '.join(_escaped(cell) for cell in cells)} |"


def _escaped(cell: str) -> str:
    text = printable(cell.replace("\n", " ").replace("\\", "\\\\"))
    return escape(text, quote=False).replace("|", "\\|")
