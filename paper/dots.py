"""Dot plots of many models: a row for each, a panel for each task, the error as a dot on its band.

Where ten curves of one size lie on each other, ten rows can still be read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from algoformer.report.axes import Axes, Figure, label, logarithmic, positive
from algoformer.report.canvas import in_one_order, literal, panels, settle
from algoformer.report.plots import ERROR
from algoformer.report.style import INK, method_color
from paper.figures import is_narrow

ROW = 0.27
"""Inches from one row to the next."""

AROUND = 1.7
"""Inches above and below all rows: titles, ticks and words."""

SPREAD = 0.5
"""The fraction of a row's height that its dots may take."""


@dataclass(frozen=True, kw_only=True)
class Dot:
    """An error with its band, and the error of the same model run far beyond training if it can be."""

    error: float
    low: float
    high: float
    beyond: float | None = None


@dataclass(frozen=True, kw_only=True)
class Rows:
    """One panel.

    Attributes:
        title: above it.
        dots: by label; several are the same model with other seeds.
        level: what nothing should be below, as a dashed line, if it is worth showing.
    """

    title: str
    dots: Mapping[str, Sequence[Dot]]
    level: float | None = None


def dot_figure(shown: Sequence[Rows], *, title: str, note: str = "") -> Figure:
    """Plot a row for each label, in one order for all panels; a panel without the label has a gap.

    Rows have their names, so that all of one method have its color.

    Args:
        shown: the panels.
        title: of the figure.
        note: what the rows cannot say, under all panels.
    """
    labels = in_one_order([list(panel.dots) for panel in shown])
    if not labels:
        raise ValueError("there is no dot to draw")
    figure, all_axes = panels(len(shown), title)
    figure.set_figheight(AROUND + ROW * len(labels))
    for place, (panel, axes) in enumerate(zip(shown, all_axes, strict=True)):
        axes.set_title(panel.title, color=INK, fontsize=10.5)
        for row, name in enumerate(labels):
            dots = panel.dots.get(name, ())
            for height, dot in zip(_heights(row, len(dots)), dots, strict=True):
                _draw_dot(axes, dot, height, method_color(name))
        if panel.level is not None:
            axes.axvline(panel.level, color=INK, linewidth=1, alpha=0.55, linestyle=(0, (3, 2)), zorder=1.5)
        axes.set_yticks(range(len(labels)), [literal(name) for name in labels] if place == 0 else [])
        axes.set_ylim(len(labels) - 0.4, -0.6)
        axes.tick_params(axis="y", length=0)
        label(axes, ERROR, "")
        _set_width(axes, panel)
    if note:
        figure.supxlabel(literal(note), color=INK, fontsize=9)
    return settle(figure)


def _heights(row: int, count: int) -> list[float]:
    """Return the heights of the dots of a row, spaced evenly around its middle."""
    return [row + SPREAD * ((place + 0.5) / count - 0.5) for place in range(count)]


def _draw_dot(axes: Axes, dot: Dot, height: float, color: str) -> None:
    axes.plot([dot.low, dot.high], [height, height], color=color, linewidth=2, alpha=0.45, zorder=2)
    if dot.beyond is not None:
        axes.plot(
            dot.beyond, height, marker="o", markersize=7, markerfacecolor="none", color=color, zorder=2.5
        )
    axes.plot(dot.error, height, marker="o", markersize=4, color=color, zorder=3)


def _set_width(axes: Axes, panel: Rows) -> None:
    dots = [dot for several in panel.dots.values() for dot in several]
    values = [panel.level, *(value for dot in dots for value in (dot.low, dot.error, dot.high, dot.beyond))]
    shown = positive(value for value in values if value is not None)
    if is_narrow(axes, shown, along="x"):
        axes.locator_params(axis="x", nbins=5)
    elif shown:
        logarithmic(axes, min(shown) / 1.3, max(shown) * 1.3, along="x")
