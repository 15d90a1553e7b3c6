"""The pictures of the theory: how fast a construction's error falls, and weights beside textbooks."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from algoformer.report.axes import FLOOR, Figure, label, logarithmic, positive, whole_ticks
from algoformer.report.canvas import finish, literal, panels
from algoformer.report.style import strokes


def power_law(
    points: Sequence[tuple[float, float]], *, name: str, power: int | float, title: str = ""
) -> Figure:
    """Deviation against a constant on two log axes, beside a line of the promised slope."""
    # the line goes through the largest value, where rounding plays no part
    start = max(points)
    law = [start[1] * (value / start[0]) ** power for value, _ in points]
    return _deviation(points, law, f"{name}^{power:g}", name, title, log_x=True)


def exponential_law(
    points: Sequence[tuple[float, float]], *, name: str, rate: int | float, title: str = ""
) -> Figure:
    """Deviation against a constant on a log axis, beside a line of the rate that the theorem promises."""
    start = min(points)
    law = [start[1] * math.exp(rate * (value - start[0])) for value, _ in points]
    return _deviation(points, law, f"exp({rate:g} {name})".replace("-1 ", "-"), name, title)


def weights_beside_textbook(errors: Mapping[str, Sequence[float]], *, title: str = "") -> Figure:
    """Error after each step: a line for each solver, those made of weights wide, the textbook's on top."""
    if not errors:
        raise ValueError("there is no solver to draw")
    figure, (axes,) = panels(1, title)
    styles = strokes(errors)
    for name, values in errors.items():
        by_hand = "weights" in name
        axes.plot(
            range(1, len(values) + 1),
            values,
            label=literal(name),
            color=styles[name].color,
            linewidth=4 if by_hand else 1.6,
            alpha=0.45 if by_hand else 1,
            linestyle="-" if by_hand else (0, styles[name].dash),
        )
    every = [value for values in errors.values() for value in values if value > 0]
    logarithmic(axes, max(min(every) / 2, FLOOR**2), 2 * max(every))
    whole_ticks(axes)
    label(axes, "steps", "squared error / d, log scale")
    return finish(figure, axes)


def _deviation(
    points: Sequence[tuple[float, float]],
    law: Sequence[float],
    words: str,
    name: str,
    title: str,
    *,
    log_x: bool = False,
) -> Figure:
    figure, (axes,) = panels(1, title)
    x, errors = zip(*points, strict=True)
    axes.set_xscale("log" if log_x else "linear")
    axes.plot(x, errors, "o-", color="#0072b2", label="measured, float64")
    axes.plot(x, law, color="#d55e00", linestyle=(0, (5, 2)), label=f"the law: {words}")
    shown = positive(errors)
    logarithmic(axes, min(shown) / 3, 3 * max(shown))
    label(axes, name, "largest deviation from the algorithm")
    return finish(figure, axes)
