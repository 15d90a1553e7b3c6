"""Progress of training runs: bars on a terminal or in a notebook, a few plain lines in a log."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

LINES = 5
"""Number of progress lines that a run prints to a log, at equal fractions of its steps."""

SILENCE = 300.0
"""Seconds of training after which a log gets another line in any case."""

WIDE = 100
"""Columns below which a training bar shows its numbers only."""

RECENT = 20
"""Rows of metrics from which the time left is estimated; curricula change the speed."""

CURRICULA = ("dims", "samples", "iterations")
"""Metrics that a curriculum raises."""

ShowRun = Callable[[str, int, int, Mapping[str, float]], None]
"""Called with a run's name, the steps done, the total steps, and the newest metrics."""


class Callback:
    """Callback with hooks for training events; override those you need. Only rank zero calls them."""

    def on_start(self, step: int, steps: int) -> None:
        """Called once before the first step of this session, with the steps done and the steps in all."""

    def on_log(self, step: int, metrics: Mapping[str, float]) -> None:
        """Called after every new row of metrics."""

    def on_end(self, step: int) -> None:
        """Called when the session ends, in whichever way."""


class ProgressBar(Callback):
    """Shows the progress of one run on standard error."""

    def __init__(self) -> None:
        self._stack = ExitStack()
        self._show: ShowRun | None = None
        self._steps = 0

    def on_start(self, step: int, steps: int) -> None:
        """Open the display."""
        self._steps = steps
        self._show = self._stack.enter_context(training_bars({"training": steps}))

    def on_log(self, step: int, metrics: Mapping[str, float]) -> None:
        """Show the newest metrics."""
        if self._show is not None:
            self._show("training", step, self._steps, metrics)

    def on_end(self, step: int) -> None:
        """Close the display."""
        self._stack.close()


def progress_callbacks(wanted: bool | None) -> tuple[Callback, ...]:
    """Return a progress bar, or nothing; None shows one on a terminal and in a notebook."""
    watched = sys.stderr.isatty() or "ipykernel" in sys.modules
    return (ProgressBar(),) if (watched if wanted is None else wanted) else ()


@contextmanager
def training_bars(runs: Mapping[str, int], screen: Console | None = None) -> Iterator[ShowRun]:
    """Show training runs, given the number of steps of each; yields a callback for new metrics.

    On a terminal each run has a bar with loss, error, speed, time left and, on CUDA, peak memory beside it.
    In a log there are a few plain lines with the same numbers. When a curriculum makes the task harder, the
    line says so, because the loss rises then.
    """
    # imported here so that training does without rich until something is shown
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    screen = screen or Console(stderr=True, highlight=False)
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
    label, note = TextColumn("{task.description}"), TextColumn("{task.fields[note]}")
    # redirect_stdout would make rich print results on the stream of the bars, and leave a file empty
    with Progress(label, *bar, MofNCompleteColumn(), note, console=screen, redirect_stdout=False) as progress:
        tasks = {name: progress.add_task(name, total=total, note="") for name, total in runs.items()}

        def draw(name: str, done: int, total: int, metrics: Mapping[str, float]) -> None:
            note = " ".join(news[name].read(done, total, metrics))
            progress.update(tasks[name], completed=done, total=total, note=note)

        yield draw


class _News:
    """The newest numbers of one run, and whether a log should get another line."""

    def __init__(self) -> None:
        self._rows: deque[tuple[int, float]] = deque(maxlen=RECENT)
        self._said: tuple[int, float] | None = None
        self._valid: float | None = None  # measured at some steps only, shown until the next time
        self._grown: dict[str, float] = {}

    def read(self, done: int, total: int, metrics: Mapping[str, float]) -> list[str]:
        """Return the newest numbers in words."""
        self._rows.append((done, metrics["seconds"]))
        pace = metrics["steps_per_second"]
        self._valid = metrics.get("valid_loss", self._valid)
        facts = [f"loss {metrics['loss']:.3g}"]
        if "error" in metrics:
            facts.append(f"error {metrics['error']:.3g}")
        if self._valid is not None:
            facts.append(f"valid {self._valid:.3g}")
        facts += self._curricula(metrics)
        facts.append(f"{pace:.0f} steps/s" if pace >= 100 else f"{pace:.3g} steps/s")
        if "peak_memory" in metrics:
            facts.append(f"{metrics['peak_memory'] / 1e9:.1f} GB")
        left = f"{_clock(self._left(done, total, pace))} left"
        return [*facts, left if done < total else f"{_clock(metrics['seconds'])} in total"]

    def _curricula(self, metrics: Mapping[str, float]) -> list[str]:
        """Name the curricula that have grown since the row before, with both values."""
        facts = [
            f"{name} {self._grown[name]:g}→{metrics[name]:g}"
            for name in CURRICULA
            if name in metrics and self._grown.get(name, metrics[name]) < metrics[name]
        ]
        self._grown = {name: metrics[name] for name in CURRICULA if name in metrics}
        return facts

    def due(self, done: int, total: int, metrics: Mapping[str, float]) -> bool:
        """Return whether a fraction of the run or a long time has passed since the last line."""
        part, seconds = LINES * done // total, metrics["seconds"]
        if self._said is not None and part == self._said[0] and seconds < self._said[1] + SILENCE:
            return False
        # a resumed run prints a line at once
        self._said = part, seconds
        return True

    def _left(self, done: int, total: int, pace: float) -> float:
        (first, began), (last, ended) = self._rows[0], self._rows[-1]
        if last > first and ended > began:
            pace = (last - first) / (ended - began)
        return (total - done) / max(pace, 1e-9)


def _clock(seconds: float) -> str:
    return str(timedelta(seconds=round(seconds)))
