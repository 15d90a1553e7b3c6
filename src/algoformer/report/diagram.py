"""A program as a picture: pre → loop ⟲ → post, and the trace that comes out. Plain SVG, made of strings."""

from __future__ import annotations

from html import escape
from itertools import pairwise

from algoformer.model.injections import INJECTIONS
from algoformer.model.program import Layers, Loop, Program, default_steps, traced_part
from algoformer.report.layout import (
    GAP,
    LINE,
    NODE,
    PAD,
    RETURN,
    SMALL,
    TEXT,
    Box,
    behind,
    measure_row,
    place_row,
    text_size,
    text_width,
)

MARGIN = 28.0
PAPER, EDGE, INK, MUTED, FLOW = "#fdfcf9", "#e6e2d8", "#1e2430", "#575e6d", "#8a909c"
BLUE, GREEN, RED = ("#e1eafa", "#6f94d2"), ("#e8f3ea", "#5aa077"), "#b8451f"
AMBER = ("#fdf3e1", "#fbe8c9", "#f8dcb0"), "#cf9534"  # a loop in a loop is one shade darker
PROMPT = "#2b3344"
# colours that change where the reader prefers a dark scheme; all others are readable on both
DARK = {
    PAPER: "#161b22", EDGE: "#323c47", INK: "#e6edf3", MUTED: "#a3adb8", PROMPT: "#3d4759",
    BLUE[0]: "#1b2a44", GREEN[0]: "#193023",
    AMBER[0][0]: "#30250f", AMBER[0][1]: "#3d2e12", AMBER[0][2]: "#4a3815",
}  # fmt: skip
FONT = "Inter, 'Segoe UI', 'Helvetica Neue', Helvetica, Arial, sans-serif"
PILL = 38.0
STRIP = 46.0


def diagram(program: Program, *, window: int | None = None) -> str:
    """Draw a program as SVG text, with its own background, light or dark as the reader prefers.

    Args:
        program: what to draw.
        window: how many of the last iterations are read out; None means all of them.

    >>> from algoformer.model.presets import algoformer
    >>> diagram(algoformer(), window=15).startswith('<svg xmlns="http://www.w3.org/2000/svg"')
    True

    Raises:
        ValueError: the window is longer than the traced loop runs, or shorter than one step.
    """
    steps, traced = default_steps(program), traced_part(program)
    if window is not None and not 1 <= window <= steps:
        raise ValueError(f"window must lie in 1..{steps} (the steps), got {window}")
    read = window or steps
    size = measure_row(program)
    ends = ("prompt", ""), ("trace", f"{read} answer{'' if read == 1 else 's'}")
    before, after = (_pill_width(*end) for end in ends)
    axis = MARGIN + max(size.above, PILL / 2)
    boxes = place_row(program, MARGIN + before + GAP, axis)
    trace = boxes[-1].right + GAP
    width = trace + after + MARGIN
    bottom = axis + max(size.below, PILL / 2)
    height = bottom + (STRIP if traced is not None else 0) + MARGIN
    shapes = [_pill(*ends[0], MARGIN, before, axis, PROMPT), *_wires(boxes, traced, MARGIN + before, trace)]
    for box in boxes:
        shapes += _box(box)
    shapes.append(_pill(*ends[1], trace, after, axis, RED if traced is not None else PROMPT))
    if traced is not None:
        shapes += _strip(boxes[traced], bottom, steps, read, width)
    return _page(shapes, width, height, str(program))


def _page(shapes: list[str], width: float, height: float, outline: str) -> str:
    size = f'width="{width:.0f}" height="{height:.0f}" viewBox="0 0 {width:.0f} {height:.0f}"'
    back = f'x="0.5" y="0.5" width="{round(width) - 1}" height="{round(height) - 1}" rx="14"'
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" font-family="{FONT}">',
            f"<title>A program</title>\n<desc>{escape(outline)}</desc>",
            f"<style>@media (prefers-color-scheme: dark) {{ {_dark_rules()} }}</style>",
            f'<rect {back} fill="{PAPER}" stroke="{EDGE}"/>',
            *shapes,
            "</svg>\n",
        ]
    )


def _dark_rules() -> str:
    fills = (f'[fill="{light}"] {{ fill: {dark} }}' for light, dark in DARK.items())
    lines = (f'[stroke="{light}"] {{ stroke: {DARK[light]} }}' for light in (PAPER, EDGE))
    return " ".join([*fills, *lines])


def _wires(boxes: tuple[Box, ...], traced: int | None, first: float, last: float) -> list[str]:
    """Draw the arrows of the outermost row; after the traced part they carry every state of the window.

    An arrow ends where something happens: a loop or a fork takes it on inside.
    """
    axis = boxes[0].axis
    stops = [first, *(edge for box in boxes for edge in (box.left, box.right)), last]
    arrows = []
    for index, (start, end) in enumerate(zip(stops[::2], stops[1::2], strict=True)):
        many = traced is not None and index > traced
        inside = index == len(boxes) or isinstance(boxes[index].part, Layers)
        arrows.append(_arrow(start, end, axis, RED if many else FLOW, 3.0 if many else 1.8, head=inside))
    return arrows


def _pill_width(title: str, note: str) -> float:
    return max(text_width(title, TEXT, bold=True), text_width(note, SMALL)) + 2 * PAD


def _pill(title: str, note: str, left: float, width: float, axis: float, color: str) -> str:
    half = PILL / 2
    shape = f'<rect x="{left:.1f}" y="{axis - half:.1f}" width="{width:.1f}" height="{PILL}" rx="{half}"'
    middle = left + width / 2
    below = _text(note, middle, axis + half + LINE, SMALL, MUTED, anchor="middle") if note else ""
    word = _text(title, middle, axis + 5, TEXT, "#ffffff", bold=True, anchor="middle")
    return f'{shape} fill="{color}"/>{word}{below}'


def _text(
    words: str, x: float, y: float, size: float, color: str, *, bold: bool = False, anchor: str = "start"
) -> str:
    weight = ' font-weight="600"' if bold else ""
    place = f'x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"'
    return f'<text {place} font-size="{size:g}"{weight} fill="{color}">{escape(words)}</text>'


def _head(x: float, y: float, color: str, *, up: bool = False, size: float = 7.0) -> str:
    half = size * 0.6
    points = (
        f"{x:.1f},{y:.1f} {x - half:.1f},{y + size:.1f} {x + half:.1f},{y + size:.1f}"
        if up
        else f"{x:.1f},{y:.1f} {x - size:.1f},{y - half:.1f} {x - size:.1f},{y + half:.1f}"
    )
    return f'<polygon points="{points}" fill="{color}"/>'


def _line(path: str, color: str = FLOW, width: float = 1.8, *, dashed: bool = False) -> str:
    dashes = ' stroke-dasharray="4 4"' if dashed else ""
    return f'<path d="{path}" fill="none" stroke="{color}" stroke-width="{width:g}"{dashes}/>'


def _arrow(
    start: float,
    end: float,
    y: float,
    color: str = FLOW,
    width: float = 1.8,
    *,
    dashed: bool = False,
    head: bool = True,
) -> str:
    if not head:
        return _line(f"M{start:.1f} {y:.1f}H{end:.1f}", color, width)
    size = 7.0 + 2 * (width > 2)
    tip = end - 2
    path = f"M{start:.1f} {y:.1f}H{tip - size + 1:.1f}"
    return _line(path, color, width, dashed=dashed) + _head(tip, y, color, size=size)


def _node(x: float, y: float, color: str, *, plus: bool) -> str:
    center = f'cx="{x:.1f}" cy="{y:.1f}"'
    circle = f'<circle {center} r="{NODE}" fill="{PAPER}" stroke="{color}" stroke-width="1.8"/>'
    if not plus:
        return circle + f'<circle {center} r="2.6" fill="{color}"/>'
    return circle + _line(f"M{x - 4.5:.1f} {y:.1f}H{x + 4.5:.1f}M{x:.1f} {y - 4.5:.1f}V{y + 4.5:.1f}", color)


def _box(box: Box, depth: int = 0) -> list[str]:
    if isinstance(box.part, Layers):
        return _card(box)
    loop = isinstance(box.part, Loop)
    fill, stroke = (AMBER[0][min(depth, 2)], AMBER[1]) if loop else GREEN
    shapes = [_rounded(box, 14.0, f'fill="{fill}" stroke="{stroke}" stroke-width="1.5"')]
    y = box.top + PAD * 0.55 + LINE * 0.75
    if box.title:
        if loop:
            shapes.append(_turn(box.left + PAD + 7, y - 5, stroke))
        shapes.append(_text(box.title, box.left + PAD + 24 * loop, y, TEXT, INK, bold=True))
        y += LINE
    shapes += [_text(line, box.left + PAD, y + LINE * n, SMALL, MUTED) for n, line in enumerate(box.lines)]
    shapes += _loop_wires(box, stroke) if loop else _branch_wires(box, stroke)
    for row in box.rows:
        for one, then in pairwise(row):
            shapes.append(_arrow(one.right, then.left, one.axis, head=isinstance(then.part, Layers)))
        for inner in row:
            shapes += _box(inner, depth + loop)
    return shapes


def _rounded(box: Box, radius: float, paint: str) -> str:
    place = f'x="{box.left:.1f}" y="{box.top:.1f}" width="{box.size.width:.1f}"'
    return f'<rect {place} height="{box.bottom - box.top:.1f}" rx="{radius:g}" {paint}/>'


def _card(box: Box) -> list[str]:
    assert isinstance(box.part, Layers)
    fill, stroke = BLUE
    paint = f'fill="{fill}" stroke="{stroke}" stroke-width="1.5"'
    cards, height = behind(box.part), box.bottom - box.top - behind(box.part)
    shapes = []
    for shift in (8.0, 4.0, 0.0):
        if shift <= cards:
            place = f'x="{box.left + shift:.1f}" y="{box.bottom - height - shift:.1f}"'
            size = f'width="{box.size.width - cards:.1f}" height="{height:.1f}"'
            shapes.append(f'<rect {place} {size} rx="9" {paint}/>')
    middle = (box.left + box.right - cards) / 2
    y = box.axis - text_size(box.part)[1] / 2 + LINE * 0.72
    if box.title:
        shapes.append(_text(box.title, middle, y, TEXT, INK, bold=True, anchor="middle"))
        y += LINE
    for number, line in enumerate(box.lines):
        color = MUTED if number else INK
        shapes.append(_text(line, middle, y + LINE * number, SMALL, color, anchor="middle"))
    return shapes


def _turn(x: float, y: float, color: str) -> str:
    """Return a round arrow, the symbol of a loop."""
    arc = _line(f"M{x - 3.2:.1f} {y - 5.5:.1f}A6.4 6.4 0 1 0 {x + 3.2:.1f} {y - 5.5:.1f}", color, 2.0)
    tip = f"{x - 2.2:.1f},{y - 7.6:.1f} {x + 5.2:.1f},{y - 8.8:.1f} {x + 3.6:.1f},{y - 1.6:.1f}"
    return f'{arc}<polygon points="{tip}" fill="{color}"/>'


def _loop_wires(box: Box, color: str) -> list[str]:
    """Draw a loop: the input enters from the left, the state returns from below; they meet in a node."""
    assert isinstance(box.part, Loop)
    (row,) = box.rows
    node = box.left + PAD + NODE
    low = box.bottom - RETURN / 2 - PAD / 4
    out = (row[-1].right + box.right) / 2
    back = (
        f"M{out:.1f} {box.axis:.1f}V{low - 10:.1f}Q{out:.1f} {low:.1f} {out - 10:.1f} {low:.1f}"
        f"H{node + 10:.1f}Q{node:.1f} {low:.1f} {node:.1f} {low - 10:.1f}V{box.axis + NODE + 8:.1f}"
    )
    once = not INJECTIONS[box.part.inject].sees_input
    return [
        _line(back, color),
        _head(node, box.axis + NODE + 1.5, color, up=True),
        _arrow(box.left, node - NODE, box.axis, dashed=once),
        _arrow(node + NODE, row[0].left, box.axis, head=isinstance(row[0].part, Layers)),
        _line(f"M{row[-1].right:.1f} {box.axis:.1f}H{box.right:.1f}"),
        f'<circle cx="{out:.1f}" cy="{box.axis:.1f}" r="3" fill="{color}"/>',
        _node(node, box.axis, color, plus=not once),
    ]


def _branch_wires(box: Box, color: str) -> list[str]:
    """Draw parallel branches, which fork from one stream and meet again in a sum."""
    fork, node = box.left + PAD, box.right - PAD - NODE
    axes = [row[0].axis for row in box.rows]
    shapes = [
        _line(f"M{box.left:.1f} {box.axis:.1f}H{fork:.1f}M{fork:.1f} {axes[0]:.1f}V{axes[-1]:.1f}"),
        _line(f"M{node:.1f} {axes[0]:.1f}V{axes[-1]:.1f}"),
        _line(f"M{node + NODE:.1f} {box.axis:.1f}H{box.right:.1f}"),
    ]
    for row in box.rows:
        shapes.append(_arrow(fork, row[0].left, row[0].axis, head=isinstance(row[0].part, Layers)))
        shapes.append(_line(f"M{row[-1].right:.1f} {row[0].axis:.1f}H{node:.1f}"))
    return [*shapes, _node(node, box.axis, color, plus=True)]


def _strip(box: Box, bottom: float, steps: int, read: int, page: float) -> list[str]:
    """Return the iterations of the traced part as a bar, those in the window filled."""
    top, left, width = bottom + 22, box.left, box.size.width
    share = width * read / steps
    words = f"the last {read} of {steps} are read out"
    if read == steps:
        words = "its one iteration is read out" if steps == 1 else f"all {steps} iterations are read out"
    half = text_width(words, SMALL) / 2
    middle = min(max(left + width / 2, MARGIN + half), page - MARGIN - half)
    shapes = [
        _line(f"M{left + width / 2:.1f} {box.bottom + 4:.1f}V{top - 4:.1f}", RED, 1.4, dashed=True),
        _bar(left, top, width, EDGE),
        _bar(left + width - share, top, share, RED),
        _text(words, middle, top + 9 + LINE, SMALL, MUTED, anchor="middle"),
    ]
    if 1 < steps <= width / 5:
        cuts = "".join(f"M{left + width * cut / steps:.1f} {top:.1f}v9" for cut in range(1, steps))
        shapes.append(_line(cuts, PAPER, 1.2))
    return shapes


def _bar(left: float, top: float, width: float, color: str) -> str:
    return f'<rect x="{left:.1f}" y="{top:.1f}" width="{width:.1f}" height="9" rx="2" fill="{color}"/>'
