"""Checks for numbers, and for whole numbers within bounds."""

from __future__ import annotations

from algoformer.common.terminal import short

LARGEST = 1_000_000
"""No count may exceed this unless its caller says so: a guard against a slip of the keyboard or a mangled or
hostile file, not a limit of taste."""


def check_count(name: str, value: object, least: int = 1, most: int = LARGEST) -> None:
    """Refuse what is not a whole number in least..most.

    >>> check_count("heads", 0)
    Traceback (most recent call last):
    ValueError: heads must be at least 1, got 0
    """
    if not isinstance(value, int) or isinstance(value, bool):
        raise ValueError(f"{name} must be a whole number, got {short(value)}")
    if value < least:
        raise ValueError(f"{name} must be at least {least}, got {short(value)}")
    if value > most:
        raise ValueError(f"{name} must be at most {most}, got {short(value)}")


def is_number(value: object) -> bool:
    """Return whether a value is an int or a float; a bool is neither."""
    return isinstance(value, int | float) and not isinstance(value, bool)
