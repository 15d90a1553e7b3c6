"""The folder of a run: config, metrics, checkpoints with their cards, and one process that writes them."""

from __future__ import annotations

import importlib.util
import json
import logging
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from algoformer.checkpoint import LATEST, Checkpoint, load_checkpoint, write_checkpoint
from algoformer.common.files import (
    append_line,
    is_leftover,
    read_header,
    read_json,
    remove_leftovers,
    write_json,
    write_text,
)
from algoformer.training.config import Experiment, is_data_of

logger = logging.getLogger("algoformer.training")

Metrics = Mapping[str, float]
"""One row: counts (step, iterations, dims, samples) and measurements, by name; all of them floats."""

LOCK = ".lock"
"""The file that a process locks before it looks at a folder."""

ORIGIN = "initial"
"""The fact on a card that tells of the checkpoint that the run began with."""

OF_ORIGIN = ("step", "seconds", "precision", "device", "command", "experiment", "commit", ORIGIN)
"""The facts that a run tells of the checkpoint it began with."""

ONLY_WHILE_TRAINING = ("best", "validations_since_best")
"""The facts that a run needs to go on, and that an exported model does not keep."""


class RunFolder:
    """The files that a training run leaves. Open it with `open_folder`."""

    def __init__(self, path: Path, *, tensorboard: bool = False) -> None:
        self.path = path
        self._tensorboard = tensorboard
        self._events: Any = None

    def load(self) -> Checkpoint | None:
        """Return the newest checkpoint, if there is one: another process may see another folder."""
        path = self.path / LATEST
        return load_checkpoint(path) if path.exists() else None

    def save(self, checkpoint: Checkpoint, name: str = LATEST) -> None:
        """Put a new checkpoint in the place of the old one of that name."""
        write_checkpoint(self.path / name, checkpoint)

    def write_config(self, experiment: object) -> None:
        """Write an experiment's data for people to read if it is not there yet; the checkpoint has it too."""
        if not (self.path / "config.json").exists():
            write_json(self.path / "config.json", experiment)

    def add_metrics(self, row: Metrics) -> None:
        """Add a row of metrics."""
        append_line(self.path / "metrics.jsonl", json.dumps(row))
        if self._events is not None:
            self._events.add(row)

    def keep_metrics(self, last_step: int) -> list[Metrics]:
        """Drop the rows after `last_step`, which will be written again, and a line that a kill cut off."""
        rows = [row for row in read_metrics(self.path) if row["step"] <= last_step]
        write_text(self.path / "metrics.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
        if self._tensorboard and importlib.util.find_spec("tensorboard") is not None:
            self._events = TensorBoard(self.path / "tensorboard", rows)
        return rows

    def close(self) -> None:
        """Write out what is waiting to be written."""
        if self._events is not None:
            self._events.close()


@contextmanager
def open_folder(
    path: Path, experiment: Experiment, *, resume: bool, tensorboard: bool = False
) -> Iterator[RunFolder]:
    """Start a new run folder, or take up the run that is in it; no other process can do so meanwhile."""
    _check(path, experiment, resume=resume)  # before anything is written
    path.mkdir(parents=True, exist_ok=True)
    with _locked(path):
        # another process may have been faster
        _check(path, experiment, resume=resume)
        remove_leftovers(path)
        folder = RunFolder(path, tensorboard=tensorboard)
        try:
            yield folder
        finally:
            folder.close()


def stored_experiment(folder: Path) -> object:
    """Return the experiment of the run in a folder in plain JSON types: that of its newest checkpoint."""
    if (folder / LATEST).exists():
        card = read_header(folder / LATEST).get("card")
        return card.get("experiment") if isinstance(card, dict) else None
    return read_json(folder / "config.json")


def load_experiment(folder: Path | str) -> Experiment:
    """Return the experiment whose run is in `folder`.

    Raises:
        ValueError: there is no run, or it cannot be read.
    """
    try:
        return Experiment.from_data(stored_experiment(Path(folder)))
    except ValueError as error:
        raise ValueError(f"{folder} holds no readable run: {error}") from None


def read_metrics(folder: Path | str) -> list[Metrics]:
    """Return the rows of a run's metrics; a line that was cut off by a kill is left out."""
    path = Path(folder) / "metrics.jsonl"
    if not path.exists():
        return []
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    return [row for line in lines if (row := _read_row(line)) is not None]


def exported_facts(card: Mapping[str, Any]) -> dict[str, Any]:
    """Return the facts of a run's card that an exported model keeps."""
    return {name: fact for name, fact in card.items() if name not in ONLY_WHILE_TRAINING}


def origin_of(card: Mapping[str, Any]) -> dict[str, Any]:
    """Return the facts of a card that a run tells of the checkpoint it began with."""
    return {name: card[name] for name in OF_ORIGIN if name in card}


class TensorBoard:
    """Writes the metrics of a run to event files of TensorBoard; after any failure it does nothing more.

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


def _read_row(line: str) -> Metrics | None:
    try:
        row = json.loads(line)
        numbers = {str(name): float(value) for name, value in row.items()}
    except (ValueError, TypeError, AttributeError, OverflowError, RecursionError):
        return None
    return numbers if "step" in numbers else None


def _check(path: Path, experiment: Experiment, *, resume: bool) -> None:
    if resume:
        if not (path / LATEST).exists():
            why = "; it was stopped before it began, start it again" if (path / LOCK).exists() else ""
            raise ValueError(f"{path} holds no run to resume{why}")
        if not is_data_of(stored_experiment(path), experiment):
            raise ValueError(f"{path} holds a run of another experiment; resume with its own settings")
    elif path.exists():
        # a process that was killed before its first checkpoint leaves the lock and temporary files
        free = path.is_dir() and all(one.name == LOCK or is_leftover(one.name) for one in path.iterdir())
        if not free:
            raise ValueError(f"{path} exists already; resume the run in it or choose another folder")


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold the lock of a folder; the lock file stays, because to remove it would let two processes in."""
    handle = os.open(path / LOCK, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        # not every system and file system has locks; where there are none, two processes are not kept apart
        with suppress(ImportError, OSError):
            import fcntl

            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise ValueError(f"another process is training in {path}; wait for it or stop it") from None
        yield
    finally:
        os.close(handle)
