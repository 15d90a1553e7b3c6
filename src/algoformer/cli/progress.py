"""Progress bars, shown on a terminal and silent elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)


def console() -> Console:
    """Where people read; results go to standard output, bars to standard error."""
    return Console(stderr=True, highlight=False)


@contextmanager
def bars() -> Iterator[Progress]:
    """A group of bars; drawn only if standard error is a terminal."""
    with Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[note]}"),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        console=console(),
        disable=not sys.stderr.isatty(),
    ) as progress:
        yield progress


def training_bar(progress: Progress, task: TaskID) -> Callable[[int, int, Mapping[str, float]], None]:
    """A callback for `train` that moves a bar and shows the loss beside it."""

    def show(done: int, total: int, metrics: Mapping[str, float]) -> None:
        progress.update(task, completed=done, total=total, note=f"loss {metrics['loss']:.4g}")

    return show


@contextmanager
def counting(description: str) -> Iterator[Callable[[int, int], None]]:
    """One bar for something that counts up; a callback (done, total)."""
    with bars() as progress:
        task = progress.add_task(description, total=None, note="")

        def show(done: int, total: int) -> None:
            progress.update(task, completed=done, total=total)

        yield show
