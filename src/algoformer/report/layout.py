"""The layout of a program's diagram: boxes as data, which tests can check.

Everything flows from left to right along an axis. A box reaches some way above and below its axis; boxes
in a row share it, so that the arrows between them are straight.
"""

from __future__ import annotations

from dataclasses import dataclass

from algoformer.model.injections import INJECTIONS
from algoformer.model.program import Layers, Loop, Parallel, Part, Program, describe_layers, describe_loop
from algoformer.model.two_states import TwoStates

TEXT, SMALL = 14.0, 12.0
LINE = 18.0
GAP = 34.0  # between boxes in a row: room for an arrow
PAD = 18.0  # between a box and what is inside it
NODE = 9.0  # radius of the circle where streams meet
RETURN = 30.0  # below a loop's body: the way back of its state
BETWEEN = 16.0  # between branches


@dataclass(frozen=True, kw_only=True)
class Size:
    """The extent of a box: its width, and its height above and below its axis."""

    width: float
    above: float
    below: float


@dataclass(frozen=True, kw_only=True)
class Box:
    """A part in its place. `rows` holds the boxes inside it: a loop's body, or one row for each branch."""

    part: Part
    left: float
    axis: float
    size: Size
    title: str
    lines: tuple[str, ...]
    rows: tuple[tuple[Box, ...], ...] = ()

    @property
    def right(self) -> float:
        """Its right edge."""
        return self.left + self.size.width

    @property
    def top(self) -> float:
        """Its upper edge."""
        return self.axis - self.size.above

    @property
    def bottom(self) -> float:
        """Its lower edge."""
        return self.axis + self.size.below


def text_width(text: str, size: float, *, bold: bool = False) -> float:
    """Return an upper estimate of the width of a text in common sans-serif typefaces."""
    narrow = sum(letter in "iljtf.,:;'|! " for letter in text)
    return size * (0.6 * (len(text) - narrow) + 0.34 * narrow) * (1.08 if bold else 1.0)


def title_of(part: Part) -> str:
    """Return the title of a part's box."""
    return f"{part.name} × {part.steps}".strip() if isinstance(part, Loop) else part.name


def lines_of(part: Part) -> tuple[str, ...]:
    """Return the lines of text below the title."""
    if isinstance(part, Loop):
        # the steps stand in the title, and the injection has a caption
        _, _, *notes = describe_loop(part).split(", ")
        if isinstance(part, TwoStates):
            return ("two states: slow, and fast inside", INJECTIONS[part.inject].caption, *notes[1:])
        return (INJECTIONS[part.inject].caption, *notes)
    if isinstance(part, Parallel):
        return (f"sum of {len(part.branches)} branches",)
    if not part.count:
        return (" and ".join(["positions"] * part.adds_positions + ["norm"] * part.final_norm),)
    first, *notes = describe_layers(part).split(", ")
    lines = [first]
    for note in notes:
        joined = f"{lines[-1]}, {note}"
        # the first line stays alone: it is what one looks for
        if len(lines) > 1 and len(joined) <= 26:
            lines[-1] = joined
        else:
            lines.append(note)
    return tuple(lines)


def text_size(part: Part) -> tuple[float, float]:
    """Width and height of a part's own words."""
    title, lines = title_of(part), lines_of(part)
    icon = 24.0 if isinstance(part, Loop) else 0.0
    widest = max([text_width(title, TEXT, bold=True) + icon, *(text_width(line, SMALL) for line in lines)])
    return widest, LINE * (bool(title) + len(lines))


def behind(layers: Layers) -> float:
    """Return the offset of the cards drawn behind the first one to show several layers."""
    return 4.0 * min(max(layers.count - 1, 0), 2)


def measure(part: Part) -> Size:
    """Return the size that a part needs."""
    words, height = text_size(part)
    if isinstance(part, Layers):
        half, cards = height / 2 + PAD * 0.75, behind(part)
        return Size(width=words + 2 * PAD + cards, above=half + cards, below=half)
    if isinstance(part, Loop):
        body = measure_row(part.body)
        width = max(2 * PAD + 2 * NODE + GAP + body.width + GAP, words + 2 * PAD)
        return Size(width=width, above=body.above + height + 1.6 * PAD, below=body.below + RETURN + PAD)
    rows = [measure_row(branch) for branch in part.branches]
    inside = sum(row.above + row.below for row in rows) + BETWEEN * (len(rows) - 1)
    # the axis runs in the middle between the first and the last branch's
    middle = (rows[0].above + inside - rows[-1].below) / 2
    width = max(2 * PAD + 2 * GAP + max(row.width for row in rows) + 2 * NODE, words + 2 * PAD)
    return Size(width=width, above=middle + height + 1.6 * PAD, below=inside - middle + PAD)


def measure_row(program: Program) -> Size:
    """Return the size of parts in a row."""
    sizes = [measure(part) for part in program]
    return Size(
        width=sum(size.width for size in sizes) + GAP * (len(sizes) - 1),
        above=max(size.above for size in sizes),
        below=max(size.below for size in sizes),
    )


def place(part: Part, left: float, axis: float) -> Box:
    """Return the box of a part, with the boxes inside it."""
    size = measure(part)
    rows: tuple[tuple[Box, ...], ...] = ()
    if isinstance(part, Loop):
        spare = size.width - (2 * PAD + 2 * NODE + GAP + measure_row(part.body).width + GAP)
        rows = (place_row(part.body, left + PAD + 2 * NODE + GAP + spare / 2, axis),)
    elif isinstance(part, Parallel):
        rows = _place_branches(part, left, axis, size)
    return Box(
        part=part, left=left, axis=axis, size=size, title=title_of(part), lines=lines_of(part), rows=rows
    )


def _place_branches(part: Parallel, left: float, axis: float, size: Size) -> tuple[tuple[Box, ...], ...]:
    sizes = [measure_row(branch) for branch in part.branches]
    room = size.width - 2 * PAD - 2 * GAP - 2 * NODE
    top = axis - size.above + text_size(part)[1] + 1.6 * PAD
    rows = []
    for branch, row in zip(part.branches, sizes, strict=True):
        rows.append(place_row(branch, left + PAD + GAP + (room - row.width) / 2, top + row.above))
        top += row.above + row.below + BETWEEN
    return tuple(rows)


def place_row(program: Program, left: float, axis: float) -> tuple[Box, ...]:
    """Return the boxes of parts in a row, on one axis."""
    boxes = []
    for part in program:
        box = place(part, left, axis)
        boxes.append(box)
        left = box.right + GAP
    return tuple(boxes)
