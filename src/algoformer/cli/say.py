"""Tables on standard output."""

from __future__ import annotations

from rich.console import Console

from algoformer.evaluation import Table
from algoformer.report.tables import terminal_table


def say(table: Table) -> None:
    """Print a table as wide as the terminal; in a pipe, as wide as it needs to be."""
    console = Console(highlight=False)
    if not console.is_terminal:
        console = Console(highlight=False, width=160)
    console.print(terminal_table(table))
