"""The documentation site: it builds without a warning, works from a disk, and asks nobody for anything."""

import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock

from report.explorer.conftest import browser as browser
from scripts.browser import Browser, Page
from scripts.site.docstrings import as_restructured_text
from scripts.site.navigation import NAVIGATION, NESTED
from scripts.site.pages import ROOT, Sources, place, written_pages
from scripts.site.reference import ROOMS, public_names

pytestmark = pytest.mark.docs


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Path:
    """The quick variant of the site, built once for all processes of the run."""
    base = tmp_path_factory.getbasetemp()
    folder = (base if worker_id == "master" else base.parent) / "site"
    with FileLock(f"{folder}.lock"):
        if not (folder / "index.html").exists():
            # a process of its own: Sphinx changes global state, and our tests check shapes at import
            command = [sys.executable, "-m", "scripts.site", str(folder), "--quick"]
            done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
            assert done.returncode == 0, done.stderr
    return folder


class Addresses(HTMLParser):
    """Collects what a page loads, where it leads, and its anchors."""

    def __init__(self) -> None:
        super().__init__()
        self.loads: list[str] = []
        self.leads: list[str] = []
        self.anchors: set[str] = set()

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        found = {name: value or "" for name, value in attributes}
        self.anchors |= {found["id"]} if "id" in found else set()
        if "src" in found or (tag == "link" and "href" in found):
            self.loads.append(found.get("src") or found["href"])
        elif tag == "a" and "href" in found:
            self.leads.append(found["href"])


def read(page: Path) -> Addresses:
    found = Addresses()
    found.feed(page.read_text(encoding="utf-8"))
    return found


def test_pages_load_nothing_from_another_host_and_every_link_leads_somewhere(site: Path) -> None:
    pages = {page: read(page) for page in site.rglob("*.html") if "explorers" not in page.parts}
    assert len(pages) > 50
    for page, found in pages.items():
        assert not [load for load in found.loads if re.match(r"(https?:)?//", load)]
        for address in (*found.loads, *found.leads):
            if re.match(r"[a-z]+:", address):
                continue
            place, _, anchor = address.partition("#")
            target = (page.parent / place.partition("?")[0]).resolve() if place else page
            assert target.is_file(), f"{page.name} leads to {address}"
            if anchor and target in pages:
                assert anchor in pages[target].anchors, f"{page.name} leads to {address}"


def test_every_public_name_has_an_entry_in_the_reference(site: Path) -> None:
    entries = set().union(*(read(page).anchors for page in (site / "reference").glob("*.html")))
    for room in list(ROOMS)[1:]:
        missing = {f"{room}.{name}" for name in public_names(room)} - entries
        assert not missing
    assert {"algoformer.Prompt", "algoformer.Trace", "algoformer.Unroll"} <= entries


def test_every_package_of_the_library_is_in_the_reference() -> None:
    hidden = {"cli", "common", "kernels"}
    packages = {path.parent.name for path in (ROOT / "src/algoformer").glob("*/__init__.py")} - hidden
    assert {f"algoformer.{package}" for package in packages} <= set(ROOMS)


def test_every_written_page_is_in_the_table_of_contents() -> None:
    listed = {name for names in (*NAVIGATION.values(), *NESTED.values()) for name in names}
    pages = {path.stem for path in (ROOT / "docs").glob("*.md")} - {"index"}
    results = {place(path).with_suffix("").as_posix() for path in written_pages() if "results" in path.parts}
    assert pages | results <= listed


def test_model_cards_show_what_was_measured(site: Path) -> None:
    card = (site / "models" / "linear.html").read_text(encoding="utf-8")
    assert "error at T = 1000" in card
    assert "2,439,425" in card
    assert "<svg" in card


def test_a_broken_link_is_an_error(tmp_path: Path) -> None:
    sources = Sources(tmp_path)
    with pytest.raises(FileNotFoundError):
        sources.for_site("[numbers](missing.json)", ROOT / "docs" / "depth.md")


def test_links_out_of_docs_lead_to_the_same_file_in_the_site(tmp_path: Path) -> None:
    sources = Sources(tmp_path)
    text = (
        "[a](../results/README.md#text) [b](../checkpoints) [c](../src/algoformer/language) [d](../LICENSE)"
    )
    found = sources.for_site(text, ROOT / "docs" / "depth.md")
    assert (
        found
        == "[a](results/README.md#text) [b](models/index.md) [c](reference/language.rst) [d](LICENSE.txt)"
    )
    assert (tmp_path / "LICENSE.txt").read_bytes() == (ROOT / "LICENSE").read_bytes()


@pytest.mark.parametrize(
    ("written", "read_as"),
    [
        ("Use `width` and *args.", "Use ``width`` and \\*args."),
        ("|e_t|² of x_", "\\|e_t\\|² of x\\_"),
        (">>> a * b | c", ">>> a * b | c"),
        ("See [Yang](https://arxiv.org/abs/1).", "See `Yang <https://arxiv.org/abs/1>`__."),
    ],
)
def test_markdown_in_docstrings_becomes_restructured_text(written: str, read_as: str) -> None:
    assert as_restructured_text([written]) == [read_as]


def opened(browser: Browser, page: Path, **options: Any) -> Page:
    return browser.page(page, ready="document.readyState == 'complete'", **options)


def test_search_finds_a_page_without_a_server(browser: Browser, site: Path) -> None:
    page = opened(browser, site / "index.html")
    page.run("document.querySelector('.sidebar-search').value = 'burn-in'")
    form = "document.querySelector('.sidebar-search-container')"
    # the address to which the browser would go: waiting would fail while it goes there by itself
    url = page.run(f"{form}.action + '?' + new URLSearchParams(new FormData({form}))")
    page.send("Page.navigate", url=url)
    page.wait("document.querySelectorAll('#search-results li a').length > 0")
    hits = page.run("[...document.querySelectorAll('#search-results li a')].map(link => link.textContent)")
    assert any("Depth" in hit for hit in hits)
    assert page.problems() == []
    assert page.requests() == []
    page.close()


def test_a_model_runs_inside_a_page(browser: Browser, site: Path) -> None:
    page = opened(browser, site / "index.html")
    address = page.run("document.querySelector('figure.explorer iframe').src")
    assert page.problems() == page.requests() == []
    page.close()
    explorer = browser.page(Path(address.removeprefix("file://")))
    assert explorer.run("document.documentElement.dataset.state") == "ready"
    explorer.close()


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_pages_fit_a_phone_in_both_color_schemes(browser: Browser, site: Path, dark: bool) -> None:
    names = ("index", "getting-started", "reference/model", "models/linear", "rooms", "results/README")
    for name in names:
        page = opened(browser, site / f"{name}.html", width=375, height=700, dark=dark)
        assert page.run("document.documentElement.scrollWidth") <= 375, name
        color = page.run("getComputedStyle(document.body).backgroundColor")
        assert (sum(map(int, re.findall(r"\d+", color)[:3])) < 200) is dark
        assert page.problems() == page.requests() == []
        page.close()
