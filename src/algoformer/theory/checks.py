"""Check the arguments of builders: every message names the argument, the value and the remedy."""

from __future__ import annotations

import math
import warnings

import torch

from algoformer.problems import Problems
from algoformer.theory.constants import DOUBLE, SINGLE, Constants

LARGEST_SCORE = 0.5
"""The largest cz at which sinh(cz) is still close to cz: they differ by 4 % there."""

LARGEST_ROUNDING = 1e-3
"""The relative rounding error of a step above which a warning is given."""


def check_count(name: str, value: int, *, least: int = 1) -> None:
    """Refuse a count below `least`."""
    if value < least:
        raise ValueError(f"{name} must be at least {least}, got {value}")


def check_step_size(value: float) -> None:
    """Refuse a step size that is not positive. `check_converges` checks whether the data allow it."""
    if not (math.isfinite(value) and value > 0):
        raise ValueError(f"step_size must be a positive number below 2/λ_max, got {value}")


def check_slope(value: float) -> None:
    """Refuse a slope outside (0, 1], with which a leaky ReLU is not one to one."""
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


def product_unit(*, examples: int, dim: int) -> float:
    """Return what a linearized head divides products φ_i·φ_j by, so that they are near 1.

    The paper divides by the number of examples. Features of variance 1 have φ·φ near `dim`, which is larger
    where a prompt has fewer examples than coordinates.
    """
    return float(max(examples, dim))


def check_scale(problems: Problems, *, constants: Constants | None = None) -> None:
    """Check that the features are neither too large nor too small for the linearized heads.

    With z = φ_i·φ_j / `product_unit`, a head computes sinh(cz)/c in place of z, which is wrong by a factor of
    1 + (cz)²/6, and adds a relative rounding error of about eps·C / 2cz. Both are small for features of
    variance about 1. A builder that was given more examples than these problems show divides by more, and
    has more room.

    Args:
        problems: what the model will be asked, e.g. `pairs(prompt.prefix())`.
        constants: those of the model; None means `SINGLE` for float32 features and `DOUBLE` otherwise.

    Raises:
        ValueError: cz exceeds 0.5 somewhere, so that a step is off by more than 4 % and may diverge.
    """
    features, dtype = problems.features.double(), problems.features.dtype
    if constants is None:
        constants = SINGLE if dtype == torch.float32 else DOUBLE
    if not features.numel():
        return
    examples = max(sample for _, sample in problems.asked)
    squares = features.square().sum(dim=-1) / product_unit(examples=examples, dim=features.shape[-1])
    largest, typical = squares.max().item(), squares.mean().item()
    scale = features.square().mean().sqrt().item()
    remedy = (
        f"divide the features by their root mean square {scale:.3g} and multiply step_size by "
        f"{scale**2:.3g} (alpha by {scale**4:.3g}), which gives the same predictions"
    )
    if not constants.c * largest <= LARGEST_SCORE:
        raise ValueError(
            f"features are too large for constants with c={constants.c:g}: c·φ·φ/unit must be at most "
            f"{LARGEST_SCORE}, got {constants.c * largest:.3g}; {remedy}"
        )
    rounding = torch.finfo(dtype).eps * constants.sink / (2 * constants.c * typical) if typical else 0.0
    if rounding > LARGEST_ROUNDING:
        warnings.warn(
            f"features are small: a step adds a relative rounding error of about {rounding:.0e}; {remedy}",
            stacklevel=3,
        )


def check_converges(step_size: float, problems: Problems, *, constants: Constants | None = None) -> None:
    """Check a step size against the problems it is meant for, e.g. `pairs(prompt.prefix())`.

    Raises:
        ValueError: it is not positive, some prompt diverges with it, or the features are too large for the
            constants (see `check_scale`).
    """
    check_step_size(step_size)
    limit = step_size_limit(problems)
    if step_size >= limit:
        raise ValueError(
            f"step_size must lie below 2/λ_max = {limit:.4g} for these prompts, got {step_size:.4g}; "
            "make it smaller or show more examples"
        )
    check_scale(problems, constants=constants)
