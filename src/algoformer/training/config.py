"""A run as frozen data: program, task and how to train."""

from __future__ import annotations

import copy
import math
import typing
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, runtime_checkable

import torch

from algoformer import tasks
from algoformer.model.algoformer import AlgoFormer, modules_of
from algoformer.model.parts import head_width
from algoformer.model.program import Loop, Parallel, Program, default_steps, from_data, to_data, traced_part
from algoformer.tasks import Task
from algoformer.common.plain_data import MOST, as_data, read_dataclass

OptimizerName = Literal["adam", "adamw", "muon"]
Schedule = Literal["constant", "cosine", "wsd"]
LossName = Literal["mean", "log"]
Grad = Literal["window", "full"]
Precision = Literal["fp32", "tf32", "bf16"]

LARGEST_SEED = 2**31 - 1
"""PyTorch's CPU generator sees 32 bits of a seed, and one of them tells training from evaluation."""


@dataclass(frozen=True, kw_only=True)
class Ramp:
    """A curriculum: begin at `start`, after a `delay` grow by `increment` at every `interval` of the run."""

    start: int
    """The value at the first step."""
    increment: int
    """What is added at a time."""
    interval: float = 0.01
    """How often, as a fraction of all steps, so that a shorter run has the same curriculum."""
    delay: float = 0.0
    """Fraction of all steps before it begins to grow: what is easy must have been understood first."""

    def __post_init__(self) -> None:
        if not (1 <= self.start <= MOST and 1 <= self.increment <= MOST):
            raise ValueError(f"start and increment must be at least 1, got {self.start} and {self.increment}")
        if not 0 < self.interval <= 1:
            raise ValueError(f"interval is a fraction of the run in (0, 1], got {self.interval}")
        if not 0 <= self.delay <= 1:
            raise ValueError(f"delay is a fraction of the run in [0, 1], got {self.delay}")


@dataclass(frozen=True, kw_only=True)
class TrainConfig:
    """How to train. The defaults are the paper's, for its 500,000 steps."""

    steps: int = 500_000
    """How many optimizer steps."""
    batch: int = 64
    """Fresh prompts for each step."""
    optimizer: OptimizerName = "adam"
    """What moves the weights: Adam, AdamW, or Muon for the body's matrices and AdamW for the rest."""
    weight_decay: float = 0.0
    """How much of the body's matrices a step of rate 1 takes away; not with Adam."""
    betas: tuple[float, float] = (0.9, 0.999)
    """How slowly Adam and AdamW forget gradients and their squares."""
    ema: float | None = None
    """Decay of a moving average of the weights, which then is the trained model; None keeps none."""
    learning_rate: float = 1e-4
    """Of the optimizer, at its highest."""
    schedule: Schedule = "constant"
    """How the learning rate goes on after the warm-up: as it is, down a half cosine, or "wsd": as it is,
    then down as 1 - sqrt in the last part of the run."""
    warmup: float = 0.0
    """Fraction of the run over which the learning rate rises from zero."""
    cooldown: float = 0.0
    """Fraction of the run at its end over which the learning rate of "wsd" falls; 0.2 is usual."""
    final_rate: float = 0.01
    """Where a cosine or "wsd" schedule ends, as a fraction of the learning rate."""
    clip: float | None = None
    """Largest norm of the gradient; None leaves it alone."""
    window: int = 15
    """ΔT: the loss is the mean over this many last iterations."""
    loss: LossName = "mean"
    """What is averaged over iterations and questions: squared errors, as in the paper, or their logarithms,
    so that the small errors of late questions count as much as the large ones of early questions."""
    grad: Grad = "window"
    """Whether the gradient flows through the window only or through all iterations."""
    recompute: bool = False
    """Whether iterations keep their input only and are run again on the way back: less memory, more time."""
    burn_in: tuple[int, ...] = ()
    """Extra iterations without gradient before a step, one of these at random: teaches the loop to hold."""
    dims: Ramp | None = None
    """Curriculum over the active coordinates, for tasks that allow it."""
    points: Ramp | None = None
    """Curriculum over the in-context samples that count."""
    loops: Ramp | None = None
    """Curriculum over the loop's iterations."""
    precision: Precision = "fp32"
    """Of the matrix products; weights, optimizer and loss are always fp32."""
    fp32_end: float = 0.0
    """Fraction of the run at its end whose products are fp32 whatever `precision` is: there the rounding of
    bf16 may be as large as the error that is left."""
    seed: int = 0
    """Of the weights and of the prompts."""
    log_every: int = 100
    """Steps between two rows of metrics."""
    checkpoint_every: int = 1000
    """Steps between two checkpoints."""

    @property
    def precision_in_words(self) -> str:
        """What products are taken in, for a card.

        >>> TrainConfig(precision="bf16", fp32_end=0.1).precision_in_words
        'bf16, the last 10 % in fp32'
        """
        if self.fp32_end == 0 or self.precision == "fp32":
            return self.precision
        return f"{self.precision}, the last {100 * self.fp32_end:.3g} % in fp32"

    def __post_init__(self) -> None:
        counts = dict.fromkeys(("steps", "batch", "window", "log_every", "checkpoint_every"), (1, MOST))
        for name, (least, most) in (counts | {"seed": (0, LARGEST_SEED)}).items():
            if not least <= getattr(self, name) <= most:
                raise ValueError(f"{name} must lie in {least}..{most}, got {getattr(self, name)}")
        choices = {
            "optimizer": OptimizerName,
            "schedule": Schedule,
            "loss": LossName,
            "grad": Grad,
            "precision": Precision,
        }
        for name, allowed in choices.items():
            if getattr(self, name) not in typing.get_args(allowed):
                words = ", ".join(typing.get_args(allowed))
                raise ValueError(f"{name} must be one of {words}, got {getattr(self, name)!r}")
        self._check_optimizer()
        self._check_schedule()
        if self.clip is not None and not self.clip > 0:
            raise ValueError(f"clip must be positive, or None for no clipping, got {self.clip}")
        if not 0 <= self.fp32_end <= 1:
            raise ValueError(f"fp32_end is a fraction of the run in [0, 1], got {self.fp32_end}")
        if not all(0 <= extra <= MOST for extra in self.burn_in):
            raise ValueError(f"burn_in counts iterations and cannot be negative, got {self.burn_in}")

    def _check_optimizer(self) -> None:
        if not 0 < self.learning_rate < math.inf:
            raise ValueError(f"learning_rate must be a positive number, got {self.learning_rate}")
        if not 0 <= self.weight_decay < math.inf:
            raise ValueError(f"weight_decay must be a number of at least 0, got {self.weight_decay}")
        if self.weight_decay and self.optimizer == "adam":
            raise ValueError(
                f"optimizer 'adam' has no weight decay, got weight_decay {self.weight_decay}; "
                "choose 'adamw' or 'muon', or leave it out"
            )
        if len(self.betas) != 2 or not all(0 <= beta < 1 for beta in self.betas):
            raise ValueError(f"betas must be two numbers in [0, 1), got {self.betas}")
        if self.ema is not None and not 0 < self.ema < 1:
            raise ValueError(f"ema is a decay between 0 and 1, say 0.999, or None for none, got {self.ema}")

    def _check_schedule(self) -> None:
        if not 0 <= self.warmup < 1:
            raise ValueError(f"warmup is a fraction of the run in [0, 1), got {self.warmup}")
        if not (self.cooldown >= 0 and self.warmup + self.cooldown <= 1):
            raise ValueError(
                "cooldown is a fraction of the run in [0, 1], and with the warm-up at most 1, "
                f"got {self.cooldown} with warmup {self.warmup}"
            )
        if self.cooldown and self.schedule != "wsd":
            raise ValueError(
                f"schedule {self.schedule!r} has no cooldown, got {self.cooldown}; take 'wsd' or leave it out"
            )
        if self.schedule == "wsd" and not self.cooldown:
            raise ValueError("schedule 'wsd' needs a cooldown, the fraction of the run it falls in; try 0.2")
        if not 0 <= self.final_rate <= 1:
            raise ValueError(f"final_rate is a fraction of the rate in [0, 1], got {self.final_rate}")


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """What is trained on what, and how: all that is needed to do it again."""

    program: Program
    task: Task
    width: int = 256
    training: TrainConfig = field(default_factory=TrainConfig)

    def __post_init__(self) -> None:
        if type(self.width) is not int or self.width < 1:
            raise ValueError(f"width must be a whole number of at least 1, got {self.width!r}")
        for layers in modules_of(self.program):
            head_width(layers, self.width)  # refuses heads that do not divide the width
        if self.training.points is not None and not all(layers.causal for layers in modules_of(self.program)):
            raise ValueError(
                "points: with full attention only the last question of a prompt is asked, so that no "
                "curriculum over questions is possible; leave it out"
            )
        if self.training.dims is not None and not self.task.takes_dims:
            raise ValueError("dims: this task has no dims curriculum; leave it out")
        check_loop(self.program, self.training)

    def to_data(self) -> dict[str, Any]:
        """Lists, dicts, strings and numbers."""
        return {
            "program": to_data(self.program),
            "task": tasks.to_json(self.task),
            "width": self.width,
            "training": as_data(self.training),
        }

    @classmethod
    def from_data(cls, data: object) -> Experiment:
        """Read what `to_data` wrote; anything else raises ValueError."""
        if not isinstance(data, Mapping) or set(data) != {"program", "task", "width", "training"}:
            raise ValueError("an experiment has exactly the keys program, task, width and training")
        if not isinstance(data["task"], Mapping):
            raise ValueError(f"task must be an object, got {type(data['task']).__name__}")
        return cls(
            program=from_data(data["program"]),
            task=tasks.from_json(data["task"]),
            width=data["width"],
            training=read_dataclass(TrainConfig, data["training"]),
        )


@runtime_checkable
class Described(Protocol):
    """An experiment of any kind: what is trained, how, and all of it as plain data and back."""

    @property
    def program(self) -> Program:
        """What is trained."""
        ...

    @property
    def training(self) -> TrainConfig:
        """How to train."""
        ...

    def to_data(self) -> dict[str, Any]:
        """Lists, dicts, strings and numbers."""
        ...

    @classmethod
    def from_data(cls, data: object) -> Any:
        """Read what `to_data` wrote; anything else raises ValueError."""
        ...


def is_data_of(data: object, experiment: Described) -> bool:
    """Whether these data describe the experiment; settings that were not there yet have their defaults."""
    try:
        return bool(type(experiment).from_data(data) == experiment)
    except ValueError:
        return False


def check_loop(program: Program, training: TrainConfig) -> None:
    """Refuse settings of the loop that the program cannot be trained with."""
    steps = default_steps(program)
    if traced_part(program) is None:
        if training.loops is not None or training.burn_in:
            raise ValueError("loops and burn_in need a program with a loop; leave them out for this one")
        return
    if training.window > steps:
        raise ValueError(
            f"window must lie in 1..{steps} (the loop's steps), got {training.window}; "
            "choose a smaller training.window or more steps"
        )
    cut = training.grad == "window" and training.window < steps
    if (cut or training.burn_in) and any(loop.inject == "none" for loop in _unrolled(program)):
        raise ValueError(
            "with inject='none' a gradient cut at the window never reaches what stands before the loop; "
            "choose grad='full' without burn_in, or inject='add'"
        )


def build_model(experiment: Experiment, *, like: AlgoFormer | None = None) -> AlgoFormer:
    """The experiment's model: a copy of `like`, or fresh weights that the seed alone decides.

    Raises:
        ValueError: `like` is a model of another program, or made for other prompts.
    """
    task = experiment.task
    if like is not None:
        refuse_unlike(experiment, like)
        return copy.deepcopy(like).requires_grad_(True)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(experiment.training.seed)
        return AlgoFormer(
            experiment.program, dim=task.dim, out=task.out, context=task.context, width=experiment.width
        )


def refuse_unlike(experiment: Experiment, initial: AlgoFormer) -> None:
    """Refuse a model that an experiment cannot start from.

    Raises:
        ValueError: it is a model of another program, or made for other prompts.
    """
    task = experiment.task
    if initial.program != experiment.program or initial.width != experiment.width:
        raise ValueError(
            "the model to start from has another program or width than the experiment; "
            "choose the task, program and scale that it was trained with"
        )
    if (initial.dim, initial.out) != (task.dim, task.out):
        raise ValueError(
            f"the initial model reads rows of dim={initial.dim} and answers with out={initial.out} numbers, "
            f"the task has dim={task.dim} and out={task.out}"
        )
    if initial.context < task.context:
        raise ValueError(
            f"the initial model has room for {initial.context} rows, a prompt of the task has {task.context}"
        )


def _unrolled(program: Program) -> Iterator[Loop]:
    """The loops that an unroll runs, instead of as often as they say themselves."""
    traced = traced_part(program)
    part = None if traced is None else program.parts[traced]
    if isinstance(part, Loop):
        yield part
    elif isinstance(part, Parallel):
        for branch in part.branches:
            yield from _unrolled(branch)
