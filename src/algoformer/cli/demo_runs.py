"""The runs of `algoformer demo`: three small models learn linear regression in one dimension."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from algoformer.algorithms import GradientDescent, LeastSquares, Newton
from algoformer.checkpoint import LATEST
from algoformer.cli.explore_pages import textbook_constants
from algoformer.common.files import write_json
from algoformer.evaluation import Evaluation, compare, evaluation_prompts
from algoformer.evaluation.errors import Progress
from algoformer.model import presets as programs
from algoformer.model.program import default_steps
from algoformer.tasks import LinearRegression
from algoformer.trace import Solver
from algoformer.training import Experiment, TrainConfig, load_checkpoint

MODELS = ("algoformer", "looped", "standard")
"""The most expensive first, so that two workers end together."""

BEYOND = 5
"""Multiple of the trained depth at which the loops are measured, to see whether they stay stable."""

RECIPE = Experiment(
    program=programs.algoformer(steps=10, heads=4),
    data=LinearRegression(dim=1, points=11),
    width=32,
    training=TrainConfig(
        steps=1200,
        batch_size=32,
        optimizer="muon",
        lr=3e-3,
        schedule="cosine",
        warmup=0.02,
        clip_norm=1.0,
        window=4,
        backprop="full",
        burn_in=(0, 0, 10),
        loss="log",
        log_every=100,
        checkpoint_every=1200,
    ),
)
"""The AlgoFormer of the demo. Its loss is on the last four of ten iterations: the loop has room to settle."""


class DemoRun(NamedTuple):
    """A run of the demo and its folder."""

    experiment: Experiment
    folder: Path

    def begin(self) -> subprocess.Popen[str]:
        """Start `algoformer train` on one thread; a run that is already there is resumed.

        On a CPU several processes of one thread are faster than one process of several.
        """
        how = ["--resume"]
        if not (self.folder / LATEST).exists():
            config = self.folder.parents[1] / f"{self.folder.name}.json"
            write_json(config, self.experiment.to_data())
            how = ["--config", str(config)]
        words = [sys.executable, "-m", "algoformer", "train", *how, "--out", str(self.folder)]
        return subprocess.Popen(
            [*words, "--device", "cpu", "--no-evaluate"],
            env={**os.environ, "OMP_NUM_THREADS": "1"},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )


def plan(folder: Path) -> dict[str, DemoRun]:
    """Return the three runs of the demo."""
    shapes = {
        "algoformer": RECIPE,
        "looped": replace(RECIPE, program=programs.looped(steps=10, heads=4)),
        "standard": replace(
            RECIPE,
            program=programs.standard(layers=4, heads=4),
            training=replace(RECIPE.training, burn_in=(), window=1),
        ),
    }
    return {name: DemoRun(shapes[name], folder / "runs" / name) for name in MODELS}


def measure(plans: Mapping[str, DemoRun], *, progress: Progress | None = None) -> list[Evaluation]:
    """Measure all models and textbook methods on the same held-out prompts, beyond the trained depth.

    Textbook methods have the constants that the explorer uses.
    """
    task, constants = RECIPE.task, textbook_constants(RECIPE.task)
    solvers: dict[str, Solver] = {
        name: load_checkpoint(planned.folder / "checkpoint.safetensors").model.eval()
        for name, planned in plans.items()
    }
    solvers |= {
        "gradient descent": GradientDescent(step_size=constants["step_size"], view=task.problems),
        "Newton's method": Newton(alpha=constants["alpha"], view=task.problems),
        "least squares": LeastSquares(view=task.problems),
    }
    steps = BEYOND * default_steps(RECIPE.program)
    prompts = evaluation_prompts(task, count=512)
    return compare(solvers, prompts, steps=steps, progress=progress)
