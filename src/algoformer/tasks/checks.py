"""Checks of a task's constants: each names the argument, its value and what is allowed."""

from __future__ import annotations

import math


def check_count(name: str, value: int, least: int = 1) -> None:
    """Refuse a count below `least`."""
    if value < least:
        raise ValueError(f"{name} must be at least {least}, got {value}")


def check_spread(name: str, value: float) -> None:
    """Refuse a standard deviation that is negative or not finite."""
    if not (math.isfinite(value) and value >= 0):
        raise ValueError(f"{name} is a standard deviation: give a finite number >= 0, got {value}")


def check_positive(name: str, value: float) -> None:
    """Refuse a size that is not a finite number above zero."""
    if not (math.isfinite(value) and value > 0):
        raise ValueError(f"{name} must be a finite number > 0, got {value}")


def check_slope(slope: float) -> None:
    """Refuse a leaky ReLU that folds the line or cannot be inverted."""
    if not 0 < slope <= 1:
        raise ValueError(f"slope of a leaky ReLU that can be inverted must lie in (0, 1], got {slope}")
