"""Check the constants of a task: every message names the argument, its value and what is allowed."""

from __future__ import annotations

from algoformer.common.terminal import short

MAX_DIM = 2**16
"""The largest number of coordinates of a row."""

MAX_POINTS = 2**20
"""The largest number of samples in a prompt."""

MAX_LAYERS = 2**10
"""The largest number of layers of a fixed or hidden network."""

MAX_SEED = 2**63 - 1
"""The largest seed that every generator of PyTorch accepts."""

MAX_SPREAD = 1e18
"""The largest scale of random numbers: their squares still fit into float32."""


def check_count(name: str, value: int, least: int = 1, most: int = MAX_POINTS) -> None:
    """Refuse a value that is not an integer in least..most."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise ValueError(f"{name} must be an integer, got {short(value)}")
    if value < least:
        raise ValueError(f"{name} must be at least {least}, got {short(value)}")
    if value > most:
        raise ValueError(f"{name} must be at most {most}, got {short(value)}")


def check_spread(name: str, value: int | float) -> None:
    """Refuse a standard deviation that is negative, not finite, or too large for float32."""
    if not (is_number(value) and 0 <= value <= MAX_SPREAD):
        raise ValueError(
            f"{name} is a standard deviation: give a finite number >= 0 and at most {MAX_SPREAD:g}, "
            f"got {short(value)}"
        )


def check_positive(name: str, value: int | float) -> None:
    """Refuse a size that is not a finite number above zero."""
    most = MAX_SPREAD**2
    if not (is_number(value) and 0 < value <= most):
        raise ValueError(f"{name} must be a finite number > 0 and at most {most:g}, got {short(value)}")


def check_slope(slope: int | float) -> None:
    """Refuse a leaky ReLU that is not monotone or cannot be inverted."""
    if not (is_number(slope) and 0 < slope <= 1):
        raise ValueError(f"slope of a leaky ReLU that can be inverted must lie in (0, 1], got {short(slope)}")


def is_number(value: object) -> bool:
    """Return whether a value is an int or a float; a bool is neither."""
    return isinstance(value, int | float) and not isinstance(value, bool)
