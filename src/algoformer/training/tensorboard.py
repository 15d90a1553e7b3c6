"""A run's metrics once more, for TensorBoard, where that is installed; `metrics.jsonl` is what counts."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

logger = logging.getLogger("algoformer.training")


class TensorBoard:
    """Writes rows of metrics to event files; after any failure it does nothing more.

    The files are written anew from all rows whenever a run goes on, so that they show each step once.
    """

    def __init__(self, folder: Path, rows: Iterable[Mapping[str, float]]) -> None:
        self._writer: Any = None
        try:
            from torch.utils.tensorboard import SummaryWriter

            before = list(folder.glob("events.out.tfevents.*"))
            # a viewer that has shown the old files forgets their points
            self._writer = SummaryWriter(str(folder), purge_step=0)
            for row in rows:
                self.add(row)
            self._writer.flush()
            for file in before:
                file.unlink()
        except Exception as error:
            self._give_up(error)

    def add(self, row: Mapping[str, float]) -> None:
        """Add a row: a point at its step for each of its numbers."""
        if self._writer is None:
            return
        try:
            for name, value in row.items():
                if name not in ("step", "seconds"):
                    self._writer.add_scalar(name, value, int(row["step"]))
        except Exception as error:
            self._give_up(error)

    def close(self) -> None:
        """Write what is waiting to be written, and stop."""
        if self._writer is not None:
            self._writer.close()

    def _give_up(self, error: Exception) -> None:
        # pictures must never cost a run
        self._writer = None
        logger.warning("TensorBoard does not work here (%s); metrics.jsonl has it all", str(error)[:200])
