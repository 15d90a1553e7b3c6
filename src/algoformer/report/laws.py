"""The pictures of the theory: how fast a construction's error falls, and weights beside textbooks."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from algoformer.report.canvas import FLOOR, finish, literal, logarithmic, panels, whole_ticks
from algoformer.report.style import INK, strokes

if TYPE_CHECKING:
    from matplotlib.figure import Figure
else:
    Figure = Any


def power_law(
    points: Sequence[tuple[float, float]], *, name: str, power: int | float, title: str = ""
) -> Figure:
    """Deviation against a constant on two log axes, beside a line of the promised slope."""
    figure, (axes,) = panels(1, title)
    x, errors = zip(*points, strict=True)
    # the line goes through the largest value, where rounding plays no part
    start = max(points)
    law = [start[1] * (value / start[0]) ** power for value in x]
    axes.set_xscale("log")
    _deviation(axes, x, errors, law, f"{name}^{power:g}")
    axes.set_xlabel(name, color=INK)
    return finish(figure, axes)


def exponential_law(
    points: Sequence[tuple[float, float]], *, name: str, rate: int | float, title: str = ""
) -> Figure:
    """Deviation against a constant on a log axis, beside a line of the rate that the theorem promises."""
    figure, (axes,) = panels(1, title)
    x, errors = zip(*points, strict=True)
    start = min(points)
    law = [start[1] * math.exp(rate * (value - start[0])) for value in x]
    _deviation(axes, x, errors, law, f"exp({rate:g} {name})".replace("-1 ", "-"))
    axes.set_xlabel(name, color=INK)
    return finish(figure, axes)


def weights_beside_textbook(errors: Mapping[str, Sequence[float]], *, title: str = "") -> Figure:
    """Error after each step: a line for each solver, those made of weights wide, the textbook's on top."""
    if not errors:
        raise ValueError("there is no solver to draw")
    figure, (axes,) = panels(1, title)
    styles = strokes(errors)
    for label, values in errors.items():
        by_hand = "weights" in label
        axes.plot(
            range(1, len(values) + 1),
            values,
            label=literal(label),
            color=styles[label].color,
            linewidth=4 if by_hand else 1.6,
            alpha=0.45 if by_hand else 1,
            linestyle="-" if by_hand else (0, styles[label].dash),
        )
    every = [value for values in errors.values() for value in values if value > 0]
    logarithmic(axes, max(min(every) / 2, FLOOR**2), 2 * max(every))
    whole_ticks(axes)
    axes.set_xlabel("steps", color=INK)
    axes.set_ylabel("squared error / d, log scale", color=INK)
    return finish(figure, axes)


def _deviation(
    axes: Any, x: Sequence[float], errors: Sequence[float], law: Sequence[float], name: str
) -> None:
    axes.plot(x, errors, "o-", color="#0072b2", label="measured, float64")
    axes.plot(x, law, color="#d55e00", linestyle=(0, (5, 2)), label=f"the law: {name}")
    shown = [error for error in errors if error > 0]
    logarithmic(axes, min(shown) / 3, 3 * max(shown))
    axes.set_ylabel("largest deviation from the algorithm", color=INK)
