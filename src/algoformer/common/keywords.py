"""A wrong keyword of a dataclass is refused with the name that was probably meant."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any, TypeVar

from algoformer.common.names import did_you_mean

Class = TypeVar("Class", bound=type)


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
