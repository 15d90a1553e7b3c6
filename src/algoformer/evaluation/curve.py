"""Errors along an axis, with a confidence band."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, get_args

from algoformer.common.stored import Stored
from algoformer.common.terminal import short

Axis = Literal["samples", "iterations"]
"""The axis of a curve: the number of in-context samples, or of iterations."""


@dataclass(frozen=True, kw_only=True)
class Curve(Stored):
    """The mean error of one solver at each x, and the band from `low` to `high` around it.

    Errors that are not finite are kept as they are.

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
