"""Refuse an unknown name or keyword and suggest the nearest known one."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields
from difflib import get_close_matches
from typing import Any, TypeVar

from algoformer.common.terminal import short

Class = TypeVar("Class", bound=type)


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
        raise ValueError(f"unknown {name} {short(value)}{hint}; choose from {', '.join(known)}")


def did_you_mean(value: object, choices: Iterable[str]) -> str:
    """Return a hint in parentheses that names the nearest choice, or nothing if none is near.

    >>> did_you_mean("noize", ["noise", "dim"])
    " (did you mean 'noise'?)"
    """
    near = get_close_matches(str(value)[:200], list(choices), n=1)
    return f" (did you mean {near[0]!r}?)" if near else ""


def suggests_keywords(known_as: Mapping[str, str] | None = None) -> Callable[[Class], Class]:
    """Make a dataclass answer an unknown keyword with the nearest field.

    Args:
        known_as: names from elsewhere that are far from the field in spelling, with the field they mean.

    >>> from dataclasses import dataclass
    >>> @suggests_keywords({"rate": "lr"})
    ... @dataclass(kw_only=True)
    ... class Config:
    ...     lr: float = 1e-3
    >>> Config(rate=0.1)
    Traceback (most recent call last):
        ...
    TypeError: Config has no field 'rate' (did you mean 'lr'?)
    """
    elsewhere = dict(known_as or {})

    def wrap(cls: Class) -> Class:
        names = [item.name for item in fields(cls)]
        plain: Callable[..., None] = cls.__init__  # type: ignore[misc]

        @functools.wraps(plain)
        def checked(self: Any, *arguments: Any, **keywords: Any) -> None:
            for name in keywords:
                if name not in names:
                    raise TypeError(f"{cls.__name__} has no field {name!r}{_hint(name, names, elsewhere)}")
            plain(self, *arguments, **keywords)

        cls.__init__ = checked  # type: ignore[misc]
        return cls

    return wrap


def _hint(name: str, names: list[str], elsewhere: Mapping[str, str]) -> str:
    hint = f" (did you mean {elsewhere[name]!r}?)" if name in elsewhere else did_you_mean(name, names)
    return hint or f"; its fields are {', '.join(names)}"
