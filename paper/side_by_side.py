"""Several small runs at once, one thread each: on a CPU that is faster than one after the other."""

from __future__ import annotations

import multiprocessing
import queue
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.process import BaseProcess
from multiprocessing.queues import Queue
from pathlib import Path
from typing import Any, Literal, Protocol, runtime_checkable

from algoformer.checkpoint import LATEST
from algoformer.common.devices import available_cores
from algoformer.training.config import Experiment
from algoformer.training.progress import Callback

Progress = Callable[[str, int, int, Mapping[str, float]], None]
"""Called with the run's name, steps done, steps in all and the newest metrics."""

Finished = Callable[[str], None]
"""Called with the name of a run that has taken all its steps."""

Failed = Callable[[str, str], None]
"""Called with the name of a run that failed, and why."""


Tell = Callable[[int, int, Mapping[str, float]], None]
"""Called with steps done, steps in all and the newest metrics."""


@runtime_checkable
class Work(Protocol):
    """The work of one process; it is sent there, so that it can be pickled."""

    def make(self, *, device: str, max_minutes: float | None, tell: Tell) -> bool:
        """Do it, or as much as there is time for; whether it is finished."""


class _Teller(Callback):
    """Passes the news of a run on to a function."""

    def __init__(self, tell: Tell) -> None:
        self.tell, self.steps = tell, 0

    def on_start(self, step: int, steps: int) -> None:
        self.steps = steps

    def on_log(self, step: int, metrics: Mapping[str, float]) -> None:
        self.tell(step, self.steps, metrics)


@dataclass(frozen=True, kw_only=True)
class Planned:
    """A run to be made in a folder; one that is already there is gone on with."""

    experiment: Experiment
    folder: Path
    command: str = ""
    """The command line that asked for it, for provenance."""

    def make(self, *, device: str, max_minutes: float | None, tell: Tell) -> bool:
        """Train it; whether it has taken all its steps."""
        from algoformer.training.trainer import train

        run = train(
            self.experiment,
            self.folder,
            resume=(self.folder / LATEST).exists(),
            device=device,
            max_minutes=max_minutes,
            command=self.command,
            progress=False,
            callbacks=(_Teller(tell),),
        )
        return run.finished


def train_side_by_side(
    runs: Mapping[str, Work],
    *,
    workers: int | None = None,
    device: str = "cpu",
    max_minutes: float | None = None,
    progress: Progress,
    finished: Finished | None = None,
    failed: Failed | None = None,
) -> None:
    """Train all runs, `workers` at a time (by default as many as there are cores), each in its own process.

    Args:
        runs: by name, in the order in which they begin.
        workers: how many at once.
        device: where all of them train.
        max_minutes: after this long no further run begins, and those that run save a checkpoint and stop.
            The first ones always begin, so that every call makes progress.
        progress: called after every logged step of a run.
        finished: called when a run has taken all its steps; the others go on meanwhile.
        failed: called when a run failed, the others going on; without it the first failure stops all.

    Raises:
        RuntimeError: a run failed; the message names it and says why. The others are stopped, and can be
            resumed from their last checkpoints.
    """
    deadline = None if max_minutes is None else time.monotonic() + 60 * max_minutes
    context = multiprocessing.get_context("spawn")
    messages: Queue[Any] = context.Queue()
    waiting = list(runs.items())
    running: dict[str, BaseProcess] = {}
    most = workers or available_cores()

    def fail(name: str, reason: str) -> None:
        if failed is None:
            raise RuntimeError(f"the run {name!r} {reason}")
        failed(name, reason)

    try:
        while waiting or running:
            begun = len(waiting) < len(runs)
            if deadline is not None and begun and time.monotonic() >= deadline:
                waiting = []
            while waiting and len(running) < most:
                name, planned = waiting.pop(0)
                left = None if deadline is None else max(1e-3, (deadline - time.monotonic()) / 60)
                process: BaseProcess = context.Process(
                    target=_work,
                    args=(name, planned, messages, device, left),
                    daemon=device == "cpu",  # compiling for a GPU may start processes, which daemons cannot
                )
                with _interrupts("SIG_BLOCK"):
                    process.start()
                running[name] = process
            _listen(messages, running, progress, finished, fail)
    finally:
        for process in running.values():
            process.join(timeout=10)  # after Ctrl-C each saves its checkpoint first
            process.terminate()


@contextmanager
def _interrupts(how: Literal["SIG_BLOCK", "SIG_UNBLOCK"]) -> Iterator[None]:
    """Hold a Ctrl-C back inside, or let it through; a process that is started inside begins like that.

    A new process imports PyTorch first; a Ctrl-C in these seconds would end it with a traceback.
    """
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(getattr(signal, how), {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _listen(
    messages: Queue[Any],
    running: dict[str, BaseProcess],
    progress: Progress,
    finished: Finished | None,
    fail: Failed,
) -> None:
    try:
        name, kind, content = messages.get(timeout=0.5)
    except queue.Empty:
        for name, process in list(running.items()):
            if process.exitcode not in (None, 0):
                running.pop(name)
                fail(name, f"ended with exit code {process.exitcode}")
        return
    if kind == "step":
        progress(name, *content)
        return
    running.pop(name).join()
    if kind == "failed":
        fail(name, f"failed: {content}")
    elif content and finished is not None:
        finished(name)


def _work(name: str, planned: Work, messages: Queue[Any], device: str, max_minutes: float | None) -> None:
    import torch

    if device == "cpu":
        torch.set_num_threads(1)

    def tell(done: int, total: int, metrics: Mapping[str, float]) -> None:
        messages.put((name, "step", (done, total, dict(metrics))))

    try:
        with _interrupts("SIG_UNBLOCK"):
            finished = planned.make(device=device, max_minutes=max_minutes, tell=tell)
        messages.put((name, "done", finished))
    except KeyboardInterrupt:
        messages.cancel_join_thread()  # nobody reads any more, and the checkpoint is written
        raise SystemExit(130) from None  # or a parent that was not interrupted would wait for more
    except Exception as error:
        messages.put((name, "failed", f"{type(error).__name__}: {error}"))
