"""Refuse an unknown name and suggest the nearest known one."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


def check_choice(name: str, value: object, choices: Iterable[str]) -> None:
    """Raise ValueError unless `value` is one of `choices`; the message suggests the nearest of them.

    Args:
        name: what the value is called in the message, such as "task".
        value: what was given.
        choices: what may be given.

    >>> check_choice("task", "linaer", ["linear", "chain"])
    Traceback (most recent call last):
    ValueError: unknown task 'linaer' (did you mean 'linear'?); choose from linear, chain
    """
    known = list(choices)
    if value not in known:
        hint = did_you_mean(value, known)
        raise ValueError(f"unknown {name} {value!r}{hint}; choose from {', '.join(known)}")


def did_you_mean(value: object, choices: Iterable[str]) -> str:
    """Return a hint in parentheses that names the nearest choice, or nothing if none is near.

    >>> did_you_mean("noize", ["noise", "dim"])
    " (did you mean 'noise'?)"
    """
    near = get_close_matches(str(value), list(choices), n=1)
    return f" (did you mean {near[0]!r}?)" if near else ""
