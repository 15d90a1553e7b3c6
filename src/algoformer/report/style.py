"""Colors and dash patterns of solvers, the same in every plot."""

from __future__ import annotations

import colorsys
from collections.abc import Collection, Iterable
from dataclasses import dataclass

INK = "#24292f"
"""Text, axes and grid; a page replaces it by its own text color, so that pictures follow dark mode."""

Dash = tuple[int | float, ...]
"""Lengths of ink and gap in points, in turn; empty is a solid line."""


@dataclass(frozen=True, kw_only=True)
class Stroke:
    """The color and dash pattern of a line."""

    color: str
    dash: Dash = ()

    @property
    def solid(self) -> bool:
        """Solid lines are trained models, dashed ones textbook methods."""
        return not self.dash


# Okabe and Ito's colors, which stay apart for color-blind readers, light enough to be read on black as well
MODELS = {
    "algoformer": Stroke(color="#0072b2"),
    "looped": Stroke(color="#e69f00"),
    "standard": Stroke(color="#009e73"),
}
TEXTBOOK = {
    "gradient": Stroke(color="#cc79a7", dash=(5, 2)),
    "gd": Stroke(color="#cc79a7", dash=(5, 2)),
    "heavy": Stroke(color="#b07aa1", dash=(3, 2)),
    "newton": Stroke(color="#d55e00", dash=(6, 2, 1.5, 2)),
    "least": Stroke(color="#808890", dash=(1.5, 1.5)),
    "ridge": Stroke(color="#8c6d31", dash=(3, 1.5)),
    "bayes": Stroke(color="#8c6d31", dash=(3, 1.5)),
    "oracle": Stroke(color="#8c6d31", dash=(3, 1.5)),
    "reweighted": Stroke(color="#56b4e9", dash=(4, 2, 1, 2, 1, 2)),
    "averag": Stroke(color="#a0a060", dash=(2, 3)),
    "zero": Stroke(color="#a0a0a0", dash=(1, 3)),
}
SPARE = (
    *("#56b4e9", "#8c564b", "#7b6fd0", "#5f8a2f", "#c44e52", "#17a2a2"),
    *("#3f4fa0", "#b8860b", "#b8359b", "#43a838", "#75777f"),
)


def strokes(labels: Iterable[str], *, textbook: Collection[str] = ()) -> dict[str, Stroke]:
    """Return a stroke for each label, by the method it names; several of one method get shades.

    Labels that name nothing known get spare colors in turn, dashed if they are in `textbook`.

    >>> strokes(["AlgoFormer", "gradient descent"])["AlgoFormer"].color
    '#0072b2'
    """
    labels = list(dict.fromkeys(labels))
    families: dict[str, list[str]] = {}
    for label in labels:
        families.setdefault(_family(label), []).append(label)
    chosen: dict[str, Stroke] = {}
    spare = 0
    for family, members in families.items():
        known = (MODELS | TEXTBOOK).get(family)
        for place, label in enumerate(members):
            if known is not None:
                chosen[label] = Stroke(color=_shade(known.color, place, len(members)), dash=known.dash)
                continue
            dash: Dash = (4, 2) if label in textbook else ()
            chosen[label] = Stroke(color=SPARE[spare % len(SPARE)], dash=dash)
            spare += 1
    return {label: chosen[label] for label in labels}


def _family(label: str) -> str:
    words = label.lower()
    for family in (*MODELS, *TEXTBOOK):
        if family in words and (len(family) > 2 or family in words.replace("-", " ").split()):
            return family
    return ""


def _shade(color: str, place: int, count: int) -> str:
    # from dark to light around the family's own color; lightness is what color-blind readers see best
    if count == 1:
        return color
    red, green, blue = (int(color[start : start + 2], 16) / 255 for start in (1, 3, 5))
    hue, _, saturation = colorsys.rgb_to_hls(red, green, blue)
    lightness = 0.33 + 0.37 * place / (count - 1)
    shaded = colorsys.hls_to_rgb(hue, lightness, saturation)
    return "#" + "".join(f"{round(255 * value):02x}" for value in shaded)
