"""A run as frozen data: what is trained, on what and how; and how the run is carried out."""

from __future__ import annotations

import copy
import random
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, Literal, NamedTuple

import torch
from torch import nn

from algoformer.common.names import suggests_keywords
from algoformer.common.plain_data import as_data, check_count, read_dataclass
from algoformer.config import Precision as Precision
from algoformer.config import Ramp as Ramp
from algoformer.config import TrainConfig as TrainConfig
from algoformer.config import ramp_value
from algoformer.data.protocol import Data, as_data_object, data_from_header
from algoformer.model.address import inner_loops, with_inner_steps
from algoformer.model.initial import draw_by_fan_in, scale_by_unrolled_depth
from algoformer.model.program import (
    Loop,
    Program,
    default_steps,
    halting_of,
    modules_of,
    to_data,
    traced_part,
    unrolled_loops,
)
from algoformer.model.read_program import from_data
from algoformer.tasks import Task
from algoformer.trace import Unroll
from algoformer.training.progress import Callback as Callback

EngineName = Literal["auto", "eager", "graph", "compiled", "fused"]
ParallelName = Literal["auto", "ddp", "fsdp"]


class Recipe(NamedTuple):
    """The arguments of an experiment before it checks that they fit: options may change each of them."""

    program: Program
    data: Data
    width: int
    training: TrainConfig


@suggests_keywords({"task": "data", "text": "data", "config": "training"})
@dataclass(frozen=True, init=False)
class Experiment:
    """A program, the data it learns from, and how it is trained: all that is needed to do it again.

    Attributes:
        program: what is run.
        data: what it learns from; a bare task means fresh prompts of it.
        width: width of the residual stream.
        training: optimizer, schedule, curricula, precision, seed.

    >>> from algoformer import programs, tasks
    >>> Experiment(programs.looped(heads=2), tasks.LinearRegression(dim=3, points=6), width=16).data.name
    'prompts'
    """

    program: Program
    data: Data
    width: int
    training: TrainConfig

    def __init__(
        self, program: Program, data: Data | Task, width: int = 256, training: TrainConfig | None = None
    ) -> None:
        training = TrainConfig() if training is None else training
        if not isinstance(program, Program):
            raise ValueError(
                f"program must be a Program, such as programs.looped(), got {program!r:.60} "
                f"of type {type(program).__name__}"
            )
        if not isinstance(training, TrainConfig):
            raise ValueError(f"training must be a TrainConfig, got {type(training).__name__}")
        check_count("width", width)
        found = {"program": program, "data": as_data_object(data), "width": width, "training": training}
        for name, value in found.items():
            object.__setattr__(self, name, value)
        for layers in modules_of(program):
            layers.width_of_head(width)  # refuses heads that do not divide the width
        self.data.check(program, training)
        check_loop(program, training)
        if training.depth is not None and training.depth.per == "sequence" and not self.data.fixed_shapes:
            raise ValueError(
                f"depth={training.depth}: batches of {self.data.name} have no fixed number of sequences; "
                "draw the depth per=batch"
            )

    @property
    def task(self) -> Any:
        """The task of an experiment on prompts.

        Raises:
            ValueError: the experiment learns from something else.
        """
        task = getattr(self.data, "task", None)
        if task is None:
            raise ValueError(f"the experiment learns from {self.data.name}, which has no task")
        return task

    def to_data(self) -> dict[str, Any]:
        """Return the experiment in plain JSON types.

        Raises:
            ValueError: its data or task is not registered, so that no file could name it.
        """
        return copy.deepcopy(self._described)

    @cached_property
    def _described(self) -> dict[str, Any]:
        return {
            "program": to_data(self.program),
            "data": self.data.settings(),
            "width": self.width,
            "training": as_data(self.training),
        }

    @classmethod
    def from_data(cls, data: object) -> Experiment:
        """Read what `to_data` wrote; anything else raises ValueError."""
        if not isinstance(data, Mapping) or set(data) != {"program", "data", "width", "training"}:
            raise ValueError("an experiment has exactly the keys program, data, width and training")
        return cls(
            program=from_data(data["program"]),
            data=data_from_header(data["data"]),
            width=data["width"],
            training=read_dataclass(TrainConfig, data["training"]),
        )


def is_data_of(data: object, experiment: Experiment) -> bool:
    """Return whether these data describe the experiment; settings that were not there yet have defaults."""
    try:
        return Experiment.from_data(data) == experiment
    except (ValueError, TypeError):
        return False


def check_loop(program: Program, training: TrainConfig) -> None:
    """Refuse settings of the loop that the program cannot be trained with."""
    steps = default_steps(program)
    if training.inner_depth is not None:
        if not inner_loops(program):
            raise ValueError("inner_depth needs a program with a loop besides the traced one; leave it out")
        with_inner_steps(program, dict.fromkeys(inner_loops(program), training.inner_depth.least))
    if traced_part(program) is None:
        if training.iterations is not None or training.burn_in or training.depth or training.segments > 1:
            raise ValueError(
                "iterations, burn_in, depth and segments need a program with a loop; leave them out"
            )
        return
    if training.segments > 1 and not isinstance(program.parts[traced_part(program) or 0], Loop):
        raise ValueError("segments carry the state of one loop, the program has branches side by side")
    if training.segments > 1 and halting_of(program) == "act":
        raise ValueError("segments: with halt='act' every token has halted after the first; use segments=1")
    if training.depth is not None and training.depth.per == "sequence" and training.window > 1:
        raise ValueError(
            f"depth={training.depth}: with a depth for every sequence the loss reads the last iteration; "
            f"set window=1, got {training.window}"
        )
    if training.window > steps and training.depth is None:
        raise ValueError(
            f"window must lie in 1..{steps} (the loop's steps), got {training.window}; "
            "choose a smaller window or more steps of the loop"
        )
    if cuts_gradient(program, training) and sees_input_once(program):
        raise ValueError(
            "with inject='none' a gradient cut at the window never reaches what stands before the loop; "
            "choose backprop='full' without burn_in, or inject='add'"
        )


def cuts_gradient(program: Program, training: TrainConfig) -> bool:
    """Return whether the gradient of some steps does not reach the state before the first iteration."""
    if training.depth is not None:
        return training.backprop != "full"
    steps = default_steps(program)
    return bool(training.burn_in) or steps > tracked_iterations(training, training.window, steps)


def build_model(experiment: Experiment, *, like: nn.Module | None = None) -> nn.Module:
    """Return the experiment's model: a copy of `like`, or fresh weights that the seed alone decides.

    Raises:
        ValueError: `like` is a model of another program, or made for other data.
    """
    if like is not None:
        refuse_unlike(experiment, like)
        return copy.deepcopy(like).requires_grad_(True)
    model = experiment.data.build_model(experiment.program, experiment.width, experiment.training)
    if experiment.training.init == "unrolled":
        scale_by_unrolled_depth(model.body)  # type: ignore[arg-type]
    elif experiment.training.init == "fan_in":
        draw_by_fan_in(model.body, experiment.training.seed)  # type: ignore[arg-type]
    return model


def refuse_unlike(experiment: Experiment, initial: nn.Module) -> None:
    """Refuse a model that an experiment cannot start from: one of another program, or made for other data."""
    width = getattr(initial, "width", None) or getattr(getattr(initial, "trunk", None), "width", None)
    if getattr(initial, "program", None) != experiment.program or width != experiment.width:
        raise ValueError(
            "the model to start from has another program or width than the experiment; "
            "choose the data, program and scale that it was trained with"
        )
    experiment.data.check_model(initial)


@lru_cache(maxsize=256)
def sees_input_once(program: Program) -> bool:
    """Return whether a loop that an unroll runs sees its input at its first iteration only."""
    return any(loop.inject == "none" for loop in unrolled_loops(program))


def unroll_at(program: Program, config: TrainConfig, step: int) -> Unroll:
    """Return how far the loops run at `step`, what the loss reads and what the gradient passes through.

    All numbers depend on the seed and the step alone. Where sequences have depths of their own, the unroll
    is that of the deepest; see `sequence_depths`.
    """
    if traced_part(program) is None:
        return Unroll(steps=1, window=1)
    iterations = iterations_at(config, step, default=default_steps(program))
    window, extra = min(config.window, iterations), 0
    if config.burn_in and config.depth is None:
        extra = random.Random(f"{config.seed}/{step}").choice(config.burn_in)
    inner: dict[str, int] = {}
    if config.inner_depth is not None:
        (inner_steps,) = config.inner_depth.draw(f"{config.seed}/{step}/inner")
        inner = dict.fromkeys(inner_loops(program), inner_steps)
    return Unroll(
        steps=iterations + extra,
        window=window,
        grad_steps=tracked_iterations(config, window=window, iterations=iterations),
        gradient_checkpointing=config.gradient_checkpointing,
        inner=inner,
    )


def iterations_at(config: TrainConfig, step: int, *, default: int) -> int:
    """Return the iterations of the traced loop, by default the program's, without burn-in, at `step`."""
    if config.depth is not None:
        return max(sequence_depths(config, step))
    return ramp_value(config.iterations, step, steps=config.steps, end=default)


def sequence_depths(config: TrainConfig, step: int) -> tuple[int, ...]:
    """Return the iterations of each sequence of the whole batch, or one number for all of them."""
    assert config.depth is not None
    count = config.batch_size if config.depth.per == "sequence" else 1
    return config.depth.draw(f"{config.seed}/{step}/depth", count)


def tracked_iterations(config: TrainConfig, window: int, iterations: int) -> int:
    """Return how many of the last iterations the gradient passes through."""
    if isinstance(config.backprop, str):
        return window if config.backprop == "window" else iterations
    return min(config.backprop, iterations)


@suggests_keywords({"time_limit": "max_minutes", "gpu": "device", "verbose": "progress"})
@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """Options of carrying out a run; none of it changes which weights come out on a CPU.

    Attributes:
        device: where to train.
        engine: how steps are taken: "eager" and "compiled" anywhere, "graph" or "fused" on CUDA, or "auto".
        parallel: what several processes share: "ddp" the work, "fsdp" also weights, gradients and optimizer
            state; "auto" is "ddp" where there are several.
        max_minutes: stop after this long with a checkpoint, to be resumed later.
        progress: show a progress bar on standard error; None shows one on a terminal and in a notebook.
        callbacks: objects whose `on_start`, `on_log` and `on_end` are called.
        tensorboard: also write the metrics to `folder`/tensorboard where TensorBoard is installed.
        command: the command that asked for the run, kept in the card so that it can be repeated.
    """

    device: str | torch.device = "cpu"
    engine: EngineName = "auto"
    parallel: ParallelName = "auto"
    max_minutes: float | None = None
    progress: bool | None = None
    callbacks: tuple[Callback, ...] = ()
    tensorboard: bool = True
    command: str = ""

    def __post_init__(self) -> None:
        if self.max_minutes is not None and not self.max_minutes > 0:
            raise ValueError(f"max_minutes must be positive, or None for no limit, got {self.max_minutes}")
