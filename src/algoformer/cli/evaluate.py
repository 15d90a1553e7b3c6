"""`algoformer evaluate`: runs and textbook solvers in one table and one picture."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro

from algoformer.algorithms import SOLVERS, build_solver
from algoformer.cli.measure import measure_runs
from algoformer.cli.parse import parse
from algoformer.cli.say import say
from algoformer.common.devices import pick_device
from algoformer.evaluation import summary_table

DESCRIPTION = f"""Measure runs on fixed held-out prompts, beside textbook solvers; draw them on one picture.

Examples:
  algoformer evaluate runs/linear-algoformer-smoke-seed0 --against newton,gd
  algoformer evaluate runs/a runs/b --against oracle --steps 200 --out comparison

Solvers for --against: {", ".join(SOLVERS)}
"""


@dataclass(frozen=True)
class EvaluateOptions:
    """Options of `algoformer evaluate`."""

    runs: Annotated[tyro.conf.Positional[tuple[Path, ...]], tyro.conf.arg(help="Run folders or checkpoints.")]
    against: Annotated[str, tyro.conf.arg(help="Textbook solvers, separated by commas.")] = ""
    steps: Annotated[int | None, tyro.conf.arg(help="Iterations; by default as trained.")] = None
    prompts: Annotated[int, tyro.conf.arg(help="Held-out prompts.")] = 1280
    raw: Annotated[bool, tyro.conf.arg(help="Take a run's last weights where it keeps their average.")] = (
        False
    )
    device: Annotated[Literal["auto", "cpu", "cuda", "mps"], tyro.conf.arg(help="Where models run.")] = "auto"
    out: Annotated[Path | None, tyro.conf.arg(help="Where numbers and pictures go; by default the run.")] = (
        None
    )


def run_evaluate(arguments: list[str]) -> int:
    """Measure, print, draw."""
    chosen = parse(EvaluateOptions, arguments, command="evaluate", description=DESCRIPTION)
    if not chosen.runs:
        raise ValueError("evaluate needs at least one run folder or checkpoint file")
    against = [name.strip() for name in chosen.against.split(",") if name.strip()]
    for name in against:
        build_solver(name)  # an unknown name is refused before anything is measured
    if chosen.steps is not None and chosen.steps < 1:
        raise ValueError(f"steps must be at least 1, got {chosen.steps}")
    folder = chosen.out or default_folder(chosen.runs)
    results = measure_runs(
        chosen.runs,
        against=against,
        folder=folder,
        prompts=chosen.prompts,
        steps=chosen.steps,
        raw=chosen.raw,
        command=shlex.join(["algoformer", "evaluate", *arguments]),
        device=pick_device(chosen.device),
    )
    say(summary_table(results))
    print(f"numbers and pictures: {folder}")
    return 0


def default_folder(runs: tuple[Path, ...]) -> Path:
    """One run keeps its numbers; several need a place of their own."""
    if len(runs) == 1:
        return runs[0] if runs[0].is_dir() else runs[0].with_suffix("")
    return Path("evaluation")
