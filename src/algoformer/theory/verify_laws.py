"""The error laws of the theorems, and the error after each step, as plain numbers for a plot."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch

from algoformer.algorithms import GradientDescent, Newton
from algoformer.problems import pairs
from algoformer.theory.newton import newton
from algoformer.theory.representation import gradient_descent
from algoformer.theory.statement import Sizes
from algoformer.theory.verify_prompts import pair_prompts, safe_step_size
from algoformer.theory.verify_statements import lemma_case
from algoformer.trace import Solver, Unroll

SMALL = Sizes(prompts=8, steps=50)
"""Sizes that are large enough to show a law."""


def error_against_c(
    values: Sequence[float] = (1e-1, 3e-2, 1e-2, 3e-3, 1e-3, 3e-4, 1e-4), *, sizes: Sizes = SMALL
) -> list[tuple[float, float]]:
    """Return (c, largest deviation from gradient descent) for each c.

    It falls as c² until rounding, eps/c, takes over.
    """
    return [(c, _deviation(sizes, c=c)) for c in values]


def error_against_sink(
    values: Sequence[float] = (6.0, 8.0, 10.0, 12.0, 14.0, 16.0, 20.0, 25.0), *, sizes: Sizes = SMALL
) -> list[tuple[float, float]]:
    """Return (C, largest deviation from gradient descent) for each C.

    It falls as e^(-C) until the error in c takes over.
    """
    return [(sink, _deviation(sizes, sink=sink)) for sink in values]


def _deviation(sizes: Sizes, **changed: float) -> float:
    """Return the deviation of the lemma with changed constants."""
    return lemma_case(replace(sizes, constants=replace(sizes.constants, **changed))).measure().deviation


@torch.no_grad()
def error_by_step(*, sizes: Sizes = SMALL, alpha: float = 1 / 150**2) -> dict[str, list[float]]:
    """Return the mean squared error after each step, divided by dim, of weights and of textbooks."""
    prompt = pair_prompts(sizes)
    step_size = safe_step_size(pairs(prompt), 0.5)
    shape: dict[str, Any] = {"dim": sizes.dim, "examples": sizes.examples, "constants": sizes.constants}
    solvers: dict[str, Solver] = {
        "gradient descent, weights": gradient_descent(step_size=step_size, **shape),
        "gradient descent, textbook": GradientDescent(step_size=step_size),
        "Newton, weights": newton(alpha=alpha, **shape),
        "Newton, textbook": Newton(alpha=alpha),
    }
    errors = {}
    for name, solver in solvers.items():
        gaps = solver(prompt, Unroll(steps=sizes.steps or 40)).predictions - prompt.targets
        errors[name] = (gaps.square().mean(dim=(1, 2, 3)) / sizes.dim).tolist()
    return errors
