"""How far a command has come: bars on a terminal, a few plain lines of a training run elsewhere."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

LINES = 5
"""Where nobody watches, a run says so many times how it is, in equal parts of its steps."""

SILENCE = 300.0
"""And again if it has said nothing for so many seconds of training."""

WIDE = 100
"""On a narrower terminal the numbers take the place of the bar."""

RECENT = 20
"""The time left follows from the pace of so many rows of metrics: curricula change it."""

ShowRun = Callable[[str, int, int, Mapping[str, float]], None]
"""Called with a run's name, steps done, steps in all, and its newest metrics."""


def console() -> Console:
    """Where people read; results go to standard output, bars to standard error."""
    return Console(stderr=True, highlight=False)


@contextmanager
def bars() -> Iterator[Progress]:
    """A group of bars; drawn only if standard error is a terminal."""
    screen = console()
    with _display(
        screen,
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[note]}"),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    ) as progress:
        yield progress


@contextmanager
def counting(description: str) -> Iterator[Callable[[int, int], None]]:
    """One bar for something that counts up; a callback (done, total)."""
    with bars() as progress:
        task = progress.add_task(description, total=None, note="")

        def show(done: int, total: int) -> None:
            progress.update(task, completed=done, total=total)

        yield show


@contextmanager
def training_bars(runs: Mapping[str, int], screen: Console | None = None) -> Iterator[ShowRun]:
    """Show training runs, given how many steps each will take; a callback for their news.

    On a terminal each run has a bar with loss, error, pace, time left and, on CUDA, peak memory beside it.
    Elsewhere, in a log say, there are a few plain lines with the same.
    """
    screen = screen or console()
    news = {name: _News() for name in runs}
    if not screen.is_terminal:

        def tell(name: str, done: int, total: int, metrics: Mapping[str, float]) -> None:
            facts, due = news[name].read(done, total, metrics), news[name].due(done, total, metrics)
            if due:
                line = f"{name}: step {done} of {total}, {', '.join(facts)}"
                screen.print(line, markup=False, soft_wrap=True)

        yield tell
        return
    bar = [BarColumn(bar_width=None)] if screen.width >= WIDE else []
    numbers = MofNCompleteColumn(), TextColumn("{task.fields[note]}")
    with _display(screen, TextColumn("{task.description}"), *bar, *numbers) as progress:
        tasks = {name: progress.add_task(name, total=total, note="") for name, total in runs.items()}

        def draw(name: str, done: int, total: int, metrics: Mapping[str, float]) -> None:
            note = " ".join(news[name].read(done, total, metrics))
            progress.update(tasks[name], completed=done, total=total, note=note)

        yield draw


def _display(screen: Console, *columns: ProgressColumn) -> Progress:
    # left to itself, rich would print results on the bars' stream, and a file they are written to stay empty
    return Progress(*columns, console=screen, disable=not screen.is_terminal, redirect_stdout=False)


class _News:
    """What is worth saying about one run, and whether it is time to say it."""

    def __init__(self) -> None:
        self._rows: deque[tuple[int, float]] = deque(maxlen=RECENT)
        self._said: tuple[int, float] | None = None
        self._valid: float | None = None  # measured now and then, worth saying until the next time

    def read(self, done: int, total: int, metrics: Mapping[str, float]) -> list[str]:
        """Its newest numbers in words."""
        self._rows.append((done, metrics["seconds"]))
        pace = metrics["steps_per_second"]
        self._valid = metrics.get("valid_loss", self._valid)
        facts = [f"loss {metrics['loss']:.3g}"]
        if "error" in metrics:
            facts.append(f"error {metrics['error']:.3g}")
        if self._valid is not None:
            facts.append(f"valid {self._valid:.3g}")
        facts.append(f"{pace:.0f} steps/s" if pace >= 100 else f"{pace:.3g} steps/s")
        if "peak_memory" in metrics:
            facts.append(f"{metrics['peak_memory'] / 1e9:.1f} GB")
        left = f"{_clock(self._left(done, total, pace))} left"
        return [*facts, left if done < total else f"{_clock(metrics['seconds'])} in all"]

    def due(self, done: int, total: int, metrics: Mapping[str, float]) -> bool:
        """Whether a part of the run has passed since the last time, or too long a silence."""
        part, seconds = LINES * done // total, metrics["seconds"]
        if self._said is not None and part == self._said[0] and seconds < self._said[1] + SILENCE:
            return False
        # a run that was taken up in the middle of a part has something to say as well
        self._said = part, seconds
        return True

    def _left(self, done: int, total: int, pace: float) -> float:
        (first, began), (last, ended) = self._rows[0], self._rows[-1]
        if last > first and ended > began:
            pace = (last - first) / (ended - began)
        return (total - done) / max(pace, 1e-9)


def _clock(seconds: float) -> str:
    return str(timedelta(seconds=round(seconds)))
