"""Figures of several panels: the paper's comparisons, side by side under one legend."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Literal

from algoformer.evaluation import Curve
from algoformer.extras import require
from algoformer.report.axes import (
    Axes,
    Figure,
    count_axis,
    label,
    log_limits,
    logarithmic,
    ticks_at,
)
from algoformer.report.canvas import draw, finish, literal, mark_training, panels
from algoformer.report.plots import ERROR
from algoformer.report.style import INK, Stroke, method_color, strokes

BEYOND: tuple[float, ...] = (1, 1.4)
"""The dots of a curve that belongs to a solid one, measured far beyond the trained depth."""


APART = 6.0
"""Points between the bars of two series at the same size."""

NARROW = 4
"""An axis whose values differ by less than this factor is linear."""


@dataclass(frozen=True, kw_only=True)
class Panel:
    """Curves on one pair of axes.

    Attributes:
        title: above the axes.
        curves: with bands, each with a label of its own.
        beyond: further curves of the same labels, dotted: the same models run on.
        repeats: further curves of the same labels, thin: other seeds.
        marks: iterations at which training stopped.
    """

    title: str
    curves: tuple[Curve, ...]
    beyond: tuple[Curve, ...] = ()
    repeats: tuple[Curve, ...] = ()
    marks: tuple[int, ...] = ()


def panel_figure(
    shown: Sequence[Panel],
    *,
    title: str,
    note: str = "",
    rows: int = 1,
    log_x: bool = False,
    same_scale: bool = False,
    textbook: Collection[str] = (),
) -> Figure:
    """Errors along samples or iterations, a panel for each comparison, logarithmic, one legend for all.

    Args:
        shown: the panels, all along the same axis.
        title: of the figure.
        note: what the legend cannot say, above it.
        rows: of panels.
        log_x: whether the x axis is logarithmic too.
        same_scale: whether all panels have the same y axis.
        textbook: labels that are drawn dashed, whatever they say, and stand last in the legend.
    """
    curves = [curve for panel in shown for curve in panel.curves]
    if not curves:
        raise ValueError("there is no curve to draw")
    if len({curve.axis for curve in curves}) > 1:
        raise ValueError("all panels of a figure run along the same axis, samples or iterations")
    figure, all_axes = panels(len(shown), title, rows=rows)
    styles = strokes((curve.label for curve in curves), textbook=textbook)
    columns = -(-len(shown) // rows)
    words = "in-context samples" if curves[0].axis == "samples" else "iterations"
    for place, (panel, axes) in enumerate(zip(shown, all_axes, strict=True)):
        axes.set_title(panel.title, color=INK, fontsize=10.5)
        if panel.curves:
            scaled = curves if same_scale else [*panel.curves, *panel.beyond]
            _draw_panel(axes, panel, styles, scaled, log_x=log_x)
        label(axes, words, "" if place % columns else ERROR)
    return finish(figure, *all_axes, note=note, last=textbook)


def _draw_panel(
    axes: Axes, panel: Panel, styles: dict[str, Stroke], scaled: Sequence[Curve], *, log_x: bool
) -> None:
    everything = [*panel.curves, *panel.beyond, *panel.repeats]
    axis = panel.curves[0].axis
    first = min(curve.x[0] for curve in everything)
    last = max(max(curve.x[-1] for curve in everything), first + 1)
    levels = (first, last) if axis == "iterations" else None
    draw(axes, panel.curves, styles, levels=levels)
    for curve in panel.repeats:
        axes.plot(curve.x, curve.error, color=styles[curve.label].color, linewidth=0.8, alpha=0.8)
    for curve in panel.beyond:
        style = styles[curve.label]
        axes.plot(curve.x, curve.error, color=style.color, linewidth=1.6, dashes=BEYOND, zorder=2.6)
    count_axis(axes, first, last, log=log_x)
    _set_height(axes, scaled, styles)
    for row, mark in enumerate(panel.marks):
        mark_training(axes, mark, f"T={mark}", row=row)


def _set_height(axes: Axes, curves: Sequence[Curve], styles: dict[str, Stroke]) -> None:
    # errors that all have the same size (those that are mostly noise) would be a line on a log axis
    shown = [curve.error for curve in curves]
    shown += [band for curve in curves if styles[curve.label].solid for band in (curve.low, curve.high)]
    if not is_narrow(axes, [value for line in shown for value in line if math.isfinite(value)]):
        logarithmic(axes, *log_limits(curves, styles))


def is_narrow(axes: Axes, values: Sequence[float], *, along: Literal["x", "y"] = "y") -> bool:
    """Return whether values differ by less than `NARROW`, and set a linear axis around them if they do."""
    if not values or min(values) <= 0 or max(values) / min(values) >= NARROW:
        return False
    room = 0.08 * (max(values) - min(values)) or 0.1 * max(values)
    axes.set(**{f"{along}lim": (min(values) - room, max(values) + room)})
    return True


@dataclass(frozen=True, kw_only=True)
class Series:
    """One model at several sizes: an error with its band at each."""

    label: str
    x: tuple[int, ...]
    error: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]


@dataclass(frozen=True, kw_only=True)
class Sweep:
    """Series over one size, say the number of layers."""

    title: str
    over: str
    series: tuple[Series, ...]


def sweep_figure(shown: Sequence[Sweep], *, title: str, kind: Literal["linear", "log"] = "log") -> Figure:
    """Errors against sizes, with bands as bars, one legend for all panels.

    A series has the color of the method that its label names; the second one of a method is dashed.
    """
    series = [one for sweep in shown for one in sweep.series]
    if not series:
        raise ValueError("there is no series to draw")
    figure, all_axes = panels(len(shown), title)
    lows = [value for one in series for value in (*one.low, *one.error) if value > 0]
    highs = [value for one in series for value in (*one.high, *one.error)]
    for place, (sweep, axes) in enumerate(zip(shown, all_axes, strict=True)):
        axes.set_title(sweep.title, color=INK, fontsize=10.5)
        for number, one in enumerate(sweep.series):
            aside = APART * (number - (len(sweep.series) - 1) / 2)
            color = method_color(one.label)
            again = any(method_color(other.label) == color for other in sweep.series[:number])
            style = Stroke(color=color, dash=(4, 2) if again else (), marker="os^D"[number % 4])
            _draw_series(axes, one, style, aside=aside)
        sizes = sorted({x for one in sweep.series for x in one.x})
        axes.set_xscale("log", base=2)
        if sizes:
            axes.set_xlim(sizes[0] / 1.2, sizes[-1] * 1.2)
            ticks_at(axes, sizes)
        label(axes, sweep.over, "" if place else ERROR)
        if kind == "log":
            logarithmic(axes, min(lows) / 1.5, max(highs) * 1.5)
    return finish(figure, *all_axes)


def _draw_series(axes: Axes, one: Series, style: Stroke, *, aside: float) -> None:
    # bars at the same size would hide each other: every series stands a little aside
    transforms = require("matplotlib.transforms", extra="viz")
    moved = transforms.ScaledTranslation(aside / 72, 0, axes.figure.dpi_scale_trans)
    below = [error - low for error, low in zip(one.error, one.low, strict=True)]
    above = [high - error for error, high in zip(one.error, one.high, strict=True)]
    axes.errorbar(
        one.x,
        one.error,
        yerr=[below, above],
        label=literal(one.label),
        color=style.color,
        marker=style.marker,
        markersize=5,
        linewidth=1.6,
        linestyle="-" if style.solid else (0, style.dash),
        capsize=3,
        transform=axes.transData + moved,
    )
