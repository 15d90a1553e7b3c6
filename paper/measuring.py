"""From a trained model or a textbook solver to a result."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import torch

from algoformer.algorithms import GradientDescent, build_solver
from algoformer.common.devices import device_name, source_commit
from algoformer.evaluation import Against, Curve, DepthErrors, errors_at, evaluation_prompts
from algoformer.evaluation.errors import Progress
from algoformer.evaluation.evaluation import Plain
from algoformer.model import AlgoFormer
from algoformer.tasks import Task
from algoformer.trace import Solver
from algoformer.training import Checkpoint, load_checkpoint, read_metrics
from algoformer.training.solver import open_solver
from paper.fixed_step import best_fixed_step
from paper.result import Measured, Result
from paper.runs import (
    FAR,
    FARTHEST,
    FIXED_STEP,
    READ_AT,
    BaselineSpec,
    RunSpec,
    counted_against,
)

ROWS_AT_ONCE = {"cpu": 1 << 13, "cuda": 1 << 17}
"""Rows of prompts that go through a model together: 0.5 GB of the widest activations on a GPU."""

TEXTBOOK_PROMPTS = 256
"""Prompts that a textbook method is given at once: over all of its iterations a few hundred MB."""

DEEP = (50, 100, FAR, 500, FARTHEST)
"""Depths at which it is looked whether the loop holds, beside the trained one."""

HISTORY_ROWS = 60


def measure_run(
    run: RunSpec, folder: Path, *, device: str, command: str, progress: Progress | None = None
) -> Result:
    """Measure the finished run in `folder`.

    Raises:
        ValueError: its checkpoint is of another experiment or not of the last step.
    """
    checkpoint = load_checkpoint(folder / "checkpoint.safetensors")
    steps = run.experiment.training.steps
    if checkpoint.card.get("step") != steps:
        raise ValueError(f"{folder} is at step {checkpoint.card.get('step')} of {steps}: train it first")
    model = checkpoint.model.to(device).eval()
    began = time.monotonic()
    errors = measure_model(run, model, progress=progress)
    measured: dict[str, Plain] = {
        "measured on": device_name(torch.device(device)),
        "measured in": time.monotonic() - began,
    }
    if run.loops:
        measured["prompts run on"] = run.deep_prompts
    return Result(
        name=run.name,
        settings=run.settings,
        trained_depth=run.trained_depth,
        against=counted_against(run.task),
        errors=errors,
        prompts=run.prompts,
        parameters=sum(weights.numel() for weights in model.parameters()),
        provenance=_provenance(run, checkpoint, command) | _rounded(measured),
        history=_history(folder),
    )


def measure_model(
    run: RunSpec, model: AlgoFormer, *, progress: Progress | None = None
) -> dict[Against, Measured]:
    """The errors of a model: at the trained depth and far beyond it for each number of samples."""
    trained = run.trained_depth
    if not run.loops:
        still = _errors(run, model, (trained,), {trained}, run.prompts, progress)
        return {
            kind: Measured(by_sample=e.by_sample, by_step=e.by_depth, by_prompt=_of_each(e, trained))
            for kind, e in still.items()
        }
    near = read_at(trained, run.far)
    deep = sorted({trained, run.far, *(depth for depth in DEEP if depth <= run.farthest)})
    whole = {trained, run.far}
    if run.deep_prompts == run.prompts:  # then one pass sees all
        both = _errors(run, model, sorted({*near, *deep}), whole, run.prompts, progress)
        pairs = {kind: (errors, errors) for kind, errors in both.items()}
    else:
        close = _errors(run, model, near, whole, run.prompts, progress)
        far = _errors(run, model, deep, (), run.deep_prompts, progress)
        pairs = {kind: (close[kind], far[kind]) for kind in close}
    return {
        kind: Measured(
            by_sample=first.by_sample,
            by_step=_picked(first.by_depth, near),
            deep=_picked(second.by_depth, deep),
            by_prompt=_of_each(first, trained),
        )
        for kind, (first, second) in pairs.items()
    }


def _errors(
    run: RunSpec,
    model: AlgoFormer,
    depths: Sequence[int],
    whole: Collection[int],
    prompts: int,
    progress: Progress | None,
) -> dict[Against, DepthErrors]:
    # all prompts are drawn, whatever is used of them: a smaller draw would not be the beginning of a larger
    prompt = evaluation_prompts(run.task, count=run.prompts).select(slice(0, prompts))
    rows = ROWS_AT_ONCE.get(next(model.parameters()).device.type, ROWS_AT_ONCE["cpu"])
    with open_solver(model) as solver:
        return errors_at(
            solver,
            prompt,
            depths=depths,
            whole=whole,
            against=kinds_of(run.task),
            label=run.label,
            batch=max(1, rows // run.task.context),
            progress=progress,
        )


def _of_each(errors: DepthErrors, depth: int) -> tuple[float, ...]:
    column = errors.by_prompt[:, errors.by_depth.x.index(depth)]
    return tuple(float(error) for error in column)


def _picked(curve: Curve, x: Sequence[int]) -> Curve:
    places = [curve.x.index(value) for value in x]
    x_there, error, low, high = (
        tuple(column[place] for place in places) for column in (curve.x, curve.error, curve.low, curve.high)
    )
    return replace(curve, x=x_there, error=error, low=low, high=high)


def measure_reference(reference: BaselineSpec, *, command: str) -> Result:
    """Measure a textbook solver on the prompts that models are measured on, in float64, on the CPU."""
    task, began = reference.task, time.monotonic()
    prompt = evaluation_prompts(task, count=reference.prompts).to(torch.float64)
    solver, chosen = _solver(reference)
    trained = reference.trained_depth
    # all iterations come from one run, and little is held of each
    depths: Sequence[int] = (trained,)
    if reference.iterates:
        prompt, depths = prompt.prefix(), range(1, max(trained, reference.far) + 1)
    errors = errors_at(
        solver,
        prompt,
        depths=depths,
        whole={trained},
        against=kinds_of(task),
        label=reference.label,
        batch=TEXTBOOK_PROMPTS,
        at_once=TEXTBOOK_PROMPTS * task.context * len(depths),
    )
    if reference.iterates:
        depths = read_at(trained, reference.far)
    facts: dict[str, Plain] = {
        "command": command,
        "commit": source_commit(),
        "device": device_name(torch.device("cpu")),
        "precision": "float64",
        "seconds": round(time.monotonic() - began, 2),
        "torch": torch.__version__,
    }
    return Result(
        name=reference.name,
        settings=reference.settings,
        trained_depth=trained,
        against=counted_against(task),
        errors={
            kind: Measured(by_sample=found.by_sample, by_step=_picked(found.by_depth, depths))
            for kind, found in errors.items()
        },
        prompts=reference.prompts,
        provenance=facts | chosen,
    )


def read_at(trained: int, far: int) -> list[int]:
    """The iterations after which the last sample is read: all the early ones, then fewer, up to `far`."""
    return sorted({trained, far, *(depth for depth in READ_AT if depth <= far)})


def kinds_of(task: Task) -> tuple[Against, ...]:
    """The kinds of answers that differ in a task: without noise there is only one."""
    return ("clean", "shown") if task.noise else ("clean",)


def _solver(reference: BaselineSpec) -> tuple[Solver, dict[str, Plain]]:
    task = reference.task
    if reference.solver == FIXED_STEP:
        step = best_fixed_step(task, iterations=reference.trained_depth)
        facts: dict[str, Plain] = {"step size": step.size, "share of the largest stable step": step.share}
        return GradientDescent(step_size=step.size, view=task.problems), facts
    return build_solver(reference.solver, view=task.problems, noise=task.noise), {}


def _provenance(run: RunSpec, checkpoint: Checkpoint, command: str) -> dict[str, Plain]:
    card, config = checkpoint.card, run.experiment.training
    return {
        "command": command,
        "commit": str(card.get("commit", source_commit())),
        "seed": config.seed,
        "device": str(card.get("device", "unknown")),
        "engine": str(card.get("engine", "unknown")),
        "precision": config.precision,
        "steps": config.steps,
        "seconds": round(float(card.get("seconds", 0.0)), 2),
        "torch": str(card.get("torch", "unknown")),
    }


def _rounded(facts: Mapping[str, Plain]) -> dict[str, Plain]:
    return {name: round(fact, 2) if isinstance(fact, float) else fact for name, fact in facts.items()}


def _history(folder: Path) -> dict[str, tuple[float, ...]]:
    rows = read_metrics(folder)
    every = max(1, -(-len(rows) // HISTORY_ROWS))
    kept = rows[every - 1 :: every]
    names = ("step", "loss", "error", "seconds", "steps_per_second")
    return {name: tuple(row[name] for row in kept) for name in names if all(name in row for row in kept)}
