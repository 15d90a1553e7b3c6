"""Tables as Markdown."""

from __future__ import annotations

from algoformer.evaluation import Table
from algoformer.report.numbers import show
from algoformer.report.tables import is_text


def markdown_table(table: Table) -> str:
    """The table in Markdown, numbers set to the right; what would end a cell is escaped.

    >>> print(markdown_table(Table(columns=("solver", "error"), rows=(("a|b", 0.25), ("c", None)))))
    | solver | error |
    |---|--:|
    | a\\|b | 0.250 |
    | c | – |
    <BLANKLINE>
    """
    rules = ["---" if is_text(table, place) else "--:" for place in range(len(table.columns))]
    rows = [[show(cell) for cell in row] for row in table.rows]
    lines = [_row(list(table.columns)), f"|{'|'.join(rules)}|", *map(_row, rows)]
    return "\n".join(lines) + "\n"


def _row(cells: list[str]) -> str:
    escaped = (cell.replace("\\", "\\\\").replace("|", "\\|").replace("\n", " ") for cell in cells)
    return f"| {' | '.join(escaped)} |"
