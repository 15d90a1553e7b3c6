"""Colors, dash patterns and markers of solvers, the same in every plot and page."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace

INK = "#24292f"
"""Text, axes and grid; a page replaces it by its own text color, so that pictures follow dark mode."""

Dash = tuple[int | float, ...]
"""Lengths of ink and gap in points, in turn; empty is a solid line."""

COLORS = {
    "model": ("#0072b2", "#56b4e9"),
    "looped": ("#c98000", "#f0b429"),
    "standard": ("#007a5a", "#2fbf97"),
    "descent": ("#b5528a", "#e09bc4"),
    "newton": ("#c85200", "#f0803c"),
    "least": ("#6b7480", "#98a3af"),
    "ridge": ("#7d6029", "#c4a35a"),
    "wine": ("#882255", "#e07aa8"),
    "indigo": ("#4b3fa0", "#a79df0"),
    "olive": ("#737321", "#c2c25a"),
    "sky": ("#3a8fc0", "#8fd0f5"),
    "teal": ("#2a8577", "#6fd0c1"),
}
"""Every color of a line, on white and on black; the first six stay apart for color-blind readers.

All have a contrast of at least 3 to their background. Pages get these as variables of their style sheet.
"""


@dataclass(frozen=True, kw_only=True)
class Stroke:
    """The color, dash pattern and marker of a line."""

    color: str
    dash: Dash = ()
    marker: str = ""

    @property
    def solid(self) -> bool:
        """Solid lines are trained models, dashed ones textbook methods."""
        return not self.dash


def _stroke(name: str, *dash: int | float) -> Stroke:
    return Stroke(color=COLORS[name][0], dash=dash)


MODELS = {"algoformer": _stroke("model"), "looped": _stroke("looped"), "standard": _stroke("standard")}
TEXTBOOK = {
    "gradient": _stroke("descent", 5, 2),
    "gd": _stroke("descent", 5, 2),
    "heavy": _stroke("wine", 3, 2),
    "newton": _stroke("newton", 6, 2, 1.5, 2),
    "least": _stroke("least", 1.5, 1.5),
    "ridge": _stroke("ridge", 3, 1.5),
    "bayes": _stroke("ridge", 3, 1.5),
    "oracle": _stroke("ridge", 3, 1.5),
    "reweighted": _stroke("sky", 4, 2, 1, 2, 1, 2),
    "averag": _stroke("olive", 2, 3),
    "zero": _stroke("least", 1, 3),
}
SPARE = tuple(COLORS[name][0] for name in ("wine", "teal", "indigo", "olive", "sky", "ridge"))
MARKERS = ("", "o", "s", "^", "D", "v", "P", "X")


def strokes(labels: Iterable[str], *, textbook: Collection[str] = ()) -> dict[str, Stroke]:
    """Return a stroke for each label, by the method it names.

    The first label of a method has the method's color. Further models of the same method, and labels that
    name nothing known, get spare colors in turn, each with a marker of its own, so that they can be told
    apart without color. Labels in `textbook` that name nothing known are dashed.

    >>> strokes(["AlgoFormer", "gradient descent"])["AlgoFormer"].color
    '#0072b2'
    """
    chosen: dict[str, Stroke] = {}
    seen: dict[str, int] = {}
    spare = 0
    for label in dict.fromkeys(labels):
        family = _family(label)
        known = (MODELS | TEXTBOOK).get(family)
        place = seen.setdefault(family, 0)
        seen[family] += 1
        marker = MARKERS[place % len(MARKERS)]
        if known is not None and (place == 0 or not known.solid):
            chosen[label] = replace(known, marker=marker)
            continue
        dash: Dash = (4, 2) if label in textbook else ()
        chosen[label] = Stroke(color=SPARE[spare % len(SPARE)], dash=dash, marker=marker)
        spare += 1
    return chosen


def method_color(label: str) -> str:
    """Return the color of the method that a label names; a label that names none is an AlgoFormer's."""
    return (MODELS | TEXTBOOK).get(_family(label), MODELS["algoformer"]).color


def page_colors() -> str:
    """Return the colors as variables of a style sheet, for light and dark pages."""
    light, dark = ("".join(f"--{name}:{pair[side]};" for name, pair in COLORS.items()) for side in (0, 1))
    return f":root{{{light}}}@media(prefers-color-scheme:dark){{:root{{{dark}}}}}"


def following_mode(svg: str) -> str:
    """Return an SVG text whose colors follow the light or dark mode of the page that shows it."""
    for name, (light, _) in COLORS.items():
        svg = svg.replace(light, f"var(--{name})")
    return svg.replace(INK, "currentColor")


def _family(label: str) -> str:
    words = label.lower()
    for family in (*MODELS, *TEXTBOOK):
        if family in words and (len(family) > 2 or family in words.replace("-", " ").split()):
            return family
    return ""
