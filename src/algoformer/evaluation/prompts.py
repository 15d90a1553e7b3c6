"""Held-out prompts, which no training run draws."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import torch

from algoformer.prompt import Prompt
from algoformer.tasks import Task


def held_out_seed(seed: int) -> int:
    """Return the generator's seed for evaluation prompts number `seed`: always odd.

    Training draws its prompts from generators with even seeds (`training.trainer.prompt_seed`). PyTorch's
    CPU generator looks only at the low 32 bits of a seed, so a large offset would not keep the streams
    apart (5 and 5 + 2**32 give the same numbers); the lowest bit does, whatever the seeds.

    Raises:
        ValueError: the seed is outside 0..2**31 - 1, where two seeds could mean the same prompts.
    """
    if not 0 <= seed < 2**31:
        raise ValueError(f"seed must lie in 0..2**31 - 1, got {seed}")
    return 2 * seed + 1


def evaluation_prompts(
    task: Task, *, count: int = 1280, seed: int = 0, split: Literal["valid", "test"] = "test"
) -> Prompt:
    """Return the fixed held-out prompts of a task, drawn on the CPU in float32: the same on every machine.

    (The draws are the same bit for bit; products made from them may differ in the last digit.) All
    `count` are drawn in one go, and a smaller count is not always the beginning of a larger one. A task that
    draws from a finite pool, such as puzzles of a file, has a method `held_out(split)` that returns the task
    on the puzzles kept for validation or test. The prompts bring the scale of the task along, by which
    `evaluate` divides errors.

    >>> from algoformer.tasks import LinearRegression
    >>> evaluation_prompts(LinearRegression(dim=3, points=5), count=8).rows.shape
    torch.Size([8, 10, 3])
    """
    if count < 1:
        raise ValueError(f"count must be at least 1, got {count}")
    generator = torch.Generator("cpu").manual_seed(held_out_seed(seed))
    held_out = getattr(task, "held_out", None)
    task = task if held_out is None else held_out(split)
    return replace(task.sample(count, generator=generator, dtype=torch.float32), scale=task.scale)
