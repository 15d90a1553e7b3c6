"""Make what a figure or a table needs: train what is missing, measure it, and leave results."""

from __future__ import annotations

import fnmatch
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Literal, Protocol, TypeVar, runtime_checkable

from algoformer.common.devices import available_cores
from algoformer.common.names import check_choice
from algoformer.training import Experiment
from paper.run_state import DamagedRun, steps_taken
from paper.runs import fingerprint
from paper.side_by_side import Planned, train_side_by_side

SHORTEST = 1e-9
"""Minutes of a run that begins when the time is over: it takes one step and saves it."""

State = Literal["done", "other steps", "trained", "begun", "damaged", "missing"]


@runtime_checkable
class Named(Protocol):
    """An item that can be asked for by name."""

    @property
    def name(self) -> str:
        """The name of the item."""
        ...


@runtime_checkable
class Spec(Named, Protocol):
    """An item that has a result: a model to be trained, or a textbook method."""

    @property
    def settings(self) -> dict[str, Any]:
        """All that decides its numbers; a model to be trained has the key "experiment"."""
        ...


@runtime_checkable
class Store(Protocol):
    """A place where results are found, and where measuring leaves new ones."""

    def find(self, item: Any) -> Any:
        """Return the result of exactly this item, or None."""
        ...

    def nearest(self, item: Any) -> Any:
        """Return the result of the same run over another number of steps, or None."""
        ...

    def prepare(self, item: Any) -> Experiment:
        """Return what is to be trained, with its data at hand."""
        ...

    def measure(self, item: Any, folder: Path, *, device: str, command: str) -> tuple[str, Path]:
        """Measure the finished run in a folder, store the result, return it in words and its file."""
        ...


@runtime_checkable
class Watcher(Protocol):
    """Receives the news of the work."""

    def step(self, name: str, done: int, total: int, metrics: Mapping[str, float]) -> None:
        """Called when a run has taken this many of its steps."""

    def result(self, name: str, words: str, path: Path) -> None:
        """Called when a result was written."""

    def failed(self, name: str, reason: str) -> None:
        """Called when a run failed; the others go on."""


@dataclass(frozen=True, kw_only=True)
class Status:
    """The state of an item.

    Attributes:
        item: the item.
        state: "done" has a result; "other steps" has one over another number of steps; "trained" has its
            weights but no result; "begun" has a checkpoint to go on from; "damaged" has one that cannot be
            read.
        step: the training steps taken.
        result: the result, or the nearest one that there is.
        problem: what is damaged, with the remedy.
    """

    item: Spec
    state: State
    step: int = 0
    result: Any = None
    problem: str = ""


@dataclass(frozen=True, kw_only=True)
class RunManager:
    """Trains and measures.

    Attributes:
        folder: the run folders, each named after its run and the hash of its configuration.
        archive: the results.
        device: where to train and to measure.
        workers: processes that train at once; None is one on a GPU and one for each core on a CPU.
        max_minutes: stop after this long; what is unfinished goes on the next time.
        command: the command that asked for the work, for provenance.
        failures: what went wrong, by the name of the run.
    """

    folder: Path
    archive: Store
    device: str = "cpu"
    workers: int | None = None
    max_minutes: float | None = None
    command: str = ""
    failures: dict[str, str] = field(default_factory=dict)

    def run_folder(self, item: Spec) -> Path:
        """Return where a run of exactly this configuration is trained."""
        ending = fingerprint(item.settings)
        for path in self.folder.glob(f"*-{ending}"):
            return path  # begun under another name, in another figure
        return self.folder / f"{item.name.replace('/', '-')}-{ending}"

    def status(self, item: Spec) -> Status:
        """Return the state of an item."""
        result, steps = self.archive.find(item), steps_of(item)
        if result is not None:
            return Status(item=item, state="done", result=result, step=steps)
        near = self.archive.nearest(item)
        try:
            step = steps_taken(self.run_folder(item)) if steps else 0
        except DamagedRun as error:
            return Status(item=item, state="damaged", result=near, problem=str(error))
        if step:
            return Status(item=item, state="trained" if step == steps else "begun", step=step, result=near)
        return Status(item=item, state="missing" if near is None else "other steps", result=near)

    def make(self, items: Sequence[Spec], watcher: Watcher) -> None:
        """Train and measure what has no result yet, in the order given; `failures` says what went wrong."""
        began, waiting = time.monotonic(), list[Spec]()
        for item in _once_each(items):
            status = self.status(item)
            if status.state == "damaged":
                self._fail(item.name, status.problem, watcher)
            elif status.state == "trained" or (status.state != "done" and not steps_of(item)):
                self._measure(item, watcher)
            elif status.state != "done":
                waiting.append(item)
        runs = {
            item.name: Planned(
                experiment=self.archive.prepare(item), folder=self.run_folder(item), command=self.command
            )
            for item in waiting
        }
        by_name = {item.name: item for item in waiting}
        workers = self.workers or (1 if self.device != "cpu" else available_cores())
        if self.device == "cpu" and (workers == 1 or len(waiting) == 1):
            self._one_by_one(runs, by_name, watcher, began)
        elif waiting:
            # on a GPU even a single one gets its own process: what it compiled and captured goes with it
            train_side_by_side(
                runs,
                workers=workers,
                device=self.device,
                max_minutes=self._left(began),
                progress=watcher.step,
                finished=lambda name: self._measure(by_name[name], watcher),
                failed=lambda name, reason: self._fail(name, reason, watcher),
            )

    def _one_by_one(
        self, runs: Mapping[str, Planned], items: Mapping[str, Spec], watcher: Watcher, began: float
    ) -> None:
        for number, (name, run) in enumerate(runs.items()):
            left = self._left(began)
            if number and left == SHORTEST:
                return  # the first one always begins, so that every call makes progress
            try:
                finished = run.make(device=self.device, max_minutes=left, tell=partial(watcher.step, name))
            except (FloatingPointError, RuntimeError, ValueError) as error:
                self._fail(name, f"{type(error).__name__}: {error}", watcher)
                continue
            if finished:
                self._measure(items[name], watcher)

    def _measure(self, item: Spec, watcher: Watcher) -> None:
        folder = self.run_folder(item)
        try:
            words, path = self.archive.measure(item, folder, device=self.device, command=self.command)
        except DamagedRun as error:
            self._fail(item.name, str(error), watcher)
        else:
            watcher.result(item.name, words, path)

    def _fail(self, name: str, reason: str, watcher: Watcher) -> None:
        self.failures[name] = reason
        watcher.failed(name, reason)

    def _left(self, began: float) -> float | None:
        if self.max_minutes is None:
            return None
        return max(SHORTEST, self.max_minutes - (time.monotonic() - began) / 60)


Wanted = TypeVar("Wanted", bound=Named)


def choose(items: Sequence[Wanted], only: Sequence[str]) -> list[Wanted]:
    """Return the items whose names are among `only`, where * stands for anything; all of them if it is empty.

    Raises:
        ValueError: a name fits nothing; the message has the nearest.
    """
    if not only:
        return list(items)
    chosen: list[Wanted] = []
    for pattern in only:
        fitting = [item for item in items if fnmatch.fnmatchcase(item.name, pattern)]
        if not fitting:
            check_choice("run", pattern, [item.name for item in items])
            raise ValueError(f"no run is named {pattern!r}")
        chosen += [item for item in fitting if item not in chosen]
    return chosen


def steps_of(item: Spec) -> int:
    """Return how many training steps an item takes; 0 for a textbook method."""
    experiment = item.settings.get("experiment")
    return 0 if experiment is None else int(experiment["training"]["steps"])


def _once_each(items: Iterable[Spec]) -> list[Spec]:
    # figures may ask for one configuration under two names
    found: dict[str, Spec] = {}
    for item in items:
        found.setdefault(fingerprint(item.settings), item)
    return list(found.values())
