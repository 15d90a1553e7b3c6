"""Errors along an axis, with a band: what is measured, what is stored, what is drawn."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal, get_args

Axis = Literal["samples", "iterations"]
"""What a curve runs along: in-context samples seen, or iterations run."""


@dataclass(frozen=True, kw_only=True)
class Curve:
    """The mean error of one solver at each x, and the band from `low` to `high` around it.

    Errors that are not finite are kept as they are. JSON has no word for them, so `to_data` writes them
    as "nan", "inf" and "-inf".

    >>> error, low, high = (1.0, 0.5), (0.9, 0.4), (1.1, 0.6)
    >>> curve = Curve(label="a", axis="samples", x=(0.0, 1.0), error=error, low=low, high=high)
    >>> curve.at(1), curve.final
    (0.5, 0.5)
    >>> Curve.from_json(curve.to_json()) == curve
    True
    """

    label: str
    axis: Axis
    x: tuple[float, ...]
    error: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]

    def __post_init__(self) -> None:
        if self.axis not in get_args(Axis):
            raise ValueError(f"axis must be one of {', '.join(get_args(Axis))}, got {self.axis!r}")
        for name in ("x", "error", "low", "high"):
            object.__setattr__(self, name, tuple(float(value) for value in getattr(self, name)))
            if len(getattr(self, name)) != len(self.x):
                raise ValueError(f"{len(self.x)} x need as many {name}, got {len(getattr(self, name))}")
        if not self.x:
            raise ValueError(f"a curve has at least one point, got none for {self.label!r}")
        if not all(before < after for before, after in zip(self.x, self.x[1:], strict=False)):
            raise ValueError(f"x must rise along a curve, got {self.x}")
        if not all(math.isfinite(value) for value in self.x):
            raise ValueError(f"x must be finite, got {self.x}")

    @property
    def final(self) -> float:
        """The error at the last x."""
        return self.error[-1]

    @property
    def broken(self) -> int:
        """At how many x the error is not a finite number."""
        return sum(not math.isfinite(value) for value in self.error)

    def at(self, x: int | float) -> float:
        """The error at exactly this x.

        Raises:
            ValueError: nothing was measured there.
        """
        if x not in self.x:
            raise ValueError(
                f"{self.label!r} was not measured at {self.axis} = {x:g}; "
                f"it has {len(self.x)} points in {self.x[0]:g}..{self.x[-1]:g}"
            )
        return self.error[self.x.index(x)]

    def to_data(self) -> dict[str, Any]:
        """The curve as strings, numbers and lists."""
        columns = {name: [_plain(value) for value in getattr(self, name)] for name in _COLUMNS}
        return {"label": self.label, "axis": self.axis, **columns}

    @classmethod
    def from_data(cls, data: object) -> Curve:
        """Read what `to_data` gave; anything else raises ValueError."""
        known = [item.name for item in fields(cls)]
        if not isinstance(data, Mapping) or sorted(data) != sorted(known):
            raise ValueError(f"a curve is an object with the keys {', '.join(known)}")
        columns = {name: read_numbers(name, data[name]) for name in _COLUMNS}
        if not isinstance(data["label"], str):
            raise ValueError(f"label must be text, got {data['label']!r}")
        return cls(label=data["label"], axis=data["axis"], **columns)

    def to_json(self) -> str:
        """The curve as JSON text."""
        return json.dumps(self.to_data(), allow_nan=False)

    @classmethod
    def from_json(cls, text: str) -> Curve:
        """Read a curve back; anything that is not one raises ValueError."""
        return cls.from_data(parse_json(text))


_COLUMNS = ("x", "error", "low", "high")


def parse_json(text: str) -> object:
    """JSON text as data; what is not JSON raises ValueError."""
    try:
        data: object = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"this is not JSON: {error}") from None
    return data


def _plain(value: float) -> float | str:
    return value if math.isfinite(value) else str(value)


def read_numbers(name: str, values: object) -> tuple[float, ...]:
    """Numbers as JSON has them, those that are not finite as words; anything else raises ValueError."""
    if not isinstance(values, list | tuple):
        raise ValueError(f"{name} must be a list of numbers, got {str(values)[:40]!r}")
    return tuple(_number(name, value) for value in values)


def _number(name: str, value: object) -> float:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    if isinstance(value, str) and value in ("nan", "inf", "-inf"):
        return float(value)
    raise ValueError(f"{name} must hold numbers, got {str(value)[:40]!r}")
