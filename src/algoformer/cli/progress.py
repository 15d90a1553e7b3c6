"""Progress of a command that is not training: bars on standard error."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)


@contextmanager
def bars() -> Iterator[Progress]:
    """Draw a group of bars if standard error is a terminal; results go to standard output."""
    screen = Console(stderr=True, highlight=False)
    # redirect_stdout would make rich print results on the stream of the bars, and leave a file empty
    with Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[note]}"),
        TimeElapsedColumn(),
        TextColumn("elapsed,"),
        TimeRemainingColumn(),
        TextColumn("left"),
        console=screen,
        disable=not screen.is_terminal,
        redirect_stdout=False,
    ) as progress:
        yield progress


@contextmanager
def counting(description: str) -> Iterator[Callable[[int, int], None]]:
    """Draw one bar; yields a callback (done, total)."""
    with bars() as progress:
        task = progress.add_task(description, total=None, note="")
        yield lambda done, total: progress.update(task, completed=done, total=total)
