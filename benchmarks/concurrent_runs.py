"""Section `together`: several runs at once on one device. Do they do more than one run after the other?"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack, closing

from benchmarks.cases import experiment
from benchmarks.processes import Job, Worker
from benchmarks.setting import Row, Setting

HEAD_START = 0.5
"""Seconds between the word to start and the start, so that all processes have heard it."""


def together_rows(setting: Setting) -> Iterator[Row]:
    """Steps per second of all processes together, for each number of processes, against those of one."""
    size, engine, precision = setting.size, setting.engines[0], setting.precisions[0]
    for case in setting.cases:
        alone = None
        for count in setting.processes:
            job = Job(
                timed=experiment(case, size, precision),
                engine=engine,
                device=str(setting.device),
                block=size.block,
            )
            rates = steps_per_second(job, count, size.together_seconds)
            total = sum(rates)
            alone = total if count == 1 else alone
            yield {
                "case": case,
                "step": engine,
                "precision": precision,
                "processes": count,
                "steps_per_second": total,
                "slowest_process": min(rates),
                "times_one": None if alone is None else total / alone,
            }


def steps_per_second(job: Job, count: int, seconds: int | float) -> list[float]:
    """What each of `count` processes does; they begin at one moment, when all are ready."""
    with ExitStack() as stack:
        # the first one compiles, and the others find its code
        workers = [stack.enter_context(closing(Worker(job)))]
        workers[0].ready()
        workers += [stack.enter_context(closing(Worker(job))) for _ in range(count - 1)]
        for worker in workers[1:]:
            worker.ready()
        start = time.time() + HEAD_START
        for worker in workers:
            worker.go(start, seconds)
        return [worker.rate(seconds) for worker in workers]
