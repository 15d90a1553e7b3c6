"""README and docs say what the code does, because they are run."""

import re
from pathlib import Path

import pytest

from algoformer import nn, tasks
from tests.docs.pages import (
    PAGES,
    ROOT,
    Block,
    Reader,
    blocks_of,
    commands_of,
    inside,
    own_registrations,
    same,
)

pytestmark = pytest.mark.docs
WRITTEN = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").glob("*.md")])


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_page_shows_what_its_code_prints(page: Path, tmp_path: Path) -> None:
    printed = ""
    with own_registrations(), inside(tmp_path) as folder:
        reader = Reader(folder)
        for block in blocks_of(page.read_text(encoding="utf-8")):
            if block.language == "python":
                printed = reader.run(block)
            elif block.language == "text":
                assert same(block.lines, printed, close=block.close), (
                    f"{page.name}:{block.start} shows other than\n{printed}"
                )
            elif block.language == "console":
                check_commands(reader, block, page)


def test_what_a_page_registers_is_forgotten() -> None:
    with own_registrations():
        tasks.TASKS["of_a_page"] = tasks.LinearRegression
        nn.register_activation("of_a_page", abs)
    assert "of_a_page" not in tasks.TASKS
    assert "of_a_page" not in nn.ACTIVATIONS


def check_commands(reader: Reader, block: Block, page: Path) -> None:
    for command, shown in commands_of(block):
        printed = reader.command(command)
        if printed is not None:
            assert same(shown, printed, close=block.close), (
                f"{page.name}:{block.start} $ {command} prints\n{printed}"
            )


@pytest.mark.parametrize("page", WRITTEN, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    links = re.findall(r"\]\(([^)\s]+)\)", text) + re.findall(r'(?:src|href)="([^"]+)"', text)
    for link in links:
        if link.startswith(("https://", "http://", "mailto:")):
            continue
        place, _, anchor = link.partition("#")
        target = (page.parent / place).resolve() if place else page
        assert target.exists(), f"{page.name} links to {link}, which is not there"
        if anchor:
            assert anchor in anchors(target), f"{page.name} links to {link}, which has no such heading"


def anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_the_readme_fits_on_a_few_screens() -> None:
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) < 150


def test_the_readme_begins_with_twelve_lines() -> None:
    first = next(block for block in blocks_of((ROOT / "README.md").read_text()) if block.language == "python")
    assert len([line for line in first.lines if line.strip()]) <= 12


def test_no_recipe_for_extending_is_longer_than_forty_lines() -> None:
    text = (ROOT / "docs" / "extending.md").read_text(encoding="utf-8")
    recipes = re.split(r"^## ", text, flags=re.MULTILINE)[1:]
    assert len(recipes) >= 4
    for recipe in recipes:
        code = [line for block in blocks_of(recipe) if block.language == "python" for line in block.lines]
        assert 0 < len(code) <= 40, f"{recipe.splitlines()[0]!r} takes {len(code)} lines"


@pytest.mark.parametrize(
    ("shown", "printed", "agree"),
    [
        ("error 1.00e-3", "error 1.01e-3", True),
        ("error 1.0e-3", "error 9.0e-3", False),
        ("20 steps", "21 steps", False),
        ("a b", "a b\nc", False),
        ("a\n...", "a\nb\nc", True),
        ("...\nc", "a\nb\nc", True),
        ("error: 0.5", "mistake: 0.5", False),
    ],
)
def test_shown_and_printed_are_compared_by_word_and_number(shown: str, printed: str, agree: bool) -> None:
    assert same(shown.splitlines(), printed) is agree
