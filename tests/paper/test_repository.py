"""The tables and figures in `results/short` are what the JSON files there give."""

from pathlib import Path

import pytest

from paper.archive import Archive
from paper.recipes import RECIPES
from paper.summary import BEGIN, END, all_items, page_lines
from paper.text_archive import TextArchive
from paper.text_items import TableName, table_items
from paper.text_tables import page_of_table

FOLDER = Path(__file__).parents[2] / "results" / "short"


@pytest.fixture(scope="module")
def archive() -> Archive:
    return Archive(FOLDER)


def test_every_result_can_be_read(archive: Archive) -> None:
    assert archive.refused == []
    files = [path for path in FOLDER.rglob("*.json") if path.parent.name != "text"]
    assert len(archive.results) == len(files)


def test_the_page_of_verdicts_is_written_from_the_results(archive: Archive) -> None:
    text = (FOLDER / "README.md").read_text(encoding="utf-8")
    stored = text.partition(BEGIN)[2].partition(END)[0].strip()
    written = "\n".join(page_lines(archive.by_name(all_items("short")), "short", FOLDER)).strip()
    assert written == stored


@pytest.mark.parametrize("table", ["table1", "table2"])
def test_a_table_on_text_is_written_from_the_scores(table: TableName) -> None:
    items = table_items(table, "short")
    archive = TextArchive(folder=FOLDER, results=FOLDER)
    assert [item.name for item in items if archive.find(item) is None] == []
    assert page_of_table(table, items, archive, "short") == (FOLDER / f"{table}.md").read_text(
        encoding="utf-8"
    )


def test_every_figure_is_drawn_from_the_results(archive: Archive, monkeypatch: pytest.MonkeyPatch) -> None:
    figures = pytest.importorskip("matplotlib.figure", reason="the extra `viz` is not installed")
    # where the panels go takes most of the time and is the same for any results
    monkeypatch.setattr(figures.Figure, "draw_without_rendering", lambda figure: None)
    drawn = {
        name
        for recipe in RECIPES.values()
        for name, _ in recipe.draw(archive.by_name(recipe.items("short")), "short")
    }
    assert drawn == {path.stem for path in FOLDER.glob("*.svg")}
