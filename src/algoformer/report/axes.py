"""Scales, limits, ticks and labels of axes."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from algoformer.evaluation import Curve
from algoformer.extras import require
from algoformer.report.style import INK, Stroke

if TYPE_CHECKING:
    from matplotlib.axes import Axes as Axes
    from matplotlib.figure import Figure as Figure
else:
    Axes = Figure = Any

FLOOR = 1e-16
"""Errors below this are rounding; a log axis ends there."""

DECADES = 3
"""The number of decades that a log axis shows below the best trained model."""


def logarithmic(axes: Axes, low: float, high: float, *, along: Literal["x", "y"] = "y") -> None:
    """Set a log axis from `low` to `high`; lines that fall below it are drawn down to its edge."""
    axis = getattr(axes, f"{along}axis")
    # limits first: choosing them itself, a log axis would warn about curves that are zero
    axes.set(**{f"{along}lim": (low, high)})
    getattr(axes, f"set_{along}scale")("log", nonpositive="clip")
    ticks = require("matplotlib.ticker", extra="viz")
    axis.set_minor_formatter(ticks.NullFormatter())
    if high / low > 100:
        axis.set_major_locator(ticks.LogLocator(numticks=9))
        return
    axis.set_major_locator(ticks.LogLocator(subs=(1, 2, 5)))
    axis.set_major_formatter(ticks.FuncFormatter(lambda value, _: f"{value:g}"))


def log_limits(curves: Sequence[Curve], styles: Mapping[str, Stroke]) -> tuple[float, float]:
    """Return the lowest and highest error that a log axis shows.

    It shows the trained models well and lets others leave: a textbook method that reaches rounding
    would squeeze them, one that explodes would flatten them.
    """
    trained = [curve for curve in curves if styles[curve.label].solid]
    values = positive(value for curve in curves for value in curve.error)
    bands = positive(value for curve in trained for value in (*curve.low, *curve.error))
    if not values:
        return 0.1, 1.0
    low = max(min(values) / 1.5, FLOOR)
    if bands:
        low = max(low, min(bands) / 10**DECADES)
    starts = positive(curve.error[0] for curve in curves)
    tops = positive(value for curve in trained for value in curve.error)
    high = 1.5 * max([*starts, *tops] or values)
    return min(low, high / 10), high


def positive(values: Iterable[float]) -> list[float]:
    """Return the values that a log axis can show."""
    return [value for value in values if math.isfinite(value) and value > 0]


def label(axes: Axes, x: str, y: str) -> None:
    """Write what the axes show."""
    axes.set_xlabel(x, color=INK)
    axes.set_ylabel(y, color=INK)


def count_axis(axes: Axes, first: int | float, last: int | float, *, log: bool = False) -> None:
    """Set the x axis of samples or iterations."""
    axes.set_xlim(max(first, 1) if log else first, last)
    if log:
        axes.set_xscale("log")
        plain_ticks(axes, first, last)
    else:
        whole_ticks(axes)


def whole_ticks(axes: Axes) -> None:
    """Ticks at whole numbers, for samples and iterations."""
    ticks = require("matplotlib.ticker", extra="viz")
    axes.xaxis.set_major_locator(ticks.MaxNLocator(nbins=8, integer=True, steps=[1, 2, 5, 10]))


def plain_ticks(axes: Axes, low: int | float, high: int | float) -> None:
    """Ticks at 1, 2, 5, 10, 20, ... with their numbers written out, for a log axis of iterations."""
    places = [step * 10**power for power in range(10) for step in (1, 2, 5)]
    ticks_at(axes, [place for place in places if low <= place <= high])


def ticks_at(axes: Axes, places: Sequence[int]) -> None:
    """Ticks at these places of the x axis alone, with their numbers written out."""
    ticks = require("matplotlib.ticker", extra="viz")
    axes.xaxis.set_major_locator(ticks.FixedLocator(places))
    axes.xaxis.set_major_formatter(ticks.FuncFormatter(lambda value, _: f"{value:g}"))
    axes.xaxis.set_minor_locator(ticks.NullLocator())
