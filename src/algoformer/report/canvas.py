"""Figures, lines, legends and files shared by all plots."""

from __future__ import annotations

import io
import re
import textwrap
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from algoformer.common.terminal import printable
from algoformer.evaluation import Curve
from algoformer.extras import require
from algoformer.report.axes import Axes, Figure
from algoformer.report.style import INK, Stroke, following_mode, page_colors

TITLE_LETTER = 0.1
"""Inches that a letter of a figure's title takes: longer titles are broken into lines."""

_OPENING = re.compile(r"<svg\b[^>]*>")
_FOLLOWS_MODE = (
    f"<style>{page_colors()}svg{{color:{INK}}}"
    "@media(prefers-color-scheme:dark){svg{color:#e6edf3}}</style>"
)


def panels(count: int, title: str, *, rows: int = 1, compact: bool = False) -> tuple[Figure, list[Axes]]:
    """Return a figure that pyplot does not manage, with `count` axes in `rows` rows.

    A compact figure has one panel whose text stays readable when it is as wide as a phone.
    """
    figures = require("matplotlib.figure", extra="viz")
    columns = -(-count // rows)
    wide = {1: 7.2, 2: 9.2}.get(columns, 4.0 * columns)
    high = (4.4 if columns == 1 else 4.2) + 3.1 * (rows - 1)
    if compact:
        wide, high = 5.2, 4.2
    figure = figures.Figure(figsize=(wide, high), layout="constrained")
    figure.patch.set_facecolor("white")
    axes = list(figure.subplots(rows, columns, squeeze=False).flat)
    for spare in axes[count:]:
        figure.delaxes(spare)
    axes = axes[:count]
    for one in axes:
        one.set_facecolor("none")
        one.grid(visible=True, color=INK, alpha=0.12, linewidth=0.7)
        one.set_axisbelow(True)
        one.tick_params(colors=INK, which="both", labelsize=9)
        one.tick_params(which="minor", length=0)
        for side, spine in one.spines.items():
            spine.set_color(INK)
            spine.set_visible(side in ("left", "bottom"))
    if title:
        title = textwrap.fill(printable(title), width=int(wide / TITLE_LETTER))
        figure.suptitle(title, color=INK, fontsize=12, fontweight="bold")
    return figure, axes


def draw(
    axes: Axes,
    curves: Sequence[Curve],
    styles: Mapping[str, Stroke],
    *,
    levels: tuple[float, float] | None = None,
    floor: float = 0.0,
) -> None:
    """Draw a line for each curve, with its band if it is solid.

    Single points become a level over `levels`; the legend says which curves lie below `floor` and will
    not be seen.
    """
    for curve in curves:
        style = styles[curve.label]
        x, error, low, high = curve.x, curve.error, curve.low, curve.high
        if levels is not None and len(x) == 1:
            x, error, low, high = levels, error * 2, low * 2, high * 2
        line: dict[str, Any] = {"color": style.color, "linewidth": 2.0 if style.solid else 1.6}
        if not style.solid:
            line |= {"dashes": style.dash}
        if style.marker and len(x) > 1:
            line |= {"marker": style.marker, "markersize": 5, "markevery": _marked(x)}
        axes.plot(x, error, label=legend_text(curve, floor), zorder=2.5 if style.solid else 3, **line)
        if style.solid:
            axes.fill_between(x, low, high, color=style.color, alpha=0.18, linewidth=0, zorder=2)


def _marked(x: Sequence[float]) -> list[int]:
    """Return the places of about six markers, evenly spaced by powers where x spans more than two decades."""
    ends = max(x[0], 1.0), max(x[-1], 1.0)
    if ends[1] / ends[0] < 100:
        return list(range(0, len(x), max(1, len(x) // 6)))
    wanted = [ends[0] * (ends[1] / ends[0]) ** (part / 6) for part in range(7)]
    return sorted({min(range(len(x)), key=lambda place: abs(x[place] - one)) for one in wanted})


def legend_text(curve: Curve, floor: float = 0.0) -> str:
    """Return the legend label, with a note if the curve is not finite or lies below the axis."""
    text = literal(curve.label)
    if curve.broken:
        text += f" (not finite at {curve.broken} of {len(curve.x)})"
    elif all(value < floor for value in curve.error):
        text += f" (below {floor:.0e})".replace("e-0", "e-")
    return text


def literal(text: str) -> str:
    """Escape text for matplotlib: no formulas, no control characters, no label hidden by an underscore."""
    text = "\n".join(printable(line) for line in text.split("\n")).replace("$", r"\$")
    return f"\u200b{text}" if text.startswith("_") else text


def mark_training(axes: Axes, steps: int, text: str = "", *, row: int = 0) -> None:
    """Draw a thin line at the depth of training, with its label in a row from the top."""
    late = axes.transAxes.inverted().transform(axes.transData.transform((steps, 1)))[0] > 0.75
    axes.axvline(steps, color=INK, linewidth=1, alpha=0.55, linestyle=(0, (2, 2)), zorder=1.5)
    axes.annotate(
        text or f"trained to {steps}",
        (steps, 1),
        xycoords=axes.get_xaxis_transform(),
        xytext=(-4 if late else 4, -3 - 11 * row),
        textcoords="offset points",
        ha="right" if late else "left",
        va="top",
        fontsize=8.5,
        color=INK,
        alpha=0.85,
    )


def finish(figure: Figure, *axes: Axes, note: str = "", last: Collection[str] = ()) -> Figure:
    """Put one legend under all panels, in as many columns as fit, and settle where everything goes.

    A label that several of the axes have stands there once, in the order of all of them, and what begins as
    one of `last` after the others; a note stands above all of them.
    """
    entries = {
        label: handle
        for one in reversed(axes)
        for handle, label in zip(*one.get_legend_handles_labels(), strict=True)
    }
    order = in_one_order(one.get_legend_handles_labels()[1] for one in axes)
    labels = sorted(order, key=lambda label: label.startswith(tuple(last)))
    handles = [entries[label] for label in labels]
    legend = figure.legend(
        handles,
        labels,
        title=literal(note) or None,
        title_fontsize=9,
        loc="outside lower center",
        ncols=legend_columns(labels, figure.get_figwidth() * 11.5),
        frameon=False,
        fontsize=9.5,
        labelcolor=INK,
        handlelength=2.8,
    )
    legend.get_title().set_color(INK)
    return settle(figure)


def legend_columns(labels: Sequence[str], room: int | float) -> int:
    """Return the largest number of columns in which labels fit into a line of `room` characters.

    >>> legend_columns(["model", "other", "least squares"], 34), legend_columns(["model"] * 3, 10)
    (2, 1)
    """
    for count in range(len(labels), 1, -1):
        # a column is as wide as its longest label and the piece of line before it
        starts = [-(-place * len(labels) // count) for place in range(count + 1)]
        columns = [labels[first:last] for first, last in pairwise(starts)]
        if sum(max(map(len, column)) + 7 for column in columns) <= room:
            return count
    return 1


def in_one_order(lists: Iterable[Sequence[str]]) -> list[str]:
    """Merge lists into one order without repetition, keeping the order within each list where possible.

    >>> in_one_order([["T = 20", "Newton"], ["T = 10", "T = 20", "T = 30", "Newton"]])
    ['T = 10', 'T = 20', 'T = 30', 'Newton']
    """
    order: list[str] = []
    for labels in lists:
        place = len(order)
        for label in reversed(labels):
            if label in order:
                place = order.index(label)
            else:
                order.insert(place, label)
    return order


def settle(figure: Figure) -> Figure:
    """Fix the layout of a figure.

    Every drawing would move the panels by a hair, and pictures would depend on how often they were drawn.
    """
    figure.draw_without_rendering()
    figure.set_layout_engine("none")
    return figure


def save(figure: Figure, path: Path | str) -> tuple[Path, Path]:
    """Write `path`.png and `path`.svg; the same figure gives the same bytes, with no date in them.

    Returns:
        Both paths.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    picture, drawing = (path.with_name(f"{path.name}.{suffix}") for suffix in ("png", "svg"))
    _print(figure, picture, format="png", dpi=160, metadata={"Software": None})
    drawing.write_text(svg_text(figure), encoding="utf-8")
    return picture, drawing


def svg_text(figure: Figure) -> str:
    """Return the figure as an SVG file on white."""
    buffer = io.StringIO()
    _print(figure, buffer, format="svg", metadata=dict.fromkeys(("Date", "Creator", "Format", "Type")))
    return "\n".join(line.rstrip() for line in buffer.getvalue().splitlines()) + "\n"


def inline_svg(figure: Figure) -> str:
    """Return the figure as SVG for a page: no background, and text that follows light and dark mode."""
    face = figure.get_facecolor()
    figure.patch.set_facecolor("none")
    try:
        return _OPENING.sub(rf"\g<0>{_FOLLOWS_MODE}", following_mode(svg_text(figure)), count=1)
    finally:
        figure.patch.set_facecolor(face)


def _print(figure: Figure, file: Path | io.StringIO, **options: Any) -> None:
    matplotlib = require("matplotlib", extra="viz")
    with matplotlib.rc_context({"svg.hashsalt": "algoformer", "svg.fonttype": "path"}):
        figure.savefig(file, facecolor=figure.get_facecolor(), **options)
