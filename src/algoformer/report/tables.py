"""Show tables in a terminal and in Markdown."""

from __future__ import annotations

from dataclasses import replace
from html import escape
from typing import TYPE_CHECKING, Any

from algoformer.common.tables import Table, show
from algoformer.common.terminal import printable

if TYPE_CHECKING:
    from rich.table import Table as RichTable
else:
    RichTable = Any


def terminal_table(table: Table) -> RichTable:
    """Return the table for a rich console, with markup and control characters in cells shown as text.

    >>> from rich.console import Console
    >>> table = Table(columns=("solver", "error"), rows=(("newton", 0.25), ("[red]", None)))
    >>> Console(width=40).print(terminal_table(table))
     solver   error
    ────────────────
     newton   0.250
     [red]        –
    """
    # imported here so that `import algoformer` does without rich
    from rich import box
    from rich.table import Table as Rich
    from rich.text import Text

    drawn = Rich(
        box=box.SIMPLE_HEAD,
        show_edge=False,
        title=Text(printable(table.title), style="bold") if table.title else None,
        title_justify="left",
        caption=Text(printable(table.note), style="dim") if table.note else None,
        caption_justify="left",
    )
    for place, name in enumerate(table.columns):
        justify: Any = "left" if table.is_text(place) else "right"
        # a long name may continue on the next line, but neither a name nor a number is ever cut
        heading = Text(printable(name))
        drawn.add_column(heading, justify=justify, no_wrap=justify == "right", overflow="fold")
    for row in table.rows:
        drawn.add_row(*(Text(printable(show(cell))) for cell in row))
    return drawn


GAP = 3
"""Characters that a terminal table puts around a column."""

NAME = 32
"""A first column wider than this is broken into lines before other columns are moved out of the table."""


def fitted(table: Table, width: int) -> list[Table]:
    """Split a table that is wider than the terminal: further columns go below, under the same first column.

    >>> wide = Table(columns=("solver", "error", "seconds"), rows=(("newton", 0.25, 1.5),))
    >>> [part.columns for part in fitted(wide, 20)]
    [('solver', 'error'), ('solver', 'seconds')]
    """
    broad = [
        GAP + max(len(name), *(len(show(row[place])) for row in table.rows), 0)
        for place, name in enumerate(table.columns)
    ]
    first = min(broad[0], NAME + GAP)
    groups: list[list[int]] = [[]]
    room = width - first
    for place in range(1, len(broad)):
        if groups[-1] and broad[place] > room:
            groups.append([])
            room = width - first
        groups[-1].append(place)
        room -= broad[place]
    if len(groups) == 1:
        return [table]
    parts = [
        Table(
            columns=tuple(table.columns[place] for place in (0, *group)),
            rows=tuple(tuple(row[place] for place in (0, *group)) for row in table.rows),
        )
        for group in groups
    ]
    parts[0] = replace(parts[0], title=table.title)
    parts[-1] = replace(parts[-1], note=table.note)
    return parts


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
