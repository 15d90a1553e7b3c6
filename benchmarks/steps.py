"""Section `steps`: a training step of each model, beside the same step by hand; and whether engines agree."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from functools import partial

from benchmarks.cases import bill, experiment
from benchmarks.contestants import Engine, Ours, Plain
from benchmarks.setting import Row, Setting
from benchmarks.timing import Timing, clear, time_steps

SAME = 1e-5
"""Losses whose relative difference is at most this are the same up to rounding."""


def step_rows(setting: Setting) -> Iterator[Row]:
    """For each case the plain eager step first, then ours; ratios are to the former."""
    size, device = setting.size, setting.device
    for case in setting.cases:
        by_hand = experiment(case, size)
        # eager steps are long, and short blocks will do
        short = max(2, size.block // 3)
        slow = time_steps(partial(Plain, by_hand, device), device, blocks=size.blocks, block=short)
        plain: Row = {"case": case, "step": "plain", "precision": "tf32" if device.type == "cuda" else "fp32"}
        yield _row(setting, case, slow, slow, plain)
        for engine in setting.engines:
            for precision in setting.precisions:
                timed = experiment(case, size, precision)
                block = short if engine == "eager" else size.block
                fast = time_steps(
                    partial(Ours, timed, engine, device), device, blocks=size.blocks, block=block
                )
                yield _row(setting, case, fast, slow, {"case": case, "step": engine, "precision": precision})
    if setting.check:
        yield from _check_rows(setting)


def _row(setting: Setting, case: str, timing: Timing, plain: Timing, names: Row) -> Row:
    flops = bill(experiment(case, setting.size)).training
    return {
        **names,
        "ms": timing.ms,
        "ms_fastest": timing.fastest,
        "ms_slowest": timing.slowest,
        "times_plain": plain.ms / timing.ms,
        "teraflops": flops / (timing.ms / 1000) / 1e12,
        "ready_seconds": timing.ready_seconds,
        "peak_mebibytes": timing.peak_mebibytes,
    }


def _check_rows(setting: Setting) -> Iterator[Row]:
    """The largest relative difference to eager among the losses of the first steps, in fp32."""
    on_cuda = setting.device.type == "cuda"
    wanted: tuple[Engine, ...] = ("graph", "compiled") if on_cuda else setting.engines
    engines = [engine for engine in wanted if engine != "eager"]
    for case in setting.cases:
        expected = _losses(setting, case, "eager")
        for engine in engines:
            found = _losses(setting, case, engine)
            largest = max(abs(one - other) / other for one, other in zip(found, expected, strict=True))
            yield {
                "case": case,
                "step": engine,
                "precision": "fp32",
                "losses_differ_by": largest,
                "same": largest <= SAME,
            }


def _losses(setting: Setting, case: str, engine: Engine) -> list[float]:
    clear(setting.device)
    with closing(Ours(experiment(case, setting.size), engine, setting.device)) as ours:
        return ours.losses(setting.size.compared)
