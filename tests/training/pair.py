"""Two processes that train together on this machine, for tests of one run on several processes."""

from __future__ import annotations

import signal
import tempfile
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

from algoformer.training import Experiment, train
from algoformer.training.step import Step
from training.small import told as telling


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What a process has to tell about a run: how it ended, or by what it was ended."""

    error: BaseException | None = None
    step: int = 0
    metrics: list[dict[str, float]] = field(default_factory=list)
    weights: dict[str, Any] = field(default_factory=dict)
    engine: str = ""
    told: list[int] = field(default_factory=list)
    """The steps at which `progress` was called."""


@dataclass(frozen=True, kw_only=True)
class Mishap:
    """Something that happens to one process after a step, or in a call of `progress`."""

    kind: str
    rank: int
    step: int

    def strike(self, training: Step) -> None:
        if self.kind == "nan":
            training.sums.fill_(torch.nan)
        elif self.kind == "ctrl-c":
            signal.raise_signal(signal.SIGINT)


class Pair:
    """Starts both processes when first needed, and again if they had to be ended."""

    def __init__(self) -> None:
        self.processes: list[Any] = []
        self.pipes: list[Connection] = []

    def train(self, experiment: Experiment, folder: Any = None, **options: Any) -> list[Outcome]:
        """Both train together; `folder` is one for both, or one for each."""
        if not self.processes:
            self._start()
        for rank, pipe in enumerate(self.pipes):
            where = folder[rank] if isinstance(folder, list) else folder
            pipe.send((experiment.to_data(), where, options))
        return [pipe.recv() for pipe in self.pipes]  # an error if a process has ended

    def end(self) -> None:
        for process in self.processes:
            process.kill()
            process.join()
        self.processes, self.pipes = [], []

    def _start(self) -> None:
        context = mp.get_context("spawn")
        meeting = Path(tempfile.mkdtemp()) / "meeting"  # a file, so that no port has to be found free
        for rank in range(2):
            here, there = context.Pipe()
            process = context.Process(target=_work, args=(rank, meeting, there), daemon=True)
            process.start()
            there.close()
            self.processes.append(process)
            self.pipes.append(here)


def _work(rank: int, meeting: Path, pipe: Connection) -> None:
    torch.set_num_threads(1)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background ignores it
    dist.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=2)
    while True:
        data, folder, options = pipe.recv()
        try:
            outcome = _train(rank, Experiment.from_data(data), folder, **options)
        except BaseException as error:
            outcome = Outcome(error=error)
        pipe.send(outcome)


def _train(
    rank: int, experiment: Experiment, folder: Any, mishap: Mishap | None = None, **options: Any
) -> Outcome:
    told: list[int] = []

    def progress(done: int, total: int, metrics: Any) -> None:
        told.append(done)
        if mishap is not None and mishap.kind == "progress" and mishap.step == done:
            raise KeyboardInterrupt

    run, steps = Step.run, iter(range(1, experiment.training.steps + 1))

    def struck(self: Step, number: int) -> None:
        run(self, number)
        if mishap is not None and mishap.rank == rank and mishap.step == next(steps):
            mishap.strike(self)

    Step.run = struck  # type: ignore[method-assign]
    try:
        done = train(experiment, folder, callbacks=telling(progress), **options)
    finally:
        Step.run = run  # type: ignore[method-assign]
    return Outcome(
        step=done.step,
        metrics=[dict(row) for row in done.metrics],
        weights={name: weight.numpy() for name, weight in done.model.state_dict().items()},
        engine=str(done.plan),
        told=told,
    )
