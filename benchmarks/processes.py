"""Steps in processes of their own: several at once, or one that has compiled nothing yet."""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any

import torch

from algoformer.training import Experiment
from benchmarks.contestants import Engine, Ours
from benchmarks.timing import wait

PATIENCE = 600.0
"""Seconds that a process may take to get ready."""


@dataclass(frozen=True, kw_only=True)
class Job:
    """Steps that a process takes: which, how and where."""

    timed: Experiment
    engine: Engine
    device: str
    block: int


class Worker:
    """A process that gets ready, says so, and takes steps when told.

    Raises:
        RuntimeError: the process failed or did not answer; the message says why.
    """

    def __init__(self, job: Job, environment: Mapping[str, str] | None = None) -> None:
        context = multiprocessing.get_context("spawn")
        self.pipe, other = context.Pipe()
        self.process: BaseProcess = context.Process(target=_work, args=(job, other), daemon=True)
        with _environment(environment or {}):
            self.process.start()
        other.close()  # else a process that dies would not be noticed

    def ready(self) -> float:
        """Wait until it is ready; the seconds from the beginning of its work to the end of its first step."""
        return self._receive(PATIENCE)

    def go(self, start: float, seconds: float) -> None:
        """Let it take steps for so long, from a moment of `time.time()` on."""
        self.pipe.send((start, seconds))

    def rate(self, seconds: float) -> float:
        """Wait for the steps per second that it took."""
        return self._receive(seconds + PATIENCE)

    def close(self) -> None:
        """End the process."""
        self.pipe.close()
        self.process.join(timeout=5)
        if self.process.is_alive():
            self.process.terminate()
            self.process.join()

    def _receive(self, patience: float) -> float:
        try:
            if not self.pipe.poll(patience):
                raise RuntimeError(f"a process did not answer within {patience:.0f} seconds")
            answer = self.pipe.recv()
        except EOFError:
            self.process.join()
            raise RuntimeError(f"a process ended with exit code {self.process.exitcode}") from None
        if isinstance(answer, str):
            raise RuntimeError(f"a process failed: {answer}")
        return float(answer)


def _work(job: Job, pipe: Connection) -> None:
    try:
        device = torch.device(job.device)
        if device.type == "cpu":
            torch.set_num_threads(1)
        with closing(Ours(job.timed, job.engine, device)) as ours:
            ours.take(1)
            wait(device)
            pipe.send(time.perf_counter() - ours.began)
            ours.take(job.block)
            wait(device)
            start, seconds = pipe.recv()
            pipe.send(_steps_per_second(ours, job.block, device, start, seconds))
    except (EOFError, BrokenPipeError):
        return  # nobody asks for more
    except Exception as error:
        pipe.send(f"{type(error).__name__}: {error}")


def _steps_per_second(ours: Ours, block: int, device: torch.device, start: float, seconds: float) -> float:
    time.sleep(max(0.0, start - time.time()))
    began, taken = time.perf_counter(), 0
    while time.perf_counter() - began < seconds:
        ours.take(block)
        wait(device)
        taken += block
    return taken / (time.perf_counter() - began)


@contextmanager
def _environment(values: Mapping[str, str]) -> Iterator[None]:
    before: dict[str, Any] = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
