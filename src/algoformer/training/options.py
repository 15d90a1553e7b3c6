"""How a run is carried out: everything about it that does not change what is learned."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import torch

from algoformer.common.keywords import suggests_keywords

EngineName = Literal["auto", "eager", "graph", "compiled", "fused"]
ParallelName = Literal["auto", "ddp", "fsdp"]


class Callback:
    """Receives the news of a run; override what is of interest. On several processes only rank zero calls."""

    def on_start(self, step: int, steps: int) -> None:
        """Called once before the first step of this session, with the steps done and the steps in all."""

    def on_log(self, step: int, metrics: Mapping[str, float]) -> None:
        """Called after every new row of metrics."""

    def on_end(self, step: int) -> None:
        """Called when the session ends, in whichever way."""


def progress_callbacks(wanted: bool | None) -> tuple[Callback, ...]:
    """Return a progress bar, or nothing; None shows one on a terminal and in a notebook."""
    watched = sys.stderr.isatty() or "ipykernel" in sys.modules
    if not (watched if wanted is None else wanted):
        return ()
    from algoformer.training.progress import ProgressBar

    return (ProgressBar(),)


@suggests_keywords({"time_limit": "max_minutes", "gpu": "device", "verbose": "progress"})
@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """How to carry out a run; none of it changes which weights come out on a CPU.

    Attributes:
        device: where to train.
        engine: how steps are taken: "eager" and "compiled" anywhere, "graph" or "fused" on CUDA, or "auto".
        parallel: what several processes share: "ddp" the work, "fsdp" also weights, gradients and optimizer
            state; "auto" is "ddp" where there are several.
        max_minutes: stop after this long with a checkpoint, to be resumed later.
        progress: show a progress bar on standard error; None shows one on a terminal and in a notebook.
        callbacks: objects whose `on_start`, `on_log` and `on_end` are called.
        tensorboard: also write the metrics to `folder`/tensorboard where TensorBoard is installed.
        command: the command that asked for the run, kept in the card so that it can be repeated.
    """

    device: str | torch.device = "cpu"
    engine: EngineName = "auto"
    parallel: ParallelName = "auto"
    max_minutes: float | None = None
    progress: bool | None = None
    callbacks: tuple[Callback, ...] = ()
    tensorboard: bool = True
    command: str = ""

    def __post_init__(self) -> None:
        if self.max_minutes is not None and not self.max_minutes > 0:
            raise ValueError(f"max_minutes must be positive, or None for no limit, got {self.max_minutes}")
