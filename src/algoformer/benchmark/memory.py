"""Section `memory`: what a training step keeps as the loop grows, by clock of the device and by formula."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace

import torch

from algoformer.benchmark.cases import bill, experiment
from algoformer.benchmark.clock import clear, wait
from algoformer.benchmark.contestants import Ours
from algoformer.benchmark.setting import Row, Setting
from algoformer.training.config import Experiment

WAYS = ("window", "full", "full, recompute")
"""How the gradient flows: through the window, through all iterations, or through all of them run again."""


def memory_rows(setting: Setting) -> Iterator[Row]:
    """The AlgoFormer's step for each T and each way of the gradient."""
    engine, precision = setting.engines[0], setting.precisions[0]
    for steps in setting.size.depths:
        for way in WAYS:
            case = "algoformer_window" if way == "window" else "algoformer_full"
            timed = experiment(case, setting.size, precision, steps=steps)
            if way.endswith("recompute"):
                timed = replace(timed, training=replace(timed.training, recompute=True))
            yield {
                "T": steps,
                "gradient": way,
                "step": engine,
                "precision": precision,
                "peak_mebibytes": peak_mebibytes(timed, setting),
                "kept_mebibytes": kept_mebibytes(timed),
                "formula_mebibytes": bill(timed).activation_bytes / 2**20,
            }


def peak_mebibytes(timed: Experiment, setting: Setting) -> float | None:
    """The most device memory in use during three steps; None on a CPU."""
    if setting.device.type != "cuda":
        return None
    clear(setting.device)
    with closing(Ours(timed, setting.engines[0], setting.device)) as ours:
        ours.take(3)
        wait(setting.device)
        return torch.cuda.max_memory_allocated(setting.device) / 2**20
