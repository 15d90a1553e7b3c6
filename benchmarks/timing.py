"""Milliseconds a step, fairly: after a warm-up, in blocks, with the device waited for."""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass

import torch

from benchmarks.contestants import Contestant


@dataclass(frozen=True, kw_only=True)
class Timing:
    """How long steps took.

    Attributes:
        ms: a step, in the median block.
        fastest: a step, in the fastest block.
        slowest: a step, in the slowest block.
        ready_seconds: until the first step was done, compilation and capture included.
        peak_mebibytes: the most device memory in use, from the making on; None on a CPU.
    """

    ms: float
    fastest: float
    slowest: float
    ready_seconds: float
    peak_mebibytes: float | None


def time_steps(make: Callable[[], Contestant], device: torch.device, *, blocks: int, block: int) -> Timing:
    """Make a contestant, let it take a step and a block to warm up, then time it block by block."""
    clear(device)
    with closing(make()) as contestant:
        contestant.take(1)
        wait(device)
        ready = time.perf_counter() - contestant.began
        contestant.take(block)
        times = sorted(time_block(contestant, block, device) for _ in range(blocks))
        peak = torch.cuda.max_memory_allocated(device) / 2**20 if device.type == "cuda" else None
    return Timing(
        ms=statistics.median(times),
        fastest=times[0],
        slowest=times[-1],
        ready_seconds=ready,
        peak_mebibytes=peak,
    )


def time_block(contestant: Contestant, count: int, device: torch.device) -> float:
    """Milliseconds a step, over a block of steps."""
    if device.type != "cuda":
        began = time.perf_counter()
        contestant.take(count)
        return 1000 * (time.perf_counter() - began) / count
    first, last = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    first.record()
    contestant.take(count)
    last.record()
    last.synchronize()
    return first.elapsed_time(last) / count


def wait(device: torch.device) -> None:
    """Until the device has done all it was asked for."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def clear(device: torch.device) -> None:
    """Forget compiled code, free memory and begin to count its peak anew."""
    torch._dynamo.reset()
    gc.collect()
    if device.type == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats(device)
