"""The tables of rooms agree with the rooms."""

import re
from itertools import pairwise, product

import pytest

from tests.docs.pages import ROOT
from tests.test_rooms import MAY_IMPORT, MODULES, room_of

pytestmark = pytest.mark.docs


def rows(page: str) -> list[list[str]]:
    """The rows of a page's tables whose first cell names a room."""
    lines = (ROOT / page).read_text(encoding="utf-8").splitlines()
    cells = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("| `")
    ]
    return [row for row in cells if re.fullmatch(r"`[\w/.]+`.*", row[0])]


def names(cell: str) -> list[str]:
    return [re.sub(r"(/|\.py)$", "", name) for name in re.findall(r"`([^`]+)`", cell)]


def test_the_rooms_page_lists_what_each_room_may_import() -> None:
    listed = {name: set(names(row[2])) for row in rows("docs/rooms.md") for name in names(row[0])}
    below = set(MAY_IMPORT) - {"cli", "__main__"}
    for room in below:
        assert listed[room] == MAY_IMPORT[room], f"docs/rooms.md is wrong about {room}"
    assert set(listed) - set(MAY_IMPORT) == set()


def test_every_room_has_a_row() -> None:
    there = {name for row in rows("docs/rooms.md") for name in names(row[0])}
    assert {room_of(path) for path in MODULES} - {"__main__"} <= there


def test_the_diagram_shows_every_room_and_no_forbidden_arrow() -> None:
    page = (ROOT / "docs" / "rooms.md").read_text(encoding="utf-8")
    drawing = page.partition("```mermaid")[2].partition("```")[0]
    boxes = {box: re.findall(r"\w+", title) for box, title in re.findall(r'(\w+)\["<b>([^<]*)</b>', drawing)}
    drawn = {room for rooms in boxes.values() for room in rooms}
    assert set(MAY_IMPORT) - {"common", "extras", "__main__"} <= drawn
    for line in re.findall(r"^  (\w+(?: -->.*)+)$", drawing, flags=re.MULTILINE):
        stages = [re.findall(r"\w+", stage) for stage in line.split("-->")]
        for sources, targets in pairwise(stages):
            for source, target in product(sources, targets):
                assert set(boxes[source]) & MAY_IMPORT[target], f"{target} does not import {source}"
