"""`algoformer export`: a trained model as one small file with its card, to keep and to share."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import torch
import tyro

from algoformer.cli.measure import held_out_prompts, load_contender
from algoformer.cli.new_file import refuse_existing
from algoformer.cli.parse import parse
from algoformer.cli.progress import counting
from algoformer.common.devices import pick_device
from algoformer.evaluation import depth_sweep, evaluate
from algoformer.training import Checkpoint, save_checkpoint
from algoformer.training.session import COMMAND, RUNS_AT_ONCE
from algoformer.training.solver import open_solver
from algoformer.training.stored_model import in_half_precision
from algoformer.training.trainer import ORIGIN

DESCRIPTION = """Write the model of a run, without what only training needs, to one file with measured facts:
task, steps, error at the trained depth and beyond it.

Example: algoformer export runs/linear-algoformer-smoke-seed0 linear.safetensors
"""

CARRIED = (
    *("step", "seconds", RUNS_AT_ONCE, "experiment", "weights", "torch", "device", "commit", COMMAND),
    *("engine", "precision", ORIGIN),
)
"""What the card takes over from the run."""


@dataclass(frozen=True)
class ExportOptions:
    """Options of `algoformer export`."""

    run: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(help="A run folder or a checkpoint file.")]
    file: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(help="What to write.")]
    half: Annotated[bool, tyro.conf.arg(help="Store in half precision; measured as it will be read.")] = False
    raw: Annotated[bool, tyro.conf.arg(help="Take a run's last weights where it keeps their average.")] = (
        False
    )
    depths: Annotated[tuple[int, ...], tyro.conf.arg(help="Measure after so many iterations.")] = (200, 1000)
    prompts: Annotated[int, tyro.conf.arg(help="Held-out prompts.")] = 1280
    device: Annotated[Literal["auto", "cpu", "cuda", "mps"], tyro.conf.arg(help="Where to measure.")] = "auto"


def run_export(arguments: list[str]) -> int:
    """Measure the model as it will be stored, and write it."""
    chosen = parse(ExportOptions, arguments, command="export", description=DESCRIPTION)
    refuse_existing(chosen.file)
    contender = load_contender(chosen.run, raw=chosen.raw)
    card = {name: value for name, value in contender.card.items() if name in CARRIED}
    model = contender.model
    if chosen.half:
        model = in_half_precision(model)
    model = model.to(pick_device(chosen.device))
    prompt = held_out_prompts([contender], chosen.prompts)
    scale, depths = contender.task.scale, sorted({contender.steps, *chosen.depths})
    with counting("measuring") as progress, open_solver(model) as solver:  # reads all depths from one run
        result = evaluate(solver, prompt, steps=contender.steps, scale=scale, label=contender.label, window=1)
        curve = depth_sweep(solver, prompt, depths=depths, scale=scale, progress=progress)
    card |= {
        "prompts": chosen.prompts,
        "error_by_sample": list(result.by_sample.error),
        "error_band": [result.by_sample.low[-1], result.by_sample.high[-1]],
        "error_by_depth": {str(depth): curve.at(depth) for depth in depths},
    }
    stored = model.cpu().half() if chosen.half else model.cpu().to(torch.float32)
    save_checkpoint(chosen.file, Checkpoint(model=stored, task=contender.task, card=card))
    for depth in depths:
        print(f"error at T = {depth}: {curve.at(depth):.3g}")
    print(chosen.file)
    return 0
