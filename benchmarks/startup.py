"""Section `ready`: seconds until a fresh process has done its first step, nothing compiled yet, and again."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import closing

from benchmarks.cases import experiment
from benchmarks.processes import Job, Worker
from benchmarks.setting import Row, Setting


def ready_rows(setting: Setting) -> Iterator[Row]:
    """A process with empty caches of compiled code, then another one that finds what the first left."""
    engine, precision = setting.engines[0], setting.precisions[0]
    for case in setting.cases:
        timed = experiment(case, setting.size, precision)
        job = Job(timed=timed, engine=engine, device=str(setting.device), block=1)
        with tempfile.TemporaryDirectory(prefix="algoformer-bench-") as folder:
            caches = {"TORCHINDUCTOR_CACHE_DIR": folder, "TRITON_CACHE_DIR": f"{folder}/triton"}
            seconds = []
            for _ in ("cold", "warm"):
                with closing(Worker(job, caches)) as worker:
                    seconds.append(worker.ready())
        yield {
            "case": case,
            "step": engine,
            "precision": precision,
            "ready_cold_seconds": seconds[0],
            "ready_warm_seconds": seconds[1],
        }
