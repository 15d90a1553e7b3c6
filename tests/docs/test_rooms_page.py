"""The tables of rooms agree with the rooms."""

import re

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


@pytest.mark.parametrize("page", ["README.md", "docs/rooms.md"])
def test_every_room_has_a_row(page: str) -> None:
    there = {name for row in rows(page) for name in names(row[0])}
    assert {room_of(path) for path in MODULES} - {"__main__"} <= there


def test_no_room_is_listed_that_does_not_exist() -> None:
    there = {room_of(path) for path in MODULES}
    listed = {name for page in ("README.md", "docs/rooms.md") for row in rows(page) for name in names(row[0])}
    assert listed <= there
