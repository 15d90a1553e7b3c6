"""Curves, laws of error and architecture searches as pictures."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from algoformer.evaluation import Curve, Evaluation
from algoformer.report.axes import (
    FLOOR,
    Figure,
    count_axis,
    label,
    log_limits,
    logarithmic,
    positive,
    whole_ticks,
)
from algoformer.report.canvas import draw, finish, literal, mark_training, panels, settle
from algoformer.report.style import INK, Stroke, strokes

ERROR = "squared error / scale"
WRONG = "share of wrong answers"


def error_by_sample(
    curves: Sequence[Curve | Evaluation], *, title: str = "", compact: bool = False
) -> Figure:
    """Error against the number of in-context samples, on a linear and on a logarithmic scale.

    Trained models are solid with their bands, textbook methods dashed. An evaluation stands for its
    `by_sample`. A compact figure has the logarithmic scale only and can be read on a phone.
    """
    drawn = [item.by_sample if isinstance(item, Evaluation) else item for item in curves]
    _check(drawn, "samples")
    figure, all_axes = panels(1 if compact else 2, title, compact=compact)
    styles = _styles(curves)
    for axes in all_axes:
        draw(axes, drawn, styles)
        count_axis(axes, min(curve.x[0] for curve in drawn), max(curve.x[-1] for curve in drawn))
    if not compact:
        label(all_axes[0], "in-context samples", ERROR)
        # curves may rise beyond it, as least squares does where it interpolates noise
        all_axes[0].set_ylim(0, 1.05 * max(positive(curve.high[0] for curve in drawn), default=1.0))
    label(all_axes[-1], "in-context samples", f"{ERROR}, log scale")
    logarithmic(all_axes[-1], *log_limits(drawn, styles))
    return finish(figure, all_axes[0])


def error_by_step(
    curves: Sequence[Curve | Evaluation],
    *,
    trained: int | None = None,
    title: str = "",
    log_x: bool = False,
    compact: bool = False,
) -> Figure:
    """Error on the last sample against iterations, log scale; a mark where training stopped.

    A curve of a single point belongs to a solver that does not iterate and is drawn as a level. An
    evaluation stands for its `by_step`. Where answers are classes, the error is the share of wrong answers.
    """
    drawn = [item.by_step if isinstance(item, Evaluation) else item for item in curves]
    _check(drawn, "iterations")
    figure, (axes,) = panels(1, title, compact=compact)
    styles = _styles(curves)
    first = min(curve.x[0] for curve in drawn)
    last = max(max(curve.x[-1] for curve in drawn), first + 1)
    low, high = log_limits(drawn, styles)
    draw(axes, drawn, styles, levels=(first, last), floor=low)
    count_axis(axes, first, last, log=log_x)
    classes = any(isinstance(item, Evaluation) and item.unsolved is not None for item in curves)
    label(axes, "iterations", WRONG if classes else f"{ERROR}, last sample")
    logarithmic(axes, low, high)
    if trained is not None and trained <= last:
        mark_training(axes, trained)
    return finish(figure, axes)


def training_loss(
    runs: Mapping[str, Sequence[Mapping[str, float | int]]],
    *,
    title: str = "",
    value: str = "loss",
    compact: bool = False,
) -> Figure:
    """Plot a column of each run's metrics against the training step, on a log scale."""
    if not runs:
        raise ValueError("there is no run to draw; give at least one")
    figure, (axes,) = panels(1, title, compact=compact)
    styles = strokes(runs)
    losses: list[float] = []
    for name, rows in runs.items():
        if not rows or any("step" not in row or value not in row for row in rows):
            raise ValueError(f"the metrics of {name!r} need rows with 'step' and {value!r}")
        steps = [float(row["step"]) for row in rows]
        values = [float(row[value]) for row in rows]
        axes.plot(steps, values, label=literal(name), color=styles[name].color, linewidth=1.6)
        losses += positive(values)
    if losses:
        logarithmic(axes, min(losses) / 1.2, max(losses) * 1.2)
    label(axes, "training step", f"training {value}")
    axes.margins(x=0.01)
    return finish(figure, axes)


def _styles(curves: Sequence[Curve | Evaluation]) -> dict[str, Stroke]:
    textbook = [item.label for item in curves if isinstance(item, Evaluation) and item.parameters is None]
    return strokes((item.label for item in curves), textbook=textbook)


def _check(curves: Sequence[Curve], axis: str) -> None:
    if not curves:
        raise ValueError("there is no curve to draw; give at least one")
    labels = [curve.label for curve in curves]
    for curve in curves:
        if curve.axis != axis:
            raise ValueError(f"this plot runs along {axis}, but {curve.label!r} runs along {curve.axis}")
        if labels.count(curve.label) > 1:
            raise ValueError(
                f"two curves are both labelled {curve.label!r}: a legend could not tell them apart"
            )


def power_law(points: Sequence[tuple[float, float]], *, name: str, power: int | float) -> Figure:
    """Deviation against a constant on two log axes, beside a line of the promised slope."""
    # the line goes through the largest value, where rounding plays no part
    start = max(points)
    law = [start[1] * (value / start[0]) ** power for value, _ in points]
    return _deviation(points, law, f"{name}^{power:g}", name, log_x=True)


def exponential_law(points: Sequence[tuple[float, float]], *, name: str, rate: int | float) -> Figure:
    """Deviation against a constant on a log axis, beside a line of the rate that the theorem promises."""
    start = min(points)
    law = [start[1] * math.exp(rate * (value - start[0])) for value, _ in points]
    return _deviation(points, law, f"exp({rate:g} {name})".replace("-1 ", "-"), name)


def weights_beside_textbook(errors: Mapping[str, Sequence[float]]) -> Figure:
    """Error after each step: a line for each solver, those made of weights wide, the textbook's on top."""
    if not errors:
        raise ValueError("there is no solver to draw; give at least one")
    figure, (axes,) = panels(1, "")
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
    label(axes, "steps", f"{ERROR}, log scale")
    return finish(figure, axes)


def _deviation(
    points: Sequence[tuple[float, float]], law: Sequence[float], words: str, name: str, *, log_x: bool = False
) -> Figure:
    figure, (axes,) = panels(1, "")
    x, errors = zip(*points, strict=True)
    axes.set_xscale("log" if log_x else "linear")
    axes.plot(x, errors, "o-", color="#0072b2", label="measured, float64")
    axes.plot(x, law, color="#d55e00", linestyle=(0, (5, 2)), label=f"the law: {words}")
    shown = positive(errors)
    logarithmic(axes, min(shown) / 3, 3 * max(shown))
    label(axes, name, "largest deviation from the algorithm")
    return finish(figure, axes)


ROW = 0.3
"""Inches from one bar to the next."""

AROUND = 1.4
"""Inches above and below all bars."""


def importance_figure(importance: Mapping[str, float], *, title: str = "") -> Figure:
    """A bar for each parameter of a search: its share in what separates good trials from others."""
    if not importance:
        raise ValueError("there is no importance to draw; a search needs four trained trials for one")
    figure, (axes,) = panels(1, title)
    figure.set_figheight(AROUND + ROW * len(importance))
    ranked = sorted(importance.items(), key=lambda pair: pair[1])
    places = range(len(ranked))
    bars = axes.barh(places, [share for _, share in ranked], height=0.6, color="#0072b2")
    axes.bar_label(bars, [f"{share:.0%}" for _, share in ranked], padding=4, fontsize=9, color=INK)
    axes.set_yticks(places, [literal(name) for name, _ in ranked])
    axes.tick_params(axis="y", length=0)
    axes.set_xlim(0, 1.12 * max(importance.values()) or 1)
    label(axes, "importance (PED-ANOVA)", "")
    return settle(figure)


def front_figure(
    points: Sequence[tuple[float, float]], front: Sequence[tuple[float, float]], *, title: str = ""
) -> Figure:
    """Validation error against parameters on two log axes: all trials as dots, the front as a line."""
    if not front:
        raise ValueError("there is no trial to draw; give at least one")
    figure, (axes,) = panels(1, title)
    styles = strokes(["trained trials", "front"])
    for name, shown, marks in (("trained trials", points, "o"), ("front", front, "o-")):
        x, y = zip(*shown, strict=True)
        axes.plot(x, y, marks, label=name, color=styles[name].color, markersize=5, linewidth=1.6)
    parameters, errors = (positive(values) or [1.0] for values in zip(*points, strict=True))
    logarithmic(axes, min(parameters) / 1.3, max(parameters) * 1.3, along="x")
    logarithmic(axes, min(errors) / 1.3, max(errors) * 1.3)
    label(axes, "parameters", "validation error")
    return finish(figure, axes)
