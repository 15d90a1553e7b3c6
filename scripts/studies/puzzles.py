"""Sudoku and parity: one looped layer against standard transformers of equal FLOPs and of equal parameters.

Three models read the same boards: one layer that loops, the same number of distinct layers as the loop has
iterations (equal FLOPs), and one distinct layer (equal parameters). Parity is trained on up to 20 bits and
measured on 40 and 100, with as many iterations as bits.

    python -m scripts.studies.puzzles --out results/puzzles                       4 × 4 boards and parity, CPU
    python -m scripts.studies.puzzles --out results/puzzles --size sudoku9-9k --puzzles FILE --device cuda
    python -m scripts.studies.puzzles --out results/puzzles --size sudoku9-180k --puzzles FILE --device cuda
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import torch

from algoformer.evaluation import bootstrap, evaluate, evaluation_prompts
from algoformer.evaluation.precision import full_precision
from algoformer.model import presets
from algoformer.model.program import Program, default_steps
from algoformer.tasks import Parity, Sudoku
from algoformer.trace import Unroll
from algoformer.training import Experiment, TrainConfig
from scripts.studies.runs import StudyRun, add_options, make


@dataclass(frozen=True, kw_only=True)
class Boards:
    """The sizes of a Sudoku study.

    Attributes:
        task: settings of the task; the 9 × 9 boards get their file from the command line.
        steps: iterations of the loop, and layers of the standard transformer of equal FLOPs.
        width: width of the residual stream.
        heads: attention heads.
        training: settings of the training.
    """

    task: dict[str, Any]
    steps: int
    width: int
    heads: int
    training: dict[str, Any] = field(default_factory=dict)


USUAL: dict[str, Any] = {
    "optimizer": "adamw",
    "weight_decay": 0.01,
    "schedule": "cosine",
    "warmup": 0.04,
    "clip_norm": 1.0,
}

GPU: dict[str, Any] = {
    "lr": 1e-3,
    "batch_size": 128,
    "precision": "bf16",
    "validate_every": 1000,
    "window": 8,
}

SIZES = {
    "sudoku4": Boards(
        task={"size": 4},
        steps=8,
        width=32,
        heads=4,
        training={"steps": 5000, "batch_size": 32, "lr": 3e-3, "window": 2, "backprop": "full"},
    ),
    # 200 passes over 9,000 boards, as in the published run
    "sudoku9-9k": Boards(
        task={"size": 9, "least": 0, "most": 17, "boards": 9_000},
        steps=32,
        width=128,
        heads=4,
        training={"steps": 14_000, **GPU},
    ),
    "sudoku9-180k": Boards(
        task={"size": 9, "least": 0, "most": 17, "boards": 180_000},
        steps=32,
        width=128,
        heads=4,
        training={"steps": 42_000, **GPU},
    ),
}

LENGTHS = (20, 40, 100)
"""Bits on which parity is measured; training has at most the first number."""


def sudoku_runs(size: str, seeds: list[int], puzzles: str, steps: int | None) -> Iterator[StudyRun]:
    """Yield the runs on boards, seed by seed."""
    sizes = SIZES[size]
    task = Sudoku(**sizes.task, puzzles=puzzles if sizes.task["size"] == 9 else "")
    layer: dict[str, Any] = {"heads": sizes.heads, "causal": False}
    programs = {
        "looped": presets.looped(1, steps=sizes.steps, **layer),
        "standard-equal-flops": presets.standard(sizes.steps, **layer),
        "standard-equal-parameters": presets.standard(1, **layer),
    }
    for seed in seeds:
        for name, program in programs.items():
            words = {**USUAL, **sizes.training, "seed": seed, **({"steps": steps} if steps else {})}
            yield StudyRun(
                name=f"{name}/seed{seed}",
                experiment=Experiment(program, task, width=sizes.width, training=TrainConfig(**words)),
            )


def parity_runs(seeds: list[int], steps: int | None) -> Iterator[StudyRun]:
    """Yield the runs on parity: one layer without positions, as many iterations as bits."""
    task = Parity(length=LENGTHS[0])
    for seed in seeds:
        words = {**USUAL, **PARITY, "seed": seed, **({"steps": steps} if steps else {})}
        yield StudyRun(
            name=f"looped/seed{seed}",
            experiment=Experiment(parity_program(), task, width=32, training=TrainConfig(**words)),
        )


PARITY: dict[str, Any] = {"steps": 4000, "batch_size": 64, "lr": 2e-3, "window": 1, "backprop": "full"}


def parity_program() -> Program:
    """Return one causal layer without positions, looped."""
    return presets.looped(1, steps=LENGTHS[0], heads=2, positions="none")


def measure_boards(run: StudyRun, model: Any, boards: int) -> dict[str, Any]:
    """Return the share of solved boards by iteration, with bands, and by number of givens."""
    prompt = evaluation_prompts(run.experiment.task, count=boards)
    looped = run.kind == "looped"
    trained = default_steps(run.experiment.program)
    found = evaluate(model, prompt, steps=4 * trained if looped else 1, scale=1.0)
    assert found.unsolved is not None
    curve = found.unsolved
    at = curve.x.index(float(trained))
    solved = _solved(model, prompt, trained)
    givens = (prompt.rows.argmax(dim=2) > 0).sum(dim=1).numpy()
    return {
        "solved_by_iteration": {
            "iterations": [int(x) for x in curve.x],
            "solved": [round(1 - value, 5) for value in curve.error],
            "low": [round(1 - value, 5) for value in curve.high],
            "high": [round(1 - value, 5) for value in curve.low],
        },
        "solved_by_givens": {
            str(count): [float(solved[givens == count].mean()), int((givens == count).sum())]
            for count in sorted(set(givens.tolist()))
        },
        "summary": {
            "boards": prompt.batch,
            "iterations": trained,
            "solved": 1 - curve.error[at],
            "band": [1 - curve.high[at], 1 - curve.low[at]],
            "wrong_cells": found.by_step.error[at],
        },
    }


def _solved(model: Any, prompt: Any, steps: int) -> np.ndarray:
    device = next(model.parameters()).device
    with full_precision(model, device):
        answers = model(prompt.to(device), Unroll(steps=steps, window=1)).final.argmax(dim=-1).cpu()
    return (answers == prompt.targets.argmax(dim=-1)).all(dim=1).double().numpy()


def measure_parity(run: StudyRun, model: Any) -> dict[str, Any]:
    """Return the share of right answers at each length, with as many iterations as bits."""
    found: dict[str, Any] = {}
    for length in LENGTHS:
        prompt = evaluation_prompts(Parity(length=length, least=length), count=1024)
        band = bootstrap(_solved(model, prompt, length))
        found[str(length)] = {"right": float(band.mean), "band": [float(band.low), float(band.high)]}
    return {"summary": found}


def main() -> None:
    """Train and measure what was asked for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--puzzles", default="", help="File of 9 × 9 puzzles, one a line.")
    parser.add_argument("--boards", type=int, default=1024, help="Boards of the test split to measure on.")
    chosen = add_options(parser, ("cpu", *SIZES, "parity"))
    if chosen.device == "cpu":
        torch.set_num_threads(1)
    for size in ("sudoku4", "parity") if chosen.size == "cpu" else (chosen.size,):
        file = chosen.out / f"{size}.json"
        if size == "parity":
            make(list(parity_runs(chosen.seeds, chosen.steps)), measure_parity, chosen, file)
        else:
            runs = list(sudoku_runs(size, chosen.seeds, chosen.puzzles, chosen.steps))
            make(runs, partial(measure_boards, boards=chosen.boards), chosen, file)


if __name__ == "__main__":
    main()
