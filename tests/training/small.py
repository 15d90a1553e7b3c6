"""Experiments as small as they can be, and what tests ask of runs."""

from __future__ import annotations

from typing import Any

import torch

from algoformer import AlgoFormer, programs, tasks
from algoformer.model.program import Program
from algoformer.training import Checkpoint, Experiment, TrainConfig, build_model
from algoformer.training.schedule import stage
from algoformer.training.step import TrainingStep

TIMES = ("seconds", "steps_per_second")


def small(program: Program | None = None, task: Any = None, **training: Any) -> Experiment:
    settings: dict[str, Any] = {
        "steps": 12,
        "batch": 4,
        "window": 2,
        "learning_rate": 1e-3,
        "log_every": 5,
        "checkpoint_every": 4,
    }
    return Experiment(
        program=program or programs.algoformer(steps=3, heads=2),
        task=task or tasks.LinearRegression(dim=2, points=4),
        width=8,
        training=TrainConfig(**(settings | training)),
    )


def stepper(experiment: Experiment, seed: int = 0) -> TrainingStep:
    generator = torch.Generator().manual_seed(seed)
    step = TrainingStep(experiment, build_model(experiment), generator)
    step.prepare(experiment.training.learning_rate, stage(experiment, 0))
    return step


def same_weights(one: torch.nn.Module, other: torch.nn.Module) -> bool:
    left, right = one.state_dict(), other.state_dict()
    return left.keys() == right.keys() and all(torch.equal(left[name], right[name]) for name in left)


def timeless(rows: Any) -> list[dict[str, float]]:
    return [{key: value for key, value in row.items() if key not in TIMES} for row in rows]


def tiny_checkpoint(seed: int = 0, **state: torch.Tensor) -> Checkpoint:
    torch.manual_seed(seed)
    model = AlgoFormer(programs.looped(1, steps=3, heads=2), dim=2, out=1, context=8, width=8)
    return Checkpoint(
        model=model, task=tasks.LinearRegression(dim=2, points=4), card={"seed": seed}, state=state
    )


def same_checkpoint(one: Checkpoint, other: Checkpoint) -> bool:
    states = one.state.keys() == other.state.keys() and all(
        value.dtype == other.state[name].dtype
        and value.shape == other.state[name].shape
        and value.flatten().view(torch.uint8).equal(other.state[name].flatten().view(torch.uint8))
        for name, value in one.state.items()
    )
    facts = (one.task, one.card, one.model.program) == (other.task, other.card, other.model.program)
    return states and facts and same_weights(one.model, other.model)
