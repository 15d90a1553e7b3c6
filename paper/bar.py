"""Progress of the runs of a figure or a table."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from algoformer.cli.progress import bars
from paper.manager import RunManager, Spec, steps_of


class Bar:
    """One bar over all training steps; without a terminal, a line for each fifth of a run and each result."""

    def __init__(self, items: Sequence[Spec], manager: RunManager) -> None:
        self.group = bars()
        self.progress = self.group.__enter__()
        self.done = {item.name: manager.status(item).step for item in items}
        total = sum(map(steps_of, items))
        self.task = self.progress.add_task("steps", total=total, completed=sum(self.done.values()), note="")

    def step(self, name: str, done: int, total: int, metrics: Mapping[str, float]) -> None:
        """Move the bar; without a terminal, print a line after each fifth of a run."""
        before = self.done.get(name, 0)
        if not sys.stderr.isatty() and 5 * done // total > 5 * before // total and done < total:
            self._say(f"{name}: step {done:,} of {total:,}, loss {metrics['loss']:.3g}")
        self.done[name] = done
        note = f"{name} {done / total:.0%}, loss {metrics['loss']:.3g}"
        self.progress.update(self.task, completed=sum(self.done.values()), note=note)

    def result(self, name: str, words: str, path: Path) -> None:
        """Print what was measured."""
        self._say(f"{name}: {words} → {path}")

    def failed(self, name: str, reason: str) -> None:
        """Print what went wrong; the others go on."""
        self._say(f"{name}: {reason}")

    def _say(self, line: str) -> None:
        # through the bar's console, or the line would be drawn into the bar
        if sys.stderr.isatty():
            self.progress.console.print(line, soft_wrap=True, markup=False)
        else:
            print(line, file=sys.stderr)

    def close(self) -> None:
        """Remove the bar."""
        self.group.__exit__(None, None, None)


def make_with_bar(items: Sequence[Spec], manager: RunManager) -> None:
    """Train and measure what is missing, with a bar over all of it."""
    bar = Bar(items, manager)
    try:
        manager.make(items, bar)
    finally:
        bar.close()
