"""Section `memory`: what a training step needs as the loop grows, measured and by formula."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import torch

from algoformer.training import Experiment
from benchmarks.cases import bill, experiment
from benchmarks.contestants import Engine, Ours
from benchmarks.setting import Row, Setting
from benchmarks.timing import Timing, time_steps

WAYS = ("window", "full", "full, recompute")
"""How the gradient flows: through the window, through all iterations, or through all of them run again."""


def memory_rows(setting: Setting) -> Iterator[Row]:
    """The AlgoFormer's step for each T and each way of the gradient.

    The formula counts activations in fp32, and neither weights nor what happens in passing.
    """
    precision, engine = setting.precisions[0], _engine(setting)
    for steps in setting.size.depths:
        for way in WAYS:
            case = "algoformer_window" if way == "window" else "algoformer_full"
            timed = experiment(case, setting.size, precision, steps=steps)
            if way.endswith("recompute"):
                timed = replace(timed, training=replace(timed.training, gradient_checkpointing=True))
            timing = _timing(timed, setting, engine)
            yield {
                "T": steps,
                "gradient": way,
                "step": engine,
                "precision": precision,
                "ms": None if timing is None else timing.ms,
                "peak_mebibytes": None if timing is None else timing.peak_mebibytes,
                "formula_mebibytes": bill(timed).activation_bytes / 2**20,
            }


def _engine(setting: Setting) -> Engine:
    """The first one asked for; the hand-written kernels cannot recompute, and rows must be comparable."""
    return "compiled" if setting.engines[0] == "fused" else setting.engines[0]


def _timing(timed: Experiment, setting: Setting, engine: Engine) -> Timing | None:
    """A few steps; None if the device has not enough memory for one."""
    make = partial(Ours, timed, engine, setting.device)
    try:
        return time_steps(make, setting.device, blocks=3, block=2)
    except torch.OutOfMemoryError:
        return None
