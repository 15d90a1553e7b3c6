"""Experiments as small as they can be, and what tests ask of runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from algoformer import AlgoFormer, programs, tasks
from algoformer.data import PromptData
from algoformer.model.program import Program
from algoformer.training import Callback, Checkpoint, Experiment, TrainConfig, build_model
from algoformer.training.step import Step

TIMES = ("seconds", "steps_per_second")


def small(program: Program | None = None, task: Any = None, **training: Any) -> Experiment:
    settings: dict[str, Any] = {
        "steps": 12,
        "batch_size": 4,
        "window": 2,
        "lr": 1e-3,
        "log_every": 5,
        "checkpoint_every": 4,
    }
    return Experiment(
        program=program or programs.algoformer(steps=3, heads=2),
        data=task or tasks.LinearRegression(dim=2, points=4),
        width=8,
        training=TrainConfig(**(settings | training)),
    )


def stepper(experiment: Experiment) -> Step:
    step = Step(experiment, build_model(experiment))
    step.prepare(0)
    return step


def loss_at(step: Step, number: int = 0) -> torch.Tensor:
    """The loss of a step, not taken."""
    step.prepare(number)
    return step.loss(step.batches.current(), step.unroll).value


class _Told(Callback):
    def __init__(self, progress: Callable[[int, int, Any], None]) -> None:
        self.progress, self.steps = progress, 0

    def on_start(self, step: int, steps: int) -> None:
        self.steps = steps

    def on_log(self, step: int, metrics: Any) -> None:
        self.progress(step, self.steps, metrics)


def told(progress: Callable[[int, int, Any], None]) -> tuple[Callback, ...]:
    """A callback that is told the steps done, the steps in all, and the newest metrics."""
    return (_Told(progress),)


def same_weights(one: torch.nn.Module, other: torch.nn.Module) -> bool:
    left, right = one.state_dict(), other.state_dict()
    return left.keys() == right.keys() and all(torch.equal(left[name], right[name]) for name in left)


def timeless(rows: Any) -> list[dict[str, float]]:
    return [{key: value for key, value in row.items() if key not in TIMES} for row in rows]


def tiny_checkpoint(seed: int = 0, **state: torch.Tensor) -> Checkpoint:
    torch.manual_seed(seed)
    model = AlgoFormer(programs.looped(1, steps=3, heads=2), dim=2, out=1, context=8, width=8)
    return Checkpoint(
        model=model,
        data=PromptData(tasks.LinearRegression(dim=2, points=4)),
        card={"seed": seed},
        state=state,
    )


def same_checkpoint(one: Checkpoint, other: Checkpoint) -> bool:
    states = one.state.keys() == other.state.keys() and all(
        value.dtype == other.state[name].dtype
        and value.shape == other.state[name].shape
        and value.flatten().view(torch.uint8).equal(other.state[name].flatten().view(torch.uint8))
        for name, value in one.state.items()
    )
    facts = (one.data, one.card, one.model.program) == (other.data, other.card, other.model.program)
    return states and facts and same_weights(one.model, other.model)
