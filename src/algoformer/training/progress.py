"""A progress bar for a run, on a terminal or in a notebook."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from algoformer.training.options import Callback

SHOWN = ("loss", "error", "last_loss", "valid_loss", "valid_error", "valid_accuracy")
"""The metrics that stand beside the bar, in this order; a row has two or three of them."""


class ProgressBar(Callback):
    """Shows steps, speed, the newest metrics and when a curriculum grew, on standard error."""

    def __init__(self) -> None:
        self._bar: Any = None
        self._task: Any = None
        self._stage: dict[str, float] = {}

    def on_start(self, step: int, steps: int) -> None:
        """Draw the bar."""
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        self._bar = Progress(
            MofNCompleteColumn(),
            BarColumn(bar_width=24),
            TextColumn("{task.description}"),
            TimeRemainingColumn(),
            console=Console(stderr=True, highlight=False),
        )
        self._task = self._bar.add_task("", total=steps, completed=step)
        self._bar.start()

    def on_log(self, step: int, metrics: Mapping[str, float]) -> None:
        """Move the bar, and say when a curriculum grew."""
        shown = [f"{name} {metrics[name]:.4g}" for name in SHOWN if name in metrics]
        shown.append(f"{metrics['steps_per_second']:.3g} steps/s")
        self._bar.update(self._task, completed=step, description="  ".join(shown))
        stage = {name: metrics[name] for name in ("iterations", "dims", "samples") if name in metrics}
        grown = [f"{name} {value:g}" for name, value in stage.items() if value > self._stage.get(name, value)]
        self._stage = stage
        if grown:
            self._bar.console.print(f"step {step}: curriculum at {', '.join(grown)}")

    def on_end(self, step: int) -> None:
        """Leave the bar as it stands."""
        if self._bar is not None:
            self._bar.stop()
