"""A browser for all tests of a process, and pages made for them."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from algoformer import programs
from algoformer.model import AlgoFormer
from algoformer.report.explorer import Exploration, explorer_page, pack_model
from report.explorer.models import random_model
from scripts.browser import Browser, Page, find_browser


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    path = find_browser()
    if path is None:
        pytest.skip("no Chromium or Chrome found: install Debian's chromium, or set ALGOFORMER_BROWSER")
    opened = Browser(path)
    yield opened
    opened.close()


Open = Callable[..., Page]
Predict = Callable[[AlgoFormer, list[list[float]], list[int], int], list[list[float]]]


@pytest.fixture(scope="session")
def predict(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Predict:
    """Answers of any model in one open page, after each step: as its own page would give them."""
    file = tmp_path_factory.mktemp("explorer") / "page.html"
    shown = random_model(programs.looped(heads=2, steps=1))
    file.write_text(explorer_page(shown, Exploration(title="a page for many models")), encoding="utf-8")
    page = browser.page(file)

    def predicted(
        model: AlgoFormer, rows: list[list[float]], reads: list[int], steps: int
    ) -> list[list[float]]:
        asked = ", ".join(map(json.dumps, (pack_model(model), rows, reads, steps)))
        found: list[list[float]] = page.run(f"algoformer.predict({asked})")["answers"]
        return found

    return predicted


@pytest.fixture
def open_page(browser: Browser, tmp_path: Path) -> Iterator[Open]:
    """Make the page of a model and open it; what went wrong in it fails the test."""
    pages: list[Page] = []

    def opened(model: AlgoFormer, exploration: Exploration | None = None, **options: object) -> Page:
        file = tmp_path / f"page{len(pages)}.html"
        file.write_text(explorer_page(model, exploration or Exploration(title="a model")), encoding="utf-8")
        pages.append(browser.page(file, **options))
        return pages[-1]

    yield opened
    for page in pages:
        assert page.problems() == []
        assert page.requests() == []
        page.close()
