"""Print tables to standard output."""

from __future__ import annotations

from algoformer.common.tables import Table

PIPE_WIDTH = 160
"""Characters in a line where standard output is not a terminal."""


def say(table: Table) -> None:
    """Print a table. On a terminal, columns that do not fit go below the others; no name is cut."""
    from rich.console import Console

    from algoformer.report.tables import fitted, terminal_table

    console = Console(highlight=False)
    if not console.is_terminal:
        console = Console(highlight=False, width=PIPE_WIDTH)
    for part in fitted(table, console.width):
        console.print(terminal_table(part))
