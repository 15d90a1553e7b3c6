"""Check the arguments of builders: every message names the argument, the value and the remedy."""

from __future__ import annotations

import math
import warnings

import torch

from algoformer.common.plain_data import check_count
from algoformer.problems import Problems
from algoformer.theory.constants import DOUBLE, SINGLE, Constants

LARGEST_SCORE = 0.5
"""The largest cz at which sinh(cz) is still close to cz: they differ by 4 % there."""

LARGEST_ROUNDING = 1e-3
"""The relative rounding error of a step above which a warning is given."""


def check_counts(**counts: int) -> None:
    """Refuse a count below 1."""
    for name, value in counts.items():
        check_count(name, value)


def check_pairs(*, dim: int, examples: int, out: int) -> None:
    """Check the sizes of a prompt of (x, y) pairs: counts of at least 1, and labels that fit a row."""
    check_counts(dim=dim, examples=examples, out=out)
    if out > dim:
        raise ValueError(f"out must be at most dim={dim}, so that a label fits a row; got {out}")


def check_step_size(value: float) -> None:
    """Refuse a step size that is not positive; `check_converges` checks it against the data."""
    if not (math.isfinite(value) and value > 0):
        raise ValueError(f"step_size must be a positive number below 2/λ_max, got {value}")


def check_penalty(penalty: float) -> None:
    """Refuse a penalty that is negative or not finite; 0 is plain gradient descent."""
    if not (math.isfinite(penalty) and penalty >= 0):
        raise ValueError(f"penalty must be a number ≥ 0 (0 is plain gradient descent), got {penalty}")


def check_momentum(momentum: float) -> None:
    """Refuse a momentum outside [0, 1): at 1 the iteration does not converge."""
    if not 0 <= momentum < 1:
        raise ValueError(f"momentum must lie in [0, 1), got {momentum}")


def check_positive_alpha(alpha: float) -> None:
    """Refuse an α that is not positive; `check_alpha` checks it against the data."""
    if not (math.isfinite(alpha) and alpha > 0):
        raise ValueError(
            f"alpha must be a positive number below 2/λ_max(S)², got {alpha}; "
            "1/150² suits 40 normal examples of 20 numbers"
        )


def largest_eigenvalue(problems: Problems, *, mean: bool) -> float:
    """Return the largest λ_max of the sum or mean of φ φᵀ before a question, over all prompts."""
    largest = 0.0
    for problem, sample in problems.questions:
        if sample:
            features = problems.features[:, problem, :sample].double()
            norm = torch.linalg.matrix_norm(features, ord=2).square().max().item()
            largest = max(largest, norm / sample if mean else norm)
    return largest


def step_size_limit(problems: Problems, *, penalty: float = 0.0, momentum: float = 0.0) -> float:
    """Return 2(1 + momentum)/(λ_max + penalty), the least over all prompts and questions.

    λ_max is that of the mean of φ φᵀ before a question. Gradient descent converges from any start if and only
    if its step size lies strictly below.
    """
    steepest = largest_eigenvalue(problems, mean=True) + penalty
    return 2 * (1 + momentum) / steepest if steepest else math.inf


def alpha_limit(problems: Problems) -> float:
    """Return 2/λ_max(S)², the least over all prompts and questions, S = Σ x xᵀ over a question's examples.

    Newton's method converges from M_0 = αS if and only if α lies strictly between 0 and this limit.
    """
    largest = largest_eigenvalue(problems, mean=False)
    return 2 / largest**2 if largest else math.inf


def product_unit(*, examples: int, dim: int) -> float:
    """Return the number by which a linearized head divides products φ_i·φ_j, so that they are near 1.

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
        problems: the problems that the model will solve, e.g. `pairs(prompt.prefix())`.
        constants: those of the model; None means `SINGLE` for float32 features and `DOUBLE` otherwise.

    Raises:
        ValueError: cz exceeds 0.5 somewhere, so that a step is off by more than 4 % and may diverge.
    """
    features, dtype = problems.features.double(), problems.features.dtype
    if constants is None:
        constants = SINGLE if dtype == torch.float32 else DOUBLE
    if not features.numel():
        return
    examples = max(sample for _, sample in problems.questions)
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


def check_converges(
    step_size: float,
    problems: Problems,
    *,
    penalty: float = 0.0,
    momentum: float = 0.0,
    constants: Constants | None = None,
) -> None:
    """Check a step size against the problems it is meant for, e.g. `pairs(prompt.prefix())`.

    Args:
        step_size: η of `gradient_descent`, `ridge`, `heavy_ball` and the theorems built on them.
        problems: the problems that the model will solve.
        penalty: λ of `ridge`, which narrows the interval.
        momentum: β of `heavy_ball`, which widens the interval.
        constants: those of the model (see `check_scale`).

    Raises:
        ValueError: an argument is out of range, some prompt diverges, or the features are too large for the
            constants.
    """
    check_step_size(step_size)
    check_penalty(penalty)
    check_momentum(momentum)
    limit = step_size_limit(problems, penalty=penalty, momentum=momentum)
    if step_size >= limit:
        above = "2(1 + momentum)" if momentum else "2"
        below = "(λ_max + penalty)" if penalty else "λ_max"
        raise ValueError(
            f"step_size must lie below {above}/{below} = {limit:.4g} for these prompts, got {step_size:.4g}; "
            "make it smaller or show more examples"
        )
    check_scale(problems, constants=constants)


def check_alpha(alpha: float, problems: Problems, *, constants: Constants | None = None) -> None:
    """Check α against the problems it is meant for, e.g. `pairs(prompt.prefix())`.

    The paper's interval is closed at 2/λ_max(S)². There the top eigenvalue of I - M_0 S is -1, its square is
    1, and the method stalls: the interval must be open.

    Raises:
        ValueError: α is not positive or not below the limit of some prompt, or the features are too large for
            the constants (see `check_scale`).
    """
    check_positive_alpha(alpha)
    limit = alpha_limit(problems)
    if alpha >= limit:
        raise ValueError(
            f"alpha must lie strictly below 2/λ_max(S)² = {limit:.4g} for these prompts, got {alpha:.4g}; "
            f"alpha={limit / 2:.4g} converges"
        )
    check_scale(problems, constants=constants)
