"""Identifications and depth certificates as figures."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import cycle

from algoformer.insight import DepthCertificate, FamilyShare, Identification, ProbabilityCertificate
from algoformer.report.axes import Axes, Figure, count_axis, label, logarithmic, plain_ticks, whole_ticks
from algoformer.report.canvas import finish, mark_training, panels
from algoformer.report.plots import ERROR
from algoformer.report.style import INK, SPARE, method_color

SOLVER = "#0072b2"
"""The color of the solver that is identified."""

_DASHES = ((5, 2), (2, 1.5), (5, 1.5, 1, 1.5), (1, 1))

_CEILINGS = ("#24292f", "#57606a", "#8c959f", "#b6bcc3")


def identification_figures(found: Identification) -> dict[str, Figure]:
    """Return every figure of an identification by its file name."""
    return {
        "skill": skill_by_pass(found),
        "filters": filters_by_pass(found),
        "matching": matching_steps(found),
        "influence": influence_by_example(found),
        "path": weights_path(found),
    }


def certificate_figures(found: DepthCertificate | ProbabilityCertificate) -> dict[str, Figure]:
    """Return every figure of a depth certificate by its file name."""
    drawn = depth_figure(found) if isinstance(found, DepthCertificate) else probability_depth(found)
    return {"depth": drawn}


def skill_by_pass(found: Identification) -> Figure:
    """Draw the share of what is left that families and ceilings explain, and how much is left, by pass."""
    figure, (shares, left) = panels(2, f"What describes the error that is left: {_short_verdict(found)}")
    passes = range(1, len(found.error) + 1)
    for color, (name, values) in zip(_CEILINGS, found.ceilings.items(), strict=False):
        shares.plot(
            passes[: len(values)], values, color=color, linestyle=(0, (2, 2)), linewidth=1.4, label=name
        )
    colors = _colors(found)
    for one, marker in zip(_shown_families(found, 4), "osD^", strict=False):
        clipped = [max(value, 0.0) for value in one.by_pass]
        color = colors[_kind(one.name)]
        shares.plot(passes, clipped, marker=marker, markersize=3.5, color=color, label=one.name)
    first, last = found.passes
    shares.axvspan(first - 0.3, last + 0.3, color=INK, alpha=0.05, linewidth=0)
    shares.set_ylim(-0.03, 1.03)
    label(shares, "pass", "share of what is left that is explained")
    whole_ticks(shares)
    left.plot(passes, found.error, color=SOLVER, marker="o", markersize=3)
    positive = [value for value in found.error if value > 0] or [1.0]
    logarithmic(left, max(min(positive), 1e-16) / 2, 2 * max(positive))
    whole_ticks(left)
    kind = {"weights": "left: |w_LS − w_t|² / |w_LS|²", "answers": "left: |ŷ − ŷ_t|² / |ŷ|², ŷ: reference"}
    label(left, "pass", kind[found.measured])
    return finish(figure, shares)


def filters_by_pass(found: Identification) -> Figure:
    """Draw what each of the first passes leaves of every eigen-direction, beside candidate families."""
    first, last = found.passes
    shown = list(range(first, min(last, first + 3) + 1))
    figure, axes = panels(len(shown), "Share left of each eigen-direction, r(λ)")
    places, candidates = found.curves["eigenvalues"], found.curves["candidates"]
    colors = _colors(found)
    for one, index in zip(axes, shown, strict=True):
        for (name, filters), dash in zip(candidates.items(), _DASHES, strict=False):
            one.plot(places, filters[index - 1], color=colors[_kind(name)], dashes=dash, label=name)
        one.plot(places, found.curves["measured"][index - 1], color=SOLVER, linewidth=2.4, label="measured")
        one.axhline(0, color=INK, linewidth=0.7, alpha=0.5)
        one.set_ylim(-0.5, 1.3)
        one.set_title(f"pass {index}", color=INK, fontsize=10)
        if places[0] > 0 and places[-1] > 100 * places[0]:
            one.set_xscale("log")
        label(one, "eigenvalue λ of FᵀF/n", "r(λ)" if index == first else "")
    return finish(figure, axes[0])


def matching_steps(found: Identification) -> Figure:
    """Draw the step of gradient descent and of Newton's iteration that is nearest after each pass."""
    figure, (axes,) = panels(1, "Best-matching step of two algorithms: a rate, not an algorithm")
    for name, steps in found.matching.items():
        near = steps[: found.passes[1] + 1]  # beyond, nothing that is left resembles either of them
        axes.plot(range(1, len(near) + 1), near, "o-", markersize=3.5, color=method_color(name), label=name)
    axes.set_yscale("symlog", linthresh=1)  # the nearest step may be 0
    axes.set_ylim(bottom=-0.1)
    whole_ticks(axes)
    label(axes, "pass of the loop", "nearest step of the algorithm")
    return finish(figure, axes)


def influence_by_example(found: Identification) -> Figure:
    """Draw how much each example's label, or each state of a series, moves the answers."""
    weights = found.measured == "weights"
    example, reference = ("example", "least squares") if weights else ("state", "reference")
    figure, (axes,) = panels(1, f"Influence by {example}: the first {found.rests_on} have 98 %")
    places = range(1, len(found.influence) + 1)
    axes.plot(places, found.influence, color=SOLVER, linewidth=2, label="solver")
    axes.plot(places, found.influence_least_squares, color="#808890", dashes=(2, 1.5), label=reference)
    axes.set_ylim(bottom=0)
    whole_ticks(axes)
    label(axes, example, "mean squared derivative of an answer")
    return finish(figure, axes)


def weights_path(found: Identification) -> Figure:
    """Draw one prompt's weights, or answers to a series, in the plane of their path; the solution is at 0."""
    kind, target, rest = "weights", "least squares", "w_LS − w_t"
    if found.measured == "answers":
        kind, target, rest = "answers", "the reference", "ŷ − ŷ_t"
    figure, (axes,) = panels(1, f"Path of one prompt's {kind} towards {target}")
    colors = _colors(found) | {"solver": SOLVER}
    for name in reversed(found.path):
        x, y = zip(*found.path[name], strict=True)
        color = colors[_kind(name)]
        axes.plot(x, y, "o-" if name == "solver" else "s--", markersize=4, color=color, label=name)
    for number, (x, y) in enumerate(found.path["solver"][:5]):
        axes.annotate(str(number), (x, y), xytext=(4, 4), textcoords="offset points", fontsize=8.5, color=INK)
    axes.plot([0], [0], marker="*", markersize=13, color=INK, linestyle="", label=target)
    label(axes, f"first direction of {rest}", "second direction")
    return finish(figure, axes)


def depth_figure(found: DepthCertificate) -> Figure:
    """Draw error and residual by depth and, if known, predicted against observed decay."""
    states = found.states
    pairs = _decay_pairs(found)
    count = 1 + (states is not None and bool(states.residual)) + bool(pairs)
    figure, axes = panels(count, f"Depth certificate: answers {found.answers}")
    error = axes[0]
    _log_line(error, found.depths, found.error, "error")
    mark_training(error, found.trained)
    label(error, "passes", found.setting.get("error", ERROR))
    if states is not None and states.residual:
        _log_line(axes[1], states.passes, states.residual, "residual")
        mark_training(axes[1], found.trained)
        label(axes[1], "passes", "movement of the state, median prompt")
    if pairs:
        _draw_pairs(axes[-1], pairs)
    return finish(figure, *axes)


def probability_depth(found: ProbabilityCertificate) -> Figure:
    """Draw how far probabilities move beyond the trained depth and, for a translator, BLEU by depth."""
    verb = "hold" if found.holds else "move"
    figure, axes = panels(1 + bool(found.bleu), f"Depth certificate: probabilities {verb}")
    _log_line(axes[0], found.depths, found.shift, "largest change of a probability")
    mark_training(axes[0], found.trained)
    label(axes[0], "passes", "largest change of a probability")
    if found.bleu:
        depths, values, lows, highs = zip(*found.bleu, strict=True)
        axes[1].fill_between(depths, lows, highs, color=SOLVER, alpha=0.15, linewidth=0)
        axes[1].plot(depths, values, "o-", markersize=3, color=SOLVER, label="BLEU")
        axes[1].set_xscale("log")
        plain_ticks(axes[1], float(depths[0]), float(depths[-1]))
        mark_training(axes[1], found.trained)
        label(axes[1], "passes", "BLEU")
    return finish(figure, *axes)


def _decay_pairs(found: DepthCertificate) -> list[tuple[float, float, bool]]:
    if found.states is None:
        return []
    rows = zip(found.states.predicted, found.states.observed, found.states.settled, strict=True)
    return [(one, two, settled) for one, two, settled in rows if two is not None]


def _draw_pairs(axes: Axes, pairs: Sequence[tuple[float, float, bool]]) -> None:
    low = min(min(one, two) for one, two, _ in pairs) - 0.02
    high = max(max(one, two) for one, two, _ in pairs) + 0.02
    axes.plot([low, high], [low, high], color=INK, linewidth=0.8, alpha=0.5)
    for settled, face, name in ((True, SOLVER, "settles"), (False, "none", "keeps moving")):
        chosen = [(one, two) for one, two, kind in pairs if kind is settled]
        if chosen:
            x, y = zip(*chosen, strict=True)
            axes.scatter(x, y, facecolors=face, edgecolors=SOLVER, label=f"prompt {name}", zorder=3)
    label(axes, "growth of a disturbance in a pass (JVP)", "observed change of the residual")


def _log_line(axes: Axes, x: Sequence[int], y: Sequence[float], name: str) -> None:
    shown = [(place, value) for place, value in zip(x, y, strict=True) if value > 0 and math.isfinite(value)]
    places, values = zip(*(shown or [(1, 1.0)]), strict=True)
    color = SOLVER if name == "error" else SPARE[1]
    logarithmic(axes, max(min(values), 1e-16) / 2, min(2 * max(values), 1e6))
    axes.plot(places, values, color=color, linewidth=2, label=name)
    count_axis(axes, 1, max(places[-1], 2), log=True)


def _kind(name: str) -> str:
    """Return the name of a family without its variant."""
    return name.split(",")[0]


def _colors(found: Identification) -> dict[str, str]:
    """Return a color for each kind of family, the same in every figure of an identification."""
    kinds = dict.fromkeys(_kind(one.name) for one in found.families)
    fixed = {name: method_color(name) for name in ("gradient descent", "Newton from αI")}
    return dict(zip((kind for kind in kinds if kind not in fixed), cycle(SPARE[1:]), strict=False)) | fixed


def _shown_families(found: Identification, count: int) -> list[FamilyShare]:
    """Return the nearest families, of several variants the best, and gradient descent to compare with."""
    kinds: dict[str, FamilyShare] = {}
    for one in found.families:
        kinds.setdefault(_kind(one.name), one)
    descent = kinds.pop("gradient descent", None)
    nearest = list(kinds.values())
    if descent is None:
        return nearest[:count]
    return sorted([*nearest[: count - 1], descent], key=found.families.index)


def _short_verdict(found: Identification) -> str:
    word = {"runs": "runs", "resembles": "resembles", "none of these": "nearest is"}.get(found.status)
    return found.status if word is None else f"{word} {found.nearest.name}, {found.nearest.share:.2f}"
