"""Checks that all builders share: each names the argument, the value and the remedy."""

from __future__ import annotations

import math

import torch

from algoformer.problems import Problems


def check_count(name: str, value: int, *, least: int = 1) -> None:
    """A whole number, not less than `least`."""
    if value < least:
        raise ValueError(f"{name} must be at least {least}, got {value}")


def check_step_size(value: float) -> None:
    """A positive step size. Whether it is small enough depends on the data: see `check_converges`."""
    if not (math.isfinite(value) and value > 0):
        raise ValueError(f"step_size must be a positive number below 2/λ_max, got {value}")


def check_slope(value: float) -> None:
    """A leaky ReLU that is one to one: slope in (0, 1]."""
    if not 0 < value <= 1:
        raise ValueError(
            f"slope must lie in (0, 1], got {value}; at 0 the activation loses the size of negative inputs "
            "and cannot be inverted"
        )


def step_size_limit(problems: Problems) -> float:
    """2/λ_max, the least over all prompts and questions; λ_max that of the mean of φ φᵀ before a question.

    Gradient descent converges from any start if and only if its step size lies strictly below.
    """
    largest = 0.0
    for problem, sample in problems.asked:
        if sample:
            features = problems.features[:, problem, :sample].double()
            largest = max(largest, torch.linalg.matrix_norm(features, ord=2).square().max().item() / sample)
    return 2 / largest if largest else math.inf


def check_converges(step_size: float, problems: Problems) -> None:
    """Hold a step size against the problems it shall solve, e.g. `pairs(prompt.prefix())`.

    Raises:
        ValueError: it is not positive, or some prompt diverges with it.
    """
    check_step_size(step_size)
    limit = step_size_limit(problems)
    if step_size >= limit:
        raise ValueError(
            f"step_size must lie below 2/λ_max = {limit:.4g} for these prompts, got {step_size:.4g}; "
            "make it smaller or show more examples"
        )
