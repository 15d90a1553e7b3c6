"""Errors along an axis, with a confidence band."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal, get_args

from algoformer.common.plain_data import read_object
from algoformer.common.terminal import short

Axis = Literal["samples", "iterations"]
"""The axis of a curve: the number of in-context samples, or of iterations."""


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
            raise ValueError(f"axis must be one of {', '.join(get_args(Axis))}, got {short(self.axis)}")
        for name in ("x", "error", "low", "high"):
            object.__setattr__(self, name, tuple(float(value) for value in getattr(self, name)))
            if len(getattr(self, name)) != len(self.x):
                raise ValueError(f"{len(self.x)} x need as many {name}, got {len(getattr(self, name))}")
        if not self.x:
            raise ValueError(f"a curve has at least one point, got none for {short(self.label)}")
        if not all(before < after for before, after in zip(self.x, self.x[1:], strict=False)):
            raise ValueError(f"x must rise along a curve, got {short(self.x)}")
        if not all(math.isfinite(value) for value in self.x):
            raise ValueError(f"x must be finite, got {short(self.x)}")

    def __repr__(self) -> str:
        where = f"{len(self.x)} points along {self.axis} {self.x[0]:g}..{self.x[-1]:g}"
        return f"Curve({short(self.label)}, {where}, final error {self.final:.3g})"

    @property
    def final(self) -> float:
        """The error at the last x."""
        return self.error[-1]

    @property
    def broken(self) -> int:
        """The number of points at which the error is not finite."""
        return sum(not math.isfinite(value) for value in self.error)

    def at(self, x: int | float) -> float:
        """Return the error at exactly this x.

        Raises:
            ValueError: nothing was measured there.
        """
        if x not in self.x:
            raise ValueError(
                f"{short(self.label)} was not measured at {self.axis} = {x:g}; "
                f"it has {len(self.x)} points in {self.x[0]:g}..{self.x[-1]:g}"
            )
        return self.error[self.x.index(x)]

    def to_data(self) -> dict[str, Any]:
        """Return the curve as strings, numbers and lists."""
        columns = {name: [_plain(value) for value in getattr(self, name)] for name in _COLUMNS}
        return {"label": self.label, "axis": self.axis, **columns}

    @classmethod
    def from_data(cls, data: object) -> Curve:
        """Read what `to_data` returned; raise ValueError for anything else."""
        known = [item.name for item in fields(cls)]
        if not isinstance(data, Mapping) or sorted(data) != sorted(known):
            raise ValueError(f"a curve is an object with the keys {', '.join(known)}")
        columns = {name: read_numbers(name, data[name]) for name in _COLUMNS}
        if not isinstance(data["label"], str):
            raise ValueError(f"label must be text, got {short(data['label'])}")
        return cls(label=data["label"], axis=data["axis"], **columns)

    def to_json(self) -> str:
        """Return the curve as JSON text."""
        return json.dumps(self.to_data(), allow_nan=False)

    @classmethod
    def from_json(cls, text: str) -> Curve:
        """Read what `to_json` returned; raise ValueError for anything else."""
        return cls.from_data(read_object(text))


_COLUMNS = ("x", "error", "low", "high")


def _plain(value: float) -> float | str:
    return value if math.isfinite(value) else str(value)


def read_numbers(name: str, values: object) -> tuple[float, ...]:
    """Read a list of numbers, in which "nan", "inf" and "-inf" are words; raise ValueError for others."""
    if not isinstance(values, list | tuple):
        raise ValueError(f"{name} must be a list of numbers, got {short(values)}")
    return tuple(_number(name, value) for value in values)


def _number(name: str, value: object) -> float:
    if isinstance(value, int | float) and not isinstance(value, bool):
        try:
            return float(value)
        except OverflowError:
            raise ValueError(f"{name} holds a number too large for a float: {short(value)}") from None
    if isinstance(value, str) and value in ("nan", "inf", "-inf"):
        return float(value)
    raise ValueError(f"{name} must hold numbers, got {short(value)}")
