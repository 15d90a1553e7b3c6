"""Pure functions of the step: learning rate and how far to unroll. Resuming needs no replay."""

from __future__ import annotations

import math
import random

from algoformer.config import TrainConfig, ramp_value
from algoformer.model.program import Program, default_steps, traced_part
from algoformer.trace import Unroll


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


def unroll_at(program: Program, config: TrainConfig, step: int) -> Unroll:
    """Return how far the loop runs at `step`, what the loss reads and what the gradient passes through.

    The number of burn-in iterations depends on the seed and the step alone.
    """
    if traced_part(program) is None:
        return Unroll(steps=1, window=1)
    iterations = iterations_at(program, config, step)
    window = min(config.window, iterations)
    extra = random.Random(f"{config.seed}/{step}").choice(config.burn_in) if config.burn_in else 0
    return Unroll(
        steps=iterations + extra,
        window=window,
        grad_steps=window if config.backprop == "window" else iterations,
        recompute=config.gradient_checkpointing,
    )


def iterations_at(program: Program, config: TrainConfig, step: int) -> int:
    """Return the iterations of the loop at `step` by the curriculum, without burn-in."""
    return ramp_value(config.iterations, step, steps=config.steps, end=default_steps(program))
