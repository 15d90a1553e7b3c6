"""Pure functions of the step: learning rate, curricula, how far to unroll. Resuming needs no replay."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass

from algoformer.model.program import default_steps, traced_part
from algoformer.tasks import Task
from algoformer.trace import Unroll
from algoformer.training.config import Described, Experiment, Precision, Ramp, TrainConfig


def learning_rate(config: TrainConfig, step: int) -> float:
    """The rate for `step` (counted from 0): linear warm-up, then constant, a half cosine, or "wsd".

    "wsd" stays constant until its cooldown, and falls there as 1 - √progress: at once steep, then ever less,
    which left lower losses than a straight line in Hägele et al., arXiv 2405.18392.

    >>> learning_rate(TrainConfig(steps=100, learning_rate=1.0, warmup=0.1), 4)
    0.5
    >>> config = TrainConfig(steps=100, learning_rate=1.0, schedule="wsd", cooldown=0.25, final_rate=0.0)
    >>> [learning_rate(config, step) for step in (74, 75, 76, 84)]
    [1.0, 1.0, 0.8, 0.4]
    """
    warm = config.warmup * config.steps
    if step < warm:
        return config.learning_rate * min(1.0, (step + 1) / warm)
    if config.schedule == "constant":
        return config.learning_rate
    if config.schedule == "cosine":
        progress = (step - warm) / max(1.0, config.steps - warm)
        falling = 0.5 * (1 + math.cos(math.pi * progress))
    else:
        cool = config.cooldown * config.steps
        falling = 1 - math.sqrt(max(0.0, step - (config.steps - cool)) / cool)
    return config.learning_rate * (config.final_rate + (1 - config.final_rate) * falling)


def precisions(config: TrainConfig) -> dict[Precision, int]:
    """How many steps of a run have their products in which precision, in their order.

    >>> precisions(TrainConfig(steps=50, precision="bf16", fp32_end=0.1))
    {'bf16': 45, 'fp32': 5}
    >>> precisions(TrainConfig(steps=50, fp32_end=0.1))
    {'fp32': 50}
    """
    end = round(config.fp32_end * config.steps)
    if config.precision == "fp32" or end == 0:
        return {config.precision: config.steps}
    before: dict[Precision, int] = {config.precision: config.steps - end} if end < config.steps else {}
    return before | {"fp32": end}


def precision_at(config: TrainConfig, step: int) -> Precision:
    """What products are taken in at `step`.

    >>> config = TrainConfig(steps=50, precision="bf16", fp32_end=0.1)
    >>> [precision_at(config, step) for step in (0, 44, 45, 49)]
    ['bf16', 'bf16', 'fp32', 'fp32']
    """
    first, *last = precisions(config)
    return last[0] if last and step >= precisions(config)[first] else first


def ramp_value(ramp: Ramp | None, step: int, *, steps: int, end: int) -> int:
    """Where a curriculum stands at `step`, never beyond `end`; without a ramp, at `end`.

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


@dataclass(frozen=True, kw_only=True)
class Stage:
    """What the curricula ask of one step: coordinates, samples that count, and the unroll."""

    dims: int
    samples: int
    unroll: Unroll


def stage(experiment: Experiment, step: int) -> Stage:
    """The curricula at `step`."""
    config, task = experiment.training, experiment.task
    return Stage(
        dims=ramp_value(config.dims, step, steps=config.steps, end=task.dim),
        samples=ramp_value(config.points, step, steps=config.steps, end=samples_of(task)),
        unroll=unroll_at(experiment, step),
    )


def samples_of(task: Task) -> int:
    """How many samples a prompt of the task shows."""
    return -(-task.context // task.parts)


def unroll_at(experiment: Described, step: int) -> Unroll:
    """How far the loop runs at `step`, what the loss reads and what the gradient passes through.

    The number of burn-in iterations depends on the seed and the step alone.
    """
    config, program = experiment.training, experiment.program
    if traced_part(program) is None:
        return Unroll(steps=1, window=1)
    loops = ramp_value(config.loops, step, steps=config.steps, end=default_steps(program))
    window = min(config.window, loops)
    extra = random.Random(f"{config.seed}/{step}").choice(config.burn_in) if config.burn_in else 0
    return Unroll(
        steps=loops + extra,
        window=window,
        grad_steps=window if config.grad == "window" else loops,
        recompute=config.recompute,
    )
