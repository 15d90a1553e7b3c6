"""Flowcharts as SVG: the part of Mermaid's language that our pages use, drawn without a browser."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from html import escape, unescape
from itertools import pairwise, product
from textwrap import wrap

BOX_WIDTH, BOX_HEIGHT, COLUMN_GAP, ROW_GAP, LABEL, MARGIN = 204.0, 64.0, 16.0, 46.0, 118.0, 8.0
LINE_LENGTH = 31
NODE = re.compile(r'(\w+)\["(?:<b>(.*?)</b>)?(?:<br>)?(.*?)"\]')
GROUP = re.compile(r'subgraph \w+\["(.*?)"\]')


@dataclass
class Chart:
    """Rows of boxes by their title, and arrows between boxes."""

    rows: dict[str, list[str]] = field(default_factory=dict)
    boxes: dict[str, tuple[str, str]] = field(default_factory=dict)
    arrows: list[tuple[str, str, bool]] = field(default_factory=list)
    """Source, target, and whether the arrow is dotted."""


def parse_flowchart(source: str) -> Chart:
    """Read a Mermaid flowchart: groups of boxes, and arrows outside of the groups.

    >>> chart = parse_flowchart('flowchart\\n subgraph a["A"]\\n x["<b>X</b><br>one"]\\n end\\n x --> y["Y"]')
    >>> chart.rows, chart.arrows
    ({'A': ['x'], '': ['y']}, [('x', 'y', False)])
    """
    chart, group = Chart(), ""
    for line in (line.strip() for line in source.splitlines()[1:]):
        if found := GROUP.match(line):
            group = found[1]
            continue
        group = "" if line == "end" else group
        for name, title, words in NODE.findall(line):
            chart.boxes[name] = (unescape(title), unescape(words))
            chart.rows.setdefault(group, []).append(name)
        chart.arrows += _arrows(NODE.sub(r"\1", line))
    return chart


def _arrows(line: str) -> list[tuple[str, str, bool]]:
    stages = re.split(r"\s*(-->|-\.->)\s*", line)
    if len(stages) < 3:
        return []
    names = [re.findall(r"\w+", stage) for stage in stages[::2]]
    kinds = [kind == "-.->" for kind in stages[1::2]]
    return [
        (source, target, dotted)
        for (sources, targets), dotted in zip(pairwise(names), kinds, strict=True)
        for source, target in product(sources, targets)
    ]


def flowchart_svg(source: str) -> str:
    """Draw a Mermaid flowchart as SVG, one row for each of its groups."""
    chart = parse_flowchart(source)
    places: dict[str, tuple[float, float]] = {}
    longest = max(map(len, chart.rows.values()))
    drawn = []
    for row, (title, names) in enumerate(chart.rows.items()):
        y = MARGIN + row * (BOX_HEIGHT + ROW_GAP)
        left = LABEL + (longest - len(names)) * (BOX_WIDTH + COLUMN_GAP) / 2
        for number, line in enumerate(wrap(title, 14)):
            drawn.append(_text(MARGIN, y + 24 + 18 * number, line, "group"))
        places |= {name: (left + column * (BOX_WIDTH + COLUMN_GAP), y) for column, name in enumerate(names)}
    drawn += [_arrow(places[source], places[target], dotted) for source, target, dotted in chart.arrows]
    drawn += [_box(*places[name], *words) for name, words in chart.boxes.items()]
    width = LABEL + longest * (BOX_WIDTH + COLUMN_GAP) - COLUMN_GAP + MARGIN
    height = 2 * MARGIN + len(chart.rows) * (BOX_HEIGHT + ROW_GAP) - ROW_GAP
    tip = (
        '<marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        '<path d="M0 0 8 4 0 8z"/></marker>'
    )
    size = f'viewBox="0 0 {width:g} {height:g}" style="min-width: {width * 0.6:g}px"'
    words = escape("; ".join(f"{source} to {target}" for source, target, _ in chart.arrows))
    label = f'aria-label="Flowchart with arrows {words}"'
    body = "".join(drawn)
    return f'<div class="flowchart"><svg role="img" {label} {size}><defs>{tip}</defs>{body}</svg></div>'


def _text(x: float, y: float, words: str, kind: str) -> str:
    return f'<text x="{x:g}" y="{y:g}" class="{kind}">{escape(words)}</text>'


def _box(x: float, y: float, title: str, words: str) -> str:
    middle = x + BOX_WIDTH / 2
    # a long title is pressed into its box
    fit = f' textLength="{BOX_WIDTH - 12:g}" lengthAdjust="spacingAndGlyphs"' if len(title) > 24 else ""
    lines = [f'<text x="{middle:g}" y="{y + 22:g}" class="title"{fit}>{escape(title)}</text>']
    lines += [
        _text(middle, y + 39 + 14 * row, line, "words") for row, line in enumerate(wrap(words, LINE_LENGTH))
    ]
    box = f'<rect x="{x:g}" y="{y:g}" width="{BOX_WIDTH:g}" height="{BOX_HEIGHT:g}" rx="8"/>'
    return box + "".join(lines)


def _arrow(source: tuple[float, float], target: tuple[float, float], dotted: bool) -> str:
    (x1, y1), (x2, y2) = source, target
    if y1 == y2:
        right = x2 > x1
        path = f"M{x1 + BOX_WIDTH * right:g} {y1 + BOX_HEIGHT / 2:g}H{x2 + BOX_WIDTH * (not right):g}"
    else:
        start, end, half = y1 + BOX_HEIGHT, y2, BOX_WIDTH / 2
        bend = ROW_GAP * 0.8
        path = (
            f"M{x1 + half:g} {start:g}C{x1 + half:g} {start + bend:g} {x2 + half:g} {end - bend:g} "
            f"{x2 + half:g} {end:g}"
        )
    return f'<path class="arrow{" dotted" * dotted}" marker-end="url(#tip)" d="{path}"/>'
