"""The first thing a newcomer sees: three small models learn to regress, beside textbook methods."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from algoformer.algorithms import build_solver
from algoformer.checkpoint import model_kind
from algoformer.evaluation import Evaluation, compare, evaluation_prompts
from algoformer.evaluation.errors import Progress
from algoformer.model.program import default_steps
from algoformer.tasks import Task
from algoformer.trace import Solver
from algoformer.training import Experiment, load_checkpoint
from algoformer.training.presets import experiment
from algoformer.training.side_by_side import Planned

MODELS = ("algoformer", "looped", "standard")
"""The most expensive first, so that two workers end together."""

TEXTBOOK = {"gd": "gradient descent", "newton": "Newton", "least-squares": "least squares"}

BEYOND = 5
"""Multiple of the trained depth at which the loops are measured, to see whether they stay stable."""


def plan(folder: Path) -> dict[str, Planned]:
    """The three runs of the demo."""
    return {
        name: Planned(experiment=experiment("linear", name, "smoke"), folder=folder / "runs" / name)
        for name in MODELS
    }


@dataclass(frozen=True, kw_only=True)
class Shipped:
    """A trained model that comes with the repository, measured beside the textbook methods."""

    name: str
    task: Task
    results: list[Evaluation]


def measure(plans: dict[str, Planned], *, progress: Progress | None = None) -> list[Evaluation]:
    """Every trained model and textbook method on the same held-out prompts, beyond the trained depth."""
    first: Experiment = plans[MODELS[0]].experiment
    solvers: dict[str, Solver] = {
        name: load_checkpoint(planned.folder / "checkpoint.safetensors").model.eval()
        for name, planned in plans.items()
    }
    solvers |= textbook(first.task)
    return compare(
        solvers,
        evaluation_prompts(first.task),
        steps=BEYOND * trained_steps(first),
        scale=first.task.scale,
        progress=progress,
    )


def trained_steps(run: Experiment) -> int:
    """Return the number of iterations that the loop was trained with."""
    return default_steps(run.program)


def textbook(task: Task) -> dict[str, Solver]:
    """The textbook methods of the demo, reading prompts as the task's maker would."""
    return {
        label: build_solver(name, view=task.problems, noise=task.noise) for name, label in TEXTBOOK.items()
    }


def shipped(folder: Path, *, prompts: int = 128, progress: Progress | None = None) -> list[Shipped]:
    """The trained models of prompts in `folder`, measured as they are on a few prompts."""
    found = []
    for path in sorted(folder.glob("*.safetensors")):
        if model_kind(path) != "algoformer":
            continue
        checkpoint = load_checkpoint(path)
        if checkpoint.task is None:
            continue
        task = checkpoint.task
        solvers: dict[str, Solver] = {path.stem: checkpoint.model.eval(), **textbook(task)}
        results = compare(
            solvers,
            evaluation_prompts(task, count=prompts),
            steps=default_steps(checkpoint.model.program),
            scale=task.scale,
            progress=progress,
        )
        found.append(Shipped(name=path.stem, task=task, results=results))
    return found
