"""The runs of `algoformer demo`: three small models learn linear regression in one dimension."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from algoformer.algorithms import GradientDescent, LeastSquares, Newton
from algoformer.cli.explore_pages import textbook_constants
from algoformer.evaluation import Evaluation, compare, evaluation_prompts
from algoformer.evaluation.errors import Progress
from algoformer.model import presets as programs
from algoformer.model.program import default_steps
from algoformer.tasks import LinearRegression
from algoformer.trace import Solver
from algoformer.training import Experiment, TrainConfig, load_checkpoint
from algoformer.training.side_by_side import Planned

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


def plan(folder: Path) -> dict[str, Planned]:
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
    return {name: Planned(experiment=shapes[name], folder=folder / "runs" / name) for name in MODELS}


def measure(plans: dict[str, Planned], *, progress: Progress | None = None) -> list[Evaluation]:
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
    return compare(solvers, prompts, steps=steps, scale=task.scale, progress=progress)
