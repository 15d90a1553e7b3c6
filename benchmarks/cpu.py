"""Section `cpu`: the demo's training step on a CPU, beside the plain one, as it stands and compiled."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing

import torch

from algoformer.cli.demo_runs import MODELS
from algoformer.training.presets import experiment
from benchmarks.contestants import Contestant, Ours, Plain
from benchmarks.setting import Row, Setting
from benchmarks.timing import clear

CPU = torch.device("cpu")

TURN = 3
"""Steps until the next one's turn."""


def cpu_rows(setting: Setting) -> Iterator[Row]:
    """For each model of the demo ours and plain, as they stand and compiled, in turns with one thread.

    What counts is the time that the processor worked for this process, which stands still while others
    have it; and turns make all suffer alike from a machine that is busy.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        for name in MODELS:
            yield from _model_rows(name, setting)
    finally:
        torch.set_num_threads(threads)


def _model_rows(name: str, setting: Setting) -> Iterator[Row]:
    timed = experiment("linear", name, "smoke")
    clear(CPU)
    with ExitStack() as stack:
        contestants: dict[str, Contestant] = {
            "plain": stack.enter_context(closing(Plain(timed, CPU))),
            "ours": stack.enter_context(closing(Ours(timed, "eager", CPU))),
        }
        if setting.size.cpu_compiled:
            contestants["plain compiled"] = stack.enter_context(closing(Plain(timed, CPU, compiled=True)))
            contestants["ours compiled"] = stack.enter_context(closing(Ours(timed, "compiled", CPU)))
        times: dict[str, list[float]] = {kind: [] for kind in contestants}
        for contestant in contestants.values():
            contestant.take(2 * setting.size.block)
        for _ in range(setting.size.cpu_blocks):
            for kind, contestant in contestants.items():
                times[kind].append(_processor_ms(contestant, TURN))
    for kind, found in times.items():
        yield {
            "model": name,
            "step": kind,
            "ms": statistics.median(found),
            "ms_fastest": min(found),
            "ms_slowest": max(found),
            "times_plain": statistics.median(times["plain"]) / statistics.median(found),
            "times_plain_fastest": min(times["plain"]) / min(found),
        }


def _processor_ms(contestant: Contestant, count: int) -> float:
    began = time.process_time()
    contestant.take(count)
    return 1000 * (time.process_time() - began) / count
