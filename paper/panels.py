"""Parts of figures: panels of curves from results, with the steps that differ in their legends."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from algoformer.evaluation import Curve
from paper.archive import Results, seeds_so_far
from paper.figures import Panel, Series, panel_figure
from paper.result import Result
from paper.runs import FIXED_STEP, Sizes

if TYPE_CHECKING:
    from matplotlib.figure import Figure
else:
    Figure = Any

Drawn = tuple[str, Figure]
"""The name of a picture's files, and the picture."""

LEVELS = {
    "oracle": "oracle",
    "linear-in-x": "best linear in x",
    "zero": "predict zero",
    FIXED_STEP: "gradient descent, one step for all",
    "gd": "gradient descent, a step for each prompt",
    "newton": "Newton",
}
"""References by the last word of their name, as they are called in legends."""


def groups_of(results: Results, start: str) -> set[str]:
    """The groups that begin with a word."""
    return {name.split("/")[0] for name in results if name.startswith(start)}


def sample_panel(
    results: Results,
    group: str,
    models: Mapping[str, str],
    sizes: Sizes,
    *,
    references: Sequence[str],
    title: str,
) -> Panel:
    """Error per in-context sample of a group's models, and of its references."""
    found = {name: results[f"{group}/{name}"] for name in models if f"{group}/{name}" in results}
    usual = usual_steps(found.values())
    curves, beyond, repeats = [], [], []
    for name, result in found.items():
        label = models[name] + other_steps(result, usual)
        curves.append(_relabelled(result.main.by_sample[result.trained_depth], label))
        if sizes.far in result.main.by_sample:
            beyond.append(_relabelled(result.main.by_sample[sizes.far], label))
        for again in seeds_so_far(results, f"{group}/{name}")[1:]:
            repeats.append(_relabelled(again.main.by_sample[again.trained_depth], label))
    for name in references:
        known = results.get(f"{group}/{name}")
        if known is not None:
            curves.append(_relabelled(known.main.by_sample[known.trained_depth], LEVELS[name]))
    words = f"{title}, {usual:,} steps" if usual else title
    return Panel(title=words, curves=tuple(curves), beyond=tuple(beyond), repeats=tuple(repeats))


def step_panel(
    results: Results,
    labels: Mapping[str, str],
    *,
    references: Sequence[str] = (),
    title: str,
    marks: tuple[int, ...] = (),
) -> Panel:
    """Error on the last sample per iteration, of these runs and references."""
    found = {name: seeds for name in labels if (seeds := seeds_so_far(results, name))}
    usual = usual_steps(first for first, *_ in found.values())
    curves, beyond, repeats = [], [], []
    for name, (first, *others) in found.items():
        label = labels[name] + other_steps(first, usual)
        curves.append(_relabelled(first.main.by_step, label))
        if first.main.deep is not None:
            beyond += _from(_relabelled(first.main.deep, label), first.main.by_step.x[-1])
        repeats += [_relabelled(again.main.by_step, label) for again in others]
    for name in references:
        if name in results:
            curves.append(_relabelled(results[name].main.by_step, LEVELS[name.split("/")[1]]))
    words = f"{title}, {usual:,} steps" if usual else title
    return Panel(
        title=words,
        curves=tuple(curves),
        beyond=tuple(beyond),
        repeats=tuple(repeats),
        marks=marks if found else (),
    )


def _from(curve: Curve, start: float) -> list[Curve]:
    """Return the part of a curve from `start` on; nothing if that is less than two points."""
    kept = [place for place, x in enumerate(curve.x) if x >= start]
    if len(kept) < 2:
        return []
    part: dict[str, Any] = {
        name: tuple(getattr(curve, name)[place] for place in kept) for name in ("x", "error", "low", "high")
    }
    return [replace(curve, **part)]


def figure_of(
    name: str, shown: Sequence[Panel], *, title: str, note: str = "", **options: Any
) -> Iterator[Drawn]:
    """Draw the panels in which a model stands; without one there is nothing to draw."""
    levels = set(LEVELS.values())
    telling = [panel for panel in shown if {curve.label for curve in panel.curves} - levels]
    if telling:
        note = note or "; ".join(_legend(telling))
        textbook = tuple(LEVELS.values())
        yield name, panel_figure(telling, title=title, note=note, textbook=textbook, **options)


def _legend(shown: Sequence[Panel]) -> Iterator[str]:
    """Yield what thin and dotted lines and bands are, as far as there are any."""
    yield "bands: 5–95 % of bootstrap means over prompts"
    if any(panel.repeats for panel in shown):
        yield "thin: other seeds"
    if any(panel.beyond for panel in shown):
        yield "dotted: the same run, further, on fewer prompts"


def series_of(results: Results, label: str, names: Mapping[int, str], usual: int | None) -> Iterator[Series]:
    """A line through the runs of one length; runs of other lengths stand apart and say so."""
    found = {size: results[name] for size, name in names.items() if name in results}
    lengths = {result.steps for result in found.values()}
    for steps in sorted(lengths, key=lambda steps: (steps != usual, steps or 0)):
        alike = {size: result for size, result in found.items() if result.steps == steps}
        yield Series(
            label=label + other_steps(next(iter(alike.values())), usual),
            x=tuple(alike),
            error=tuple(result.error for result in alike.values()),
            low=tuple(result.band[0] for result in alike.values()),
            high=tuple(result.band[1] for result in alike.values()),
        )


def _relabelled(curve: Curve, label: str) -> Curve:
    return replace(curve, label=label)


def usual_steps(results: Any) -> int | None:
    """Return the number of training steps that most of the results have."""
    counts = Counter(result.steps for result in results if result.steps is not None)
    return counts.most_common(1)[0][0] if counts else None


def other_steps(result: Result, usual: int | None) -> str:
    """Return the steps in parentheses where they are not the usual ones: a legend has to say so."""
    return "" if result.steps in (None, usual) else f" ({result.steps:,} steps)"
