"""How far the loops of a program run at a training step; pure functions of the seed and the step."""

from __future__ import annotations

import random

from algoformer.config import TrainConfig, ramp_value, tracked_iterations
from algoformer.model.inner_loops import inner_loops
from algoformer.model.program import Program, default_steps, traced_part
from algoformer.trace import Unroll


def unroll_at(program: Program, config: TrainConfig, step: int) -> Unroll:
    """Return how far the loops run at `step`, what the loss reads and what the gradient passes through.

    All numbers depend on the seed and the step alone. Where sequences have depths of their own, the unroll
    is that of the deepest; see `sequence_depths`.
    """
    if traced_part(program) is None:
        return Unroll(steps=1, window=1)
    iterations = iterations_at(program, config, step)
    window = min(config.window, iterations)
    extra = 0
    if config.burn_in and config.depth is None:
        extra = random.Random(f"{config.seed}/{step}").choice(config.burn_in)
    return Unroll(
        steps=iterations + extra,
        window=window,
        grad_steps=tracked_iterations(config, window=window, iterations=iterations),
        gradient_checkpointing=config.gradient_checkpointing,
        inner=_inner(program, config, step),
    )


def iterations_at(program: Program, config: TrainConfig, step: int) -> int:
    """Return the iterations of the traced loop at `step`, without burn-in; of the deepest sequence."""
    if config.depth is not None and traced_part(program) is not None:
        return max(sequence_depths(config, step))
    return ramp_value(config.iterations, step, steps=config.steps, end=default_steps(program))


def sequence_depths(config: TrainConfig, step: int) -> tuple[int, ...]:
    """Return the iterations of each sequence of the whole batch, or one number for all of them."""
    assert config.depth is not None
    count = config.batch_size if config.depth.per == "sequence" else 1
    return config.depth.draw(f"{config.seed}/{step}/depth", count)


def _inner(program: Program, config: TrainConfig, step: int) -> dict[str, int]:
    if config.inner_depth is None:
        return {}
    (steps,) = config.inner_depth.draw(f"{config.seed}/{step}/inner")
    return dict.fromkeys(inner_loops(program), steps)
