"""Several small runs at once, one thread each: on a CPU that is faster than one after the other."""

from __future__ import annotations

import multiprocessing
import os
import queue
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from multiprocessing.process import BaseProcess
from multiprocessing.queues import Queue
from pathlib import Path
from typing import Any

from algoformer.training.config import Experiment

Progress = Callable[[str, int, int, Mapping[str, float]], None]
"""Called with the run's name, steps done, steps in all and the newest metrics."""


@dataclass(frozen=True, kw_only=True)
class Planned:
    """A run to be made in a folder; one that is already there is gone on with."""

    experiment: Experiment
    folder: Path


def train_side_by_side(
    runs: Mapping[str, Planned], *, workers: int | None = None, progress: Progress
) -> None:
    """Train all runs, `workers` at a time (by default as many as there are cores), each in its own process.

    Raises:
        RuntimeError: a run failed; the message names it and says why. The others are stopped, and can be
            resumed from their last checkpoints.
    """
    context = multiprocessing.get_context("spawn")
    messages: Queue[Any] = context.Queue()
    waiting = list(runs.items())
    running: dict[str, BaseProcess] = {}
    most = workers or available_cores()
    try:
        while waiting or running:
            while waiting and len(running) < most:
                name, planned = waiting.pop(0)
                process: BaseProcess = context.Process(
                    target=_work, args=(name, planned, messages), daemon=True
                )
                process.start()
                running[name] = process
            _listen(messages, running, progress)
    finally:
        for process in running.values():
            process.join(timeout=10)  # after Ctrl-C each saves its checkpoint first
            process.terminate()


def available_cores() -> int:
    """The cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _listen(messages: Queue[Any], running: dict[str, BaseProcess], progress: Progress) -> None:
    try:
        name, kind, content = messages.get(timeout=0.5)
    except queue.Empty:
        for name, process in running.items():
            if process.exitcode not in (None, 0):
                raise RuntimeError(f"the run {name!r} ended with exit code {process.exitcode}") from None
        return
    if kind == "step":
        progress(name, *content)
    elif kind == "done":
        running.pop(name).join()
    else:
        raise RuntimeError(f"the run {name!r} failed: {content}")


def _work(name: str, planned: Planned, messages: Queue[Any]) -> None:
    import torch

    from algoformer.training.trainer import train

    torch.set_num_threads(1)

    def tell(done: int, total: int, metrics: Mapping[str, float]) -> None:
        messages.put((name, "step", (done, total, dict(metrics))))

    try:
        resume = (planned.folder / "config.json").exists()
        train(planned.experiment, planned.folder, resume=resume, progress=tell)
        messages.put((name, "done", None))
    except KeyboardInterrupt:
        messages.cancel_join_thread()  # nobody reads any more, and the checkpoint is written
    except Exception as error:
        messages.put((name, "failed", f"{type(error).__name__}: {error}"))
