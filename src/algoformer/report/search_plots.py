"""Plots of an architecture search: which parameters mattered, and the front of parameters and error."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from algoformer.report.axes import Figure, label, logarithmic, positive
from algoformer.report.canvas import finish, literal, panels, settle
from algoformer.report.style import INK, strokes

ROW = 0.3
"""Inches from one bar to the next."""

AROUND = 1.4
"""Inches above and below all bars."""


def importance_figure(importance: Mapping[str, float], *, title: str = "") -> Figure:
    """A bar for each parameter of a search: its share in what separates good trials from others.

    Args:
        importance: shares by parameter; they add up to 1.
        title: of the figure.
    """
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
    """Validation error against parameters on two log axes: all trials as dots, the front as a line.

    Args:
        points: parameters and error of each trained trial.
        front: those that no other one beats in both, from the smallest model on.
        title: of the figure.
    """
    if not front:
        raise ValueError("there is no trial to draw")
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
