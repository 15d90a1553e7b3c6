"""Pages of the repository as sources of the site: places, links, and marks that only the site understands."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from scripts.site.flowchart import flowchart_svg

ROOT = Path(__file__).parents[2]
EXPLORERS = {
    "newton": "Newton's method as transformer weights: each iteration of the loop is one step of the method",
    "gradient_descent": "Gradient descent as transformer weights",
    "trained": "A trained loop",
    "text": "A classifier of text, which reads what you type",
}
"""Titles of the explorers that a page can show with `<!-- site: explorer NAME -->`."""

FENCE = re.compile(r"^(`{3,}).*?^\1\s*$", flags=re.MULTILINE | re.DOTALL)
LINK = re.compile(r"(\]\()([^)\s]+)(\))")
MERMAID = re.compile(r"^```mermaid\n(.*?)^```$", flags=re.MULTILINE | re.DOTALL)
MARK = re.compile(r"^<!-- site: explorer (\w+) -->$", flags=re.MULTILINE)


def place(path: Path) -> Path:
    """Return where a file of the repository stands in the site: `docs` is its root, the rest keeps its path.

    >>> place(ROOT / "docs/depth.md").as_posix(), place(ROOT / "results/README.md").as_posix()
    ('depth.md', 'results/README.md')
    """
    inner = path.relative_to(ROOT)
    if inner.parts[:1] == ("docs",):
        return Path(*inner.parts[1:])
    if inner.suffix == ".ipynb" or (inner.suffix == ".py" and inner.parts[0] == "examples"):
        return inner.with_suffix(".md")
    return {
        "checkpoints": Path("models/index.md"),
        "examples": Path("examples/index.md"),
        "LICENSE": Path("LICENSE.txt"),
    }.get(inner.as_posix(), inner)


def written_pages() -> list[Path]:
    """Return the Markdown files of the repository that are pages of the site."""
    others = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "benchmarks/README.md")
    # a table that a script wrote for another page has no title
    results = [path for path in (ROOT / "results").rglob("*.md") if path.read_text("utf-8").startswith("# ")]
    return [*sorted((ROOT / "docs").rglob("*.md")), *(ROOT / name for name in others), *sorted(results)]


@dataclass
class Sources:
    """The folder that Sphinx reads, and the pages in it."""

    folder: Path
    explorers: set[str] = field(default_factory=set)
    """Explorers whose pages are part of this build."""

    def write(self, name: str, text: str) -> None:
        """Write a source file by its place in the site."""
        file = self.folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")

    def pages(self) -> set[str]:
        """Return the places of all pages, without suffix."""
        files = [*self.folder.rglob("*.md"), *self.folder.rglob("*.rst")]
        return {file.relative_to(self.folder).with_suffix("").as_posix() for file in files}

    def add_written(self, pages: Iterable[Path]) -> None:
        """Copy pages with their links and pictures."""
        for page in pages:
            self.write(place(page).as_posix(), self.for_site(page.read_text(encoding="utf-8"), page))

    def for_site(self, text: str, page: Path) -> str:
        """Return the text of a page with links for the site, drawn flowcharts, and explorers in place."""
        pieces, end = [], 0
        for fence in FENCE.finditer(text):
            pieces += [self._linked(text[end : fence.start()], page), fence.group()]
            end = fence.end()
        linked = "".join([*pieces, self._linked(text[end:], page)])
        drawn = MERMAID.sub(lambda found: _raw(flowchart_svg(found.group(1))), linked)
        return MARK.sub(lambda found: self.explorer(found.group(1), place(page)), drawn)

    def explorer(self, name: str, page: Path) -> str:
        """Return the frame of an explorer for a page; empty if this build has no such explorer."""
        if name not in self.explorers:
            return ""
        address = os.path.relpath(f"explorers/{name}.html", page.parent)
        return _raw(
            f'<figure class="explorer"><iframe src="{address}" title="{EXPLORERS[name]}" loading="lazy">'
            f'</iframe><figcaption><a href="{address}">{EXPLORERS[name]}: open on a page of its own</a>'
            "</figcaption></figure>"
        )

    def _linked(self, text: str, page: Path) -> str:
        return LINK.sub(lambda found: found[1] + self._address(found[2], page) + found[3], text)

    def _address(self, link: str, page: Path) -> str:
        if re.match(r"[a-z]+:|#", link):
            return link
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve()
        to = place(target)
        if target.is_dir() and not to.suffix:
            to = self._folder_page(target, to)
        elif target.suffix != ".md" and to.suffix != ".md":
            copied = self.folder / to
            copied.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(target, copied)
        address = os.path.relpath(to, place(page).parent)
        return f"{address}#{anchor}" if anchor else address

    def _folder_page(self, folder: Path, to: Path) -> Path:
        """Return the page that stands for a folder: its README, its room's reference, or a list of files."""
        if (folder / "README.md").exists():
            return to / "README.md"
        if to.parts[:2] == ("src", "algoformer"):
            return Path("reference", f"{to.name}.rst")
        files = sorted(file for file in folder.rglob("*.*") if file.suffix != ".png")
        for file in files:
            copied = self.folder / place(file)
            copied.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, copied)
        names = [file.relative_to(folder).as_posix() for file in files]
        listed = "\n".join(f"- [{name}]({name})" for name in names)
        self.write((to / "files.md").as_posix(), f"---\norphan: true\n---\n\n# Files of `{to}`\n\n{listed}\n")
        return to / "files.md"


def _raw(html: str) -> str:
    return f"\n```{{raw}} html\n{html}\n```\n"
