"""A run's metrics once more, for TensorBoard, where that is installed.

`metrics.jsonl` is what counts: event files are written from it afresh whenever a run goes on, so that they
show each step once, wherever and however often the run was stopped.
"""

from __future__ import annotations

import importlib.util
import logging
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

logger = logging.getLogger("algoformer.training")


class Events:
    """Writes rows of metrics to the event files in a folder; without TensorBoard it does nothing.

    Pictures must never cost a run: whatever goes wrong here is said once, and then left alone.
    """

    def __init__(self, folder: Path, rows: Iterable[Mapping[str, float]]) -> None:
        self._writer: Any = None
        self._origin = time.time()
        if importlib.util.find_spec("tensorboard") is not None:
            self._attempt(lambda: self._start(folder, list(rows)))

    def add(self, row: Mapping[str, float]) -> None:
        """Add a row: a point at its step for each of its numbers."""
        if self._writer is not None:
            self._attempt(lambda: self._write(row))

    def close(self) -> None:
        """Write what is waiting to be written, and stop."""
        if self._writer is not None:
            self._attempt(self._writer.close)
        self._writer = None

    def _start(self, folder: Path, rows: list[Mapping[str, float]]) -> None:
        from tensorboard.compat.proto.event_pb2 import Event, SessionLog
        from torch.utils.tensorboard import FileWriter

        before = list(folder.glob("events.out.tfevents.*"))
        self._writer = FileWriter(str(folder), flush_secs=10)
        # a viewer that has shown the old files is told to forget all of their points
        self._writer.add_event(Event(step=0, session_log=SessionLog(status=SessionLog.START)))
        # breaks between the parts of a run are left out of its time
        self._origin -= rows[-1].get("seconds", 0.0) if rows else 0.0
        for row in rows:
            self._write(row)
        self._writer.flush()
        for file in before:
            file.unlink()

    def _write(self, row: Mapping[str, float]) -> None:
        from tensorboard.compat.proto.summary_pb2 import Summary

        # one event for all numbers of a row: `SummaryWriter.add_scalar` makes one for each, 17 times slower
        points = [
            Summary.Value(tag=name, simple_value=number)
            for name, number in row.items()
            if name not in ("step", "seconds")
        ]
        when = self._origin + row.get("seconds", 0.0)
        self._writer.add_summary(Summary(value=points), int(row["step"]), when)

    def _attempt(self, do: Callable[[], object]) -> None:
        try:
            do()
        except Exception as error:
            self._writer = None
            logger.warning(
                "TensorBoard does not work here (%s): no more events are written, metrics.jsonl has it all",
                " ".join(f"{type(error).__name__}: {error}".split())[:200],
            )
