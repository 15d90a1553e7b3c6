"""The training configuration as frozen data: optimizer, schedule, curricula, precision."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

from algoformer.common.names import suggests_keywords
from algoformer.common.plain_data import MOST, field_types, read_value
from algoformer.common.terminal import short
from algoformer.depth import Depth as Depth

OptimizerName = Literal["adam", "adamw", "muon"]
Schedule = Literal["constant", "cosine", "wsd"]
LossName = Literal["mean", "log", "stages", "exit", "gate"]
Backprop = Literal["window", "full"]
LossWeights = Literal["mean", "linear", "last"]
Initialization = Literal["layers", "unrolled", "fan_in"]
Precision = Literal["fp32", "tf32", "bf16"]

LARGEST_SEED = 2**31 - 1
"""PyTorch's CPU generator reads 32 bits of a seed, and one of them separates training from evaluation."""

LARGEST_RATE = 1e30
"""The largest learning rate and weight decay; products with it must fit into float32."""


@dataclass(frozen=True, kw_only=True)
class Ramp:
    """A curriculum: begin at `start`; after a `delay`, grow by `increment` at every `interval` of the run."""

    start: int
    """The value at the first step."""
    increment: int
    """The amount added at a time."""
    interval: float = 0.01
    """Fraction of all steps between two increments, so that a shorter run has the same curriculum."""
    delay: float = 0.0
    """Fraction of all steps before the first increment can come."""

    def __post_init__(self) -> None:
        if not (1 <= self.start <= MOST and 1 <= self.increment <= MOST):
            raise ValueError(f"start and increment must be at least 1, got {self.start} and {self.increment}")
        if not 0 < self.interval <= 1:
            raise ValueError(f"interval is a fraction of the run in (0, 1], got {self.interval}")
        if not 0 <= self.delay <= 1:
            raise ValueError(f"delay is a fraction of the run in [0, 1], got {self.delay}")


def ramp_value(ramp: Ramp | None, step: int, *, steps: int, end: int) -> int:
    """Return where a curriculum stands at `step`, never beyond `end`; without a ramp, `end`.

    >>> [ramp_value(Ramp(start=5, increment=1, interval=0.1), s, steps=50, end=8) for s in (0, 4, 5, 49)]
    [5, 5, 6, 8]
    >>> late = Ramp(start=5, increment=1, interval=0.1, delay=0.2)
    >>> [ramp_value(late, s, steps=50, end=8) for s in (0, 14, 15, 20, 49)]
    [5, 5, 6, 7, 8]
    """
    if ramp is None:
        return end
    # 7 / (0.07 * 100) is a little less than 1
    rounds = max(0.0, (step - ramp.delay * steps) / (ramp.interval * steps) + 1e-9)
    return end if rounds >= end else min(end, ramp.start + ramp.increment * int(rounds))


COUNTED = ("steps", "batch_size", "window", "segments", "log_every", "checkpoint_every")
BOUNDS: dict[str, tuple[Callable[[Any], bool], str]] = {
    **dict.fromkeys(COUNTED, (lambda count: 1 <= count <= MOST, f"must lie in 1..{MOST}")),
    "seed": (lambda seed: 0 <= seed <= LARGEST_SEED, f"must lie in 0..{LARGEST_SEED}"),
    "lr": (lambda rate: 0 < rate <= LARGEST_RATE, f"must be a positive number of at most {LARGEST_RATE}"),
    "weight_decay": (lambda rate: 0 <= rate <= LARGEST_RATE, f"must be a number in 0..{LARGEST_RATE}"),
    "ema": (lambda decay: 0 < decay < 1, "is a decay between 0 and 1, say 0.999, or None for none"),
    "warmup": (lambda part: 0 <= part < 1, "is a fraction of the run in [0, 1)"),
    "min_lr_ratio": (lambda ratio: 0 <= ratio <= 1, "is a fraction of lr in [0, 1]"),
    "clip_norm": (lambda norm: norm > 0, "must be positive, or None for no clipping"),
    "exit_entropy": (lambda weight: 0 <= weight <= LARGEST_RATE, "must not be negative"),
    "ponder_cost": (lambda weight: 0 <= weight <= LARGEST_RATE, "must not be negative"),
    "burn_in": (lambda many: all(0 <= n <= MOST for n in many), "counts iterations and cannot be negative"),
    "patience": (lambda count: 1 <= count <= MOST, "must be at least 1, or None to never stop early"),
}
"""The numbers that a setting may have, and how a message puts it."""


@suggests_keywords(
    {
        "learning_rate": "lr",
        "rate": "lr",
        "batch": "batch_size",
        "clip": "clip_norm",
        "grad_clip": "clip_norm",
        "final_rate": "min_lr_ratio",
        "grad": "backprop",
        "recompute": "gradient_checkpointing",
        "points": "samples",
        "loops": "iterations",
        "max_steps": "steps",
        "early_stopping": "patience",
    }
)
@dataclass(frozen=True, kw_only=True)
class TrainConfig:
    """The training configuration. The defaults are the paper's, for its 500,000 steps."""

    steps: int = 500_000
    """Optimizer steps of the run."""
    batch_size: int = 64
    """Prompts, or sequences of plain text, in a batch; translation and labelled text count tokens instead."""
    optimizer: OptimizerName = "adam"
    """Adam, AdamW, or Muon for the body's matrices with AdamW for all other weights."""
    weight_decay: float = 0.0
    """Decoupled weight decay of the body's matrices; Adam has none."""
    betas: tuple[float, float] = (0.9, 0.999)
    """Decay rates of the first and second moments of Adam and AdamW."""
    ema: float | None = None
    """Decay of an exponential moving average of the weights, which becomes the trained model; None: off."""
    lr: float = 1e-4
    """Peak learning rate."""
    schedule: Schedule = "constant"
    """Learning rate after the warm-up: constant, a half cosine, or "wsd" (constant, then 1 - sqrt decay)."""
    warmup: float = 0.0
    """Fraction of the run over which the learning rate rises from zero."""
    cooldown: float = 0.0
    """Fraction of the run at its end over which the learning rate of "wsd" decays; 0.2 is usual."""
    min_lr_ratio: float = 0.01
    """Final learning rate of a cosine or "wsd" schedule, as a fraction of the peak."""
    clip_norm: float | None = None
    """Maximum norm of the gradient; None: no clipping."""
    window: int = 15
    """The loss is the mean over this many last iterations (ΔT in the paper)."""
    loss: LossName = "mean"
    """For prompts, what is averaged over iterations and questions: squared errors, as in the paper, or their
    logarithms, so that the small errors of late questions count as much as the large ones of early ones.
    "stages" compares each stage of a computation with its own answer, for tasks that have stages. Where
    answers are classes, the cross-entropy takes the place of the squared error, and "log" is refused. "exit"
    trains a loop with an exit gate, also on text: the expected loss under the gate's exits, less
    `exit_entropy` times their entropy. "gate" trains the gate alone: it learns where another iteration lowers
    the loss."""
    exit_entropy: float = 0.05
    """Weight of the entropy of exits in the loss "exit"."""
    ponder_cost: float = 0.01
    """Weight of the number of iterations in the loss of a loop with adaptive computation time."""
    loss_weights: LossWeights | tuple[float, ...] = "mean"
    """The weight of each iteration of the window: all alike, rising linearly towards the last, the last one
    alone, or a list of weights that ends with the last iteration."""
    stage_steps: int | None = None
    """Iterations of a stage with loss "stages"; None divides the iterations by the number of stages."""
    backprop: Backprop | int = "window"
    """Backpropagate through the iterations of the window only, through all of them, or through this many
    last ones. An iteration of a nested program is a whole inner loop."""
    gradient_checkpointing: bool = False
    """Keep only the input of each iteration and recompute the rest in the backward pass: less memory."""
    burn_in: tuple[int, ...] = ()
    """Number of iterations without gradient to run first, drawn at random from this list: keeps a loop stable
    beyond its training depth."""
    depth: Depth | None = None
    """Draw the iterations of every step from this distribution, in place of the program's number, of the
    curriculum `iterations` and of `burn_in`; None: off."""
    inner_depth: Depth | None = None
    """Draw the iterations of the inner loops of a nested program from this distribution, one draw for all."""
    segments: int = 1
    """Number of unrolls in a step, on the same batch, each with its own loss and update. Each starts from the
    last state of the one before, detached (deep supervision of HRM and TRM)."""
    init: Initialization = "layers"
    """Draw the weights of layers with a standard deviation of 0.02, and scale their output projections by the
    number of layers in their module ("layers"), or by the number of layer calls of the whole unrolled program
    ("unrolled", as Huginn and Parcae do). "fan_in" draws them as `torch.nn.Linear` does, which gives
    narrow models larger weights."""
    dims: Ramp | None = None
    """Curriculum over the active coordinates, for tasks that support it."""
    samples: Ramp | None = None
    """Curriculum over the in-context samples that count."""
    iterations: Ramp | None = None
    """Curriculum over the loop's iterations."""
    precision: Precision = "fp32"
    """Precision of the matrix products; weights, optimizer state and loss are always fp32."""
    seed: int = 0
    """Seed of the weights and of the batches."""
    log_every: int = 100
    """Steps between two rows of metrics."""
    validate_every: int | None = None
    """Steps between two validations, a multiple of `log_every`; the best weights are kept. None: off."""
    patience: int | None = None
    """Stop after this many validations in a row without a new best; None never stops early."""
    checkpoint_every: int = 1000
    """Steps between two checkpoints."""

    def __post_init__(self) -> None:
        for name, kind in field_types(type(self)).items():
            value = getattr(self, name)
            plain = value.tolist() if hasattr(value, "tolist") else value  # a number of NumPy or PyTorch
            object.__setattr__(self, name, read_value(name, kind, plain))
        for name, (holds, words) in BOUNDS.items():
            value = getattr(self, name)
            if value is not None and not holds(value):
                raise ValueError(f"{name} {words}, got {value}")
        self._check_iterations()
        self._check_optimizer()
        every = self.validate_every
        if every is not None and (not 1 <= every <= MOST or every % self.log_every):
            words = f"a multiple of log_every ({self.log_every}), or None"
            raise ValueError(f"validate_every must be {words}, got {every}")
        if self.patience is not None and every is None:
            raise ValueError("patience counts validations, and there are none; set validate_every")

    def _check_iterations(self) -> None:
        if self.inner_depth is not None and self.inner_depth.per == "sequence":
            raise ValueError(f"inner_depth={self.inner_depth}: inner loops have one depth for a whole batch")
        if not isinstance(self.backprop, str) and not self.window <= self.backprop <= MOST:
            raise ValueError(
                f"backprop must reach through the window of {self.window} iterations, got {self.backprop}"
            )
        weights = self.loss_weights
        if not isinstance(weights, str) and (
            len(weights) != self.window
            or not all(0 <= weight < math.inf for weight in weights)
            or not weights[-1]
        ):
            raise ValueError(
                f"loss_weights needs {self.window} numbers (the window), none negative and the last one "
                f"positive, got {short(weights)}"
            )
        if self.loss in ("stages", "exit", "gate") and weights != "mean":
            raise ValueError(f"loss={self.loss!r} weighs iterations in its own way; leave out loss_weights")
        if self.loss == "stages" and (any(self.burn_in) or self.segments > 1):
            raise ValueError(
                "loss='stages' counts iterations from the first one; set burn_in=0 and segments=1, got "
                f"{short(self.burn_in)} and {self.segments}"
            )
        if self.stage_steps is not None and (self.loss != "stages" or not 1 <= self.stage_steps <= MOST):
            raise ValueError(
                f"stage_steps is at least 1, and for loss='stages' only, got {self.stage_steps} "
                f"with loss={self.loss!r}"
            )

    def _check_optimizer(self) -> None:
        if self.weight_decay and self.optimizer == "adam":
            raise ValueError(
                f"optimizer 'adam' has no weight decay, got weight_decay {self.weight_decay}; "
                "choose 'adamw' or 'muon', or leave it out"
            )
        if not all(0 <= beta < 1 for beta in self.betas):
            raise ValueError(f"betas must be two numbers in [0, 1), got {short(self.betas)}")
        if not (self.cooldown >= 0 and self.warmup + self.cooldown <= 1):
            raise ValueError(
                "cooldown is a fraction of the run in [0, 1], and with the warm-up at most 1, "
                f"got {self.cooldown} with warmup {self.warmup}"
            )
        if self.cooldown and self.schedule != "wsd":
            raise ValueError(
                f"schedule {self.schedule!r} has no cooldown, got {self.cooldown}; use 'wsd' or leave it out"
            )
        if self.schedule == "wsd" and not self.cooldown:
            raise ValueError("schedule 'wsd' needs a cooldown, the fraction of the run it decays in; try 0.2")


def learning_rate(config: TrainConfig, step: int) -> float:
    """Return the learning rate for `step` (counted from 0): linear warm-up, then the schedule.

    "wsd" stays constant until its cooldown, and decays there as 1 - √progress: at once steep, then ever less,
    which left lower losses than a straight line in Hägele et al., arXiv 2405.18392.

    >>> learning_rate(TrainConfig(steps=100, lr=1.0, warmup=0.1), 4)
    0.5
    >>> config = TrainConfig(steps=100, lr=1.0, schedule="wsd", cooldown=0.25, min_lr_ratio=0.0)
    >>> [learning_rate(config, step) for step in (74, 75, 76, 84)]
    [1.0, 1.0, 0.8, 0.4]
    """
    warm = config.warmup * config.steps
    if step < warm:
        return config.lr * min(1.0, (step + 1) / warm)
    if config.schedule == "constant":
        return config.lr
    if config.schedule == "cosine":
        progress = (step - warm) / max(1.0, config.steps - warm)
        falling = 0.5 * (1 + math.cos(math.pi * progress))
    else:
        cool = config.cooldown * config.steps
        falling = 1 - math.sqrt(max(0.0, step - (config.steps - cool)) / cool)
    return config.lr * (config.min_lr_ratio + (1 - config.min_lr_ratio) * falling)


@lru_cache(maxsize=64)
def iteration_shares(config: TrainConfig, count: int) -> tuple[float, ...] | None:
    """Return how much each of the last `count` iterations counts in the loss, with sum 1; None for a mean.

    >>> iteration_shares(TrainConfig(window=3, loss_weights="linear"), 4)
    (0.1, 0.2, 0.3, 0.4)
    >>> iteration_shares(TrainConfig(window=3, loss_weights=(0.0, 1.0, 3.0)), 2)
    (0.25, 0.75)
    """
    if config.loss_weights == "mean":
        return None
    named: dict[str, Sequence[float]] = {"last": [0] * (count - 1) + [1], "linear": range(1, count + 1)}
    given = config.loss_weights
    weights = named[given] if isinstance(given, str) else given[-count:]
    return tuple(weight / sum(weights) for weight in weights)
