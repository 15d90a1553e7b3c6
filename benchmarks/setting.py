"""What a benchmark is asked for, and what it is run on."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path

import torch

from algoformer.common.devices import device_name, source_commit
from algoformer.training.config import Precision
from benchmarks.cases import DEFAULT_CASES, FULL, Size
from benchmarks.contestants import Engine

Cell = str | int | float | bool | None
Row = dict[str, Cell]
"""One measurement: names and numbers."""


@dataclass(frozen=True, kw_only=True)
class Setting:
    """What is timed, how large and where.

    Attributes:
        device: where.
        size: how large.
        cases: which models.
        engines: how the library takes its steps.
        precisions: of the library's matrix products; the plain step has TF32 on CUDA.
        processes: how many simultaneous runs are tried.
        check: whether the losses of the engines are compared in fp32.
        before: another checkout of this repository, to compare the commands for text with.
    """

    device: torch.device
    size: Size = FULL
    cases: tuple[str, ...] = DEFAULT_CASES
    engines: tuple[Engine, ...] = ("compiled",)
    precisions: tuple[Precision, ...] = ("bf16",)
    processes: tuple[int, ...] = (1, 2, 3, 4)
    check: bool = False
    before: Path | None = None


def device_facts(device: torch.device) -> dict[str, Cell]:
    """The machine in words, for provenance."""
    on_cuda = device.type == "cuda"
    return {
        "device": device_name(device),
        "mps": on_cuda and _shared_by_mps(),
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "commit": source_commit(),
        "date": time.strftime("%Y-%m-%d"),
    }


def _shared_by_mps() -> bool:
    # NVIDIA's Multi-Process Service leaves its pipes in a folder of its own
    folder = Path(os.environ.get("CUDA_MPS_PIPE_DIRECTORY", "/tmp/nvidia-mps"))
    return (folder / "control").exists()
