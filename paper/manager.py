"""Make what a figure needs: train what is missing, measure it, and leave results to be drawn."""

from __future__ import annotations

import fnmatch
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Literal, Protocol, TypeVar, runtime_checkable

from algoformer.common.names import check_choice
from algoformer.training import load_checkpoint, train
from algoformer.training.side_by_side import Planned, available_cores, train_side_by_side
from paper.archive import Archive
from paper.measuring import measure_reference, measure_run
from paper.result import Result
from paper.run_state import DamagedRun, steps_taken
from paper.runs import BaselineSpec, Item, RunSpec, fingerprint

SHORTEST = 1e-9
"""Minutes of a run that begins when the time is over: it takes one step and saves it."""

State = Literal["done", "other steps", "trained", "begun", "damaged", "missing"]


@runtime_checkable
class Watcher(Protocol):
    """Whoever wants to see how the work goes on."""

    def step(self, name: str, done: int, total: int, metrics: Mapping[str, float]) -> None:
        """A run has taken so many of its steps."""

    def result(self, result: Result, path: Path) -> None:
        """A result was written."""

    def failed(self, name: str, reason: str) -> None:
        """A run failed; the others go on."""


@dataclass(frozen=True, kw_only=True)
class Status:
    """Where an item stands.

    Attributes:
        item: what it is about.
        state: "done" has a result; "other steps" has one over another number of steps; "trained" has its
            weights but no result; "begun" has a checkpoint to go on from; "damaged" has one that cannot be
            read.
        step: training steps taken.
        result: what there is to draw.
        problem: of what is damaged, with the remedy.
    """

    item: Item
    state: State
    step: int = 0
    result: Result | None = None
    problem: str = ""


@dataclass(frozen=True, kw_only=True)
class RunManager:
    """Where runs are trained and how.

    Attributes:
        folder: the run folders, each named after its run and the hash of its configuration.
        archive: the results.
        device: where to train and to measure.
        workers: processes that train at once; None is one on a GPU and one for each core on a CPU.
        max_minutes: stop after this long; what is unfinished goes on the next time.
        command: for provenance.
    """

    folder: Path
    archive: Archive
    device: str = "cpu"
    workers: int | None = None
    max_minutes: float | None = None
    command: str = ""
    failures: dict[str, str] = field(default_factory=dict)

    def run_folder(self, run: RunSpec) -> Path:
        """Where a run of exactly this configuration is trained."""
        ending = fingerprint(run.settings)
        for path in self.folder.glob(f"*-{ending}"):
            return path  # begun under another name, in another figure
        return self.folder / f"{run.name.replace('/', '-')}-{ending}"

    def status(self, item: Item) -> Status:
        """Where an item stands."""
        result = self.archive.find(item)
        if result is not None:
            return Status(item=item, state="done", result=result, step=result.steps or 0)
        near = self.archive.nearest(item)
        try:
            folder = self.run_folder(item) if isinstance(item, RunSpec) else None
            step = 0 if folder is None else steps_taken(folder, load_checkpoint)
        except DamagedRun as error:
            return Status(item=item, state="damaged", result=near, problem=str(error))
        if isinstance(item, RunSpec) and step == item.experiment.training.steps:
            return Status(item=item, state="trained", step=step, result=near)
        if step:
            return Status(item=item, state="begun", step=step, result=near)
        return Status(item=item, state="missing" if near is None else "other steps", result=near)

    def make(self, items: Sequence[Item], watcher: Watcher) -> None:
        """Train and measure what has no result yet, in the order given; `failures` says what went wrong."""
        began = time.monotonic()
        for item in items:
            if isinstance(item, BaselineSpec) and self.status(item).state != "done":
                result = measure_reference(item, command=self.command)
                watcher.result(result, self.archive.add(result))
        waiting = _once_each(
            item for item in items if isinstance(item, RunSpec) and self.status(item).state != "done"
        )
        begun = {run.name: self.status(run) for run in waiting}
        for run in waiting:
            if begun[run.name].state == "trained":
                self._measure(run, watcher)
            elif begun[run.name].state == "damaged":
                self._fail(run.name, begun[run.name].problem, watcher)
        waiting = [run for run in waiting if begun[run.name].state not in ("trained", "damaged")]
        workers = self.workers or (1 if self.device != "cpu" else available_cores())
        if self.device == "cpu" and (workers == 1 or len(waiting) == 1):
            self._one_by_one(waiting, watcher, began)
        elif waiting:
            # on a GPU even a single one gets its own process: what it compiled and captured goes with it
            self._side_by_side(waiting, watcher, began, workers)

    def _one_by_one(self, runs: Sequence[RunSpec], watcher: Watcher, began: float) -> None:
        for number, run in enumerate(runs):
            left = self._left(began)
            if number and left == 0:
                return  # the first one always begins, so that every call makes progress
            folder = self.run_folder(run)
            try:
                trained = train(
                    run.experiment,
                    folder,
                    resume=(folder / "config.json").exists(),
                    device=self.device,
                    max_minutes=None if left is None else max(SHORTEST, left),
                    command=self.command,
                    progress=partial(watcher.step, run.name),
                )
            except (FloatingPointError, RuntimeError, ValueError) as error:
                self._fail(run.name, f"{type(error).__name__}: {error}", watcher)
                continue
            if trained.finished:
                self._measure(run, watcher)

    def _side_by_side(self, runs: Sequence[RunSpec], watcher: Watcher, began: float, workers: int) -> None:
        by_name = {run.name: run for run in runs}
        train_side_by_side(
            {
                name: Planned(
                    experiment=run.experiment,
                    folder=self.run_folder(run),
                    command=self.command,
                )
                for name, run in by_name.items()
            },
            workers=workers,
            device=self.device,
            max_minutes=self._left(began),
            progress=watcher.step,
            finished=lambda name: self._measure(by_name[name], watcher),
            failed=lambda name, reason: self._fail(name, reason, watcher),
        )

    def _measure(self, run: RunSpec, watcher: Watcher) -> None:
        result = measure_run(run, self.run_folder(run), device=self.device, command=self.command)
        watcher.result(result, self.archive.add(result))

    def _fail(self, name: str, reason: str, watcher: Watcher) -> None:
        self.failures[name] = reason
        watcher.failed(name, reason)

    def _left(self, began: float) -> float | None:
        if self.max_minutes is None:
            return None
        return max(0.0, self.max_minutes - (time.monotonic() - began) / 60)


@runtime_checkable
class Named(Protocol):
    """Whatever can be asked for by name."""

    @property
    def name(self) -> str:
        """Its name."""
        ...


Wanted = TypeVar("Wanted", bound=Named)


def choose(items: Sequence[Wanted], only: Sequence[str]) -> list[Wanted]:
    """The items whose names are among `only`, where * stands for anything; all of them if it is empty.

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


def _once_each(runs: Iterable[RunSpec]) -> list[RunSpec]:
    # figures may ask for one configuration under two names
    found: dict[str, RunSpec] = {}
    for run in runs:
        found.setdefault(fingerprint(run.settings), run)
    return list(found.values())
