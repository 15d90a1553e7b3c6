"""Print tables to standard output."""

from __future__ import annotations

from dataclasses import replace

from algoformer.common.tables import Table
from algoformer.common.terminal import printable

PIPE_WIDTH = 160
"""Characters in a line where standard output is not a terminal."""


def say(table: Table) -> None:
    """Print a table. On a terminal, columns that do not fit go below the others; no name is cut."""
    from rich.console import Console
    from rich.text import Text

    from algoformer.report.tables import fitted, terminal_table

    console = Console(highlight=False)
    if not console.is_terminal:
        console = Console(highlight=False, width=PIPE_WIDTH)
    *above, last = fitted(table, console.width)
    for part in above:
        console.print(terminal_table(part))
    note = last.note if above else ""  # the last columns may be too few for its words
    console.print(terminal_table(replace(last, note="") if note else last))
    if note:
        console.print(Text(printable(note), style="dim"))
