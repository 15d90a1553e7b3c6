"""Show tables in a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from algoformer.common.terminal import printable
from algoformer.evaluation import Table
from algoformer.evaluation.numbers import show

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
        # a solver's name may wrap, a number may not
        drawn.add_column(Text(printable(name)), justify=justify, no_wrap=justify == "right")
    for row in table.rows:
        drawn.add_row(*(Text(printable(show(cell))) for cell in row))
    return drawn
