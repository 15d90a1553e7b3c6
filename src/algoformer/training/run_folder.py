"""The folder of a run: config, metrics, checkpoint, and one process at a time that writes them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Generic, TypeVar

from algoformer.training.checkpoint import Checkpoint, load_checkpoint, save_checkpoint
from algoformer.training.config import Described, Experiment, is_data_of
from algoformer.training.events import Events
from algoformer.common.files import append_line, read_json, remove_leftovers, write_json, write_text
from algoformer.training.shard_index import shard_limit
from algoformer.training.tensor_file import remove_stray_shards, stored_index

Metrics = Mapping[str, float]
"""One row: counts (step, loops, dims, samples) and measurements, by name; all of them floats."""


Kept = TypeVar("Kept")
"""A kind of checkpoint."""


@dataclass(frozen=True)
class Store(Generic[Kept]):
    """How checkpoints of one kind are read and written."""

    load: Callable[[Path], Kept]
    save: Callable[[Path, Kept, int | float | None], None]


CHECKPOINTS: Store[Checkpoint] = Store(load_checkpoint, save_checkpoint)
"""Of models that answer prompts."""


class RunFolder(Generic[Kept]):
    """What a training run leaves on disk. Open it with `open_folder`."""

    def __init__(
        self,
        path: Path,
        store: Store[Kept],
        *,
        shard_mb: int | float | None = None,
        tensorboard: bool = False,
    ) -> None:
        self.path, self.store = path, store
        self.shard_mb = shard_mb
        self._tensorboard = tensorboard
        self._events: Events | None = None

    @property
    def checkpoint_path(self) -> Path:
        """Where the newest checkpoint is, if there is one."""
        return self.path / "checkpoint.safetensors"

    def load(self) -> Kept | None:
        """The newest checkpoint, if there is one; from now on it has the form that was asked for."""
        if not self.checkpoint_path.exists():
            return None
        checkpoint, index = self.store.load(self.checkpoint_path), stored_index(self.checkpoint_path)
        written = None if index is None else index.shard_mb
        if self.shard_mb is None:
            self.shard_mb = written
        elif shard_limit(self.shard_mb) != shard_limit(written):
            self.save(checkpoint)
        return checkpoint

    def save(self, checkpoint: Kept) -> None:
        """Put a new checkpoint in the place of the old one."""
        self.store.save(self.checkpoint_path, checkpoint, self.shard_mb)

    def add_metrics(self, row: Metrics) -> None:
        """Add a row of metrics."""
        append_line(self.path / "metrics.jsonl", json.dumps(row))
        if self._events is not None:
            self._events.add(row)

    def keep_metrics(self, last_step: int) -> list[Metrics]:
        """Drop the rows after `last_step`, which will be written again, and a line that a kill cut off."""
        rows = [row for row in read_metrics(self.path) if row["step"] <= last_step]
        write_text(self.path / "metrics.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
        if self._tensorboard:
            self._events = Events(self.path / "tensorboard", rows)
        return rows

    def close(self) -> None:
        """Write out what is waiting to be written."""
        if self._events is not None:
            self._events.close()


@contextmanager
def open_folder(
    path: Path,
    experiment: Described,
    store: Store[Kept],
    *,
    resume: bool,
    shard_mb: int | float | None = None,
    tensorboard: bool = False,
) -> Iterator[RunFolder[Kept]]:
    """Start a new run folder, or take up the run that is in it; no other process can do so meanwhile.

    Checkpoints are written with `shard_mb`; None goes on as the run's last one was written, and starts with
    one file. With `tensorboard`, metrics are also written for TensorBoard if that is installed.

    Raises:
        ValueError: the folder already holds something, or no run to resume, or another experiment's, or
            another process is training in it.
    """
    shard_limit(shard_mb)  # refuses what is none before anything is written
    config = path / "config.json"
    if resume:
        if not config.exists():
            raise ValueError(f"{path} holds no run to resume")
        if not is_data_of(read_json(config), experiment):
            raise ValueError(f"{path} holds a run of another experiment; resume with its own settings")
    else:
        if path.is_dir() and not config.exists():
            remove_leftovers(path)  # of a run that was killed before it began
        if path.exists() and (not path.is_dir() or any(path.iterdir())):
            raise ValueError(f"{path} exists already; resume the run in it or choose another folder")
        write_json(config, experiment.to_data())
    with config.open("rb") as handle:
        _lock(handle, path)
        remove_leftovers(path)
        folder = RunFolder(path, store, shard_mb=shard_mb, tensorboard=tensorboard)
        remove_stray_shards(folder.checkpoint_path)
        try:
            yield folder
        finally:
            folder.close()


def read_metrics(folder: Path | str) -> list[Metrics]:
    """The rows of a run's metrics; a line that was cut off by a kill is left out."""
    path = Path(folder) / "metrics.jsonl"
    if not path.exists():
        return []
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    return [row for line in lines if (row := _read_row(line)) is not None]


def _read_row(line: str) -> Metrics | None:
    try:
        row = json.loads(line)
        numbers = {str(name): float(value) for name, value in row.items()}
    except (ValueError, TypeError, AttributeError, OverflowError, RecursionError):
        return None
    return numbers if "step" in numbers else None


def load_experiment(folder: Path | str) -> Experiment:
    """The experiment whose run is in `folder`.

    Raises:
        ValueError: there is no run, or its config cannot be read.
    """
    path = Path(folder) / "config.json"
    try:
        return Experiment.from_data(read_json(path))
    except ValueError as error:
        raise ValueError(f"{folder} holds no readable run: {error}") from None


def _lock(handle: IO[bytes], path: Path) -> None:
    try:
        import fcntl
    except ImportError:
        return  # only POSIX has it; elsewhere two processes are not kept apart
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise ValueError(f"another process is training in {path}; wait for it or stop it") from None
    except OSError:
        return  # this file system has no locks
