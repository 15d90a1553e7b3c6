"""A browser for all tests of a process, and pages made for them."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from algoformer.model import AlgoFormer
from algoformer.report.explorer import Exploration, explorer_page
from report.explorer.browser import Browser, Page, find_browser


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    path = find_browser()
    if path is None:
        pytest.skip("no Chromium or Chrome found: install Debian's chromium, or set ALGOFORMER_BROWSER")
    opened = Browser(path)
    yield opened
    opened.close()


Open = Callable[..., Page]


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
