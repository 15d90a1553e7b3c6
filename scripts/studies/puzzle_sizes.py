"""The sizes of the study on puzzles, for one CPU core and for a GPU, and how they are trained."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from algoformer.tasks import Addition, Hops, Sudoku


@dataclass(frozen=True, kw_only=True)
class Size:
    """The sizes of a study.

    Attributes:
        task: returns the task; its argument is the file of puzzles of the command line.
        steps: iterations of the loop, and layers of the standard transformer of equal FLOPs.
        width: width of the residual stream.
        heads: attention heads.
        training: settings of the training.
        step_signal: what tells the loop its iteration, as in `Loop`.
    """

    task: Callable[[str], Any]
    steps: int
    width: int
    heads: int
    training: dict[str, Any]
    step_signal: str = "none"


USUAL: dict[str, Any] = {
    "optimizer": "muon",
    "weight_decay": 0.01,
    "schedule": "cosine",
    "warmup": 0.04,
    "clip_norm": 1.0,
}

CPU: dict[str, Any] = {"steps": 1500, "batch_size": 32, "lr": 1e-2, "window": 2, "backprop": "full"}

GPU: dict[str, Any] = {
    "lr": 4e-3,
    "batch_size": 128,
    "precision": "bf16",
    "validate_every": 1000,
    "window": 16,
    "backprop": "full",
    "ema": 0.999,
}

STAGES: dict[str, Any] = {
    "lr": 5e-3,
    "batch_size": 64,
    "window": 64,
    "loss": "stages",
    "stage_steps": 2,
}

ONE_CORE: dict[str, Any] = {
    "lr": 1e-2,
    "batch_size": 32,
    "precision": "bf16",
    "window": 8,
}
"""9 × 9 boards on one core of a CPU with bf16 instructions, at two steps a second."""

SIZES = {
    "sudoku4": Size(task=lambda _: Sudoku(size=4), steps=8, width=32, heads=4, training=CPU),
    "hops-small": Size(
        task=lambda _: Hops(length=12, symbols=3, hops=2),
        steps=4,
        width=32,
        heads=4,
        training=CPU,
    ),
    "addition-small": Size(
        task=lambda _: Addition(numbers=3, digits=1),
        steps=4,
        width=32,
        heads=4,
        training=CPU,
    ),
    # some 57 passes: after more, boards are known by heart
    "sudoku9-9k": Size(
        task=lambda file: Sudoku(size=9, least=0, most=17, boards=9_000, puzzles=file),
        steps=32,
        width=128,
        heads=4,
        training={**GPU, "steps": 4000, "weight_decay": 0.1},
    ),
    # the same boards with their digits exchanged at random whenever they are drawn
    "sudoku9-9k-exchange": Size(
        task=lambda file: Sudoku(size=9, least=0, most=17, boards=9_000, exchange=True, puzzles=file),
        steps=32,
        width=128,
        heads=4,
        training={**GPU, "steps": 10_000},
    ),
    "sudoku9-9k-cpu": Size(
        task=lambda file: Sudoku(size=9, least=0, most=17, boards=9_000, puzzles=file),
        steps=32,
        width=128,
        heads=4,
        training={"steps": 10_000, **ONE_CORE},
    ),
    "sudoku9-180k": Size(
        task=lambda file: Sudoku(size=9, least=0, most=17, boards=180_000, puzzles=file),
        steps=32,
        width=128,
        heads=4,
        training={**GPU, "steps": 24_000},
    ),
    # every second iteration has a target: one more hop
    "hops-full": Size(
        task=lambda _: Hops(length=256, symbols=4, hops=32, every_row=True),
        steps=64,
        width=256,
        heads=8,
        training={**GPU, **STAGES, "steps": 3000},
    ),
    # the loop must know which number comes next: it is told its iteration
    "addition-full": Size(
        task=lambda _: Addition(numbers=32, digits=3),
        steps=32,
        width=256,
        heads=8,
        training={**GPU, **STAGES, "steps": 6000, "window": 32, "stage_steps": 1},
        step_signal="sinusoid",
    ),
}
SIZES["addition-long"] = replace(
    SIZES["addition-full"], training={**SIZES["addition-full"].training, "steps": 12_000}
)
