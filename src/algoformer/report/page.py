"""Render a report as one self-contained HTML file."""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from algoformer.common.tables import Table, show
from algoformer.extras import require
from algoformer.report.style import page_colors


@dataclass(frozen=True, kw_only=True)
class Picture:
    """A drawing and its caption. `svg` is embedded as an image, in which no script runs and nothing loads."""

    svg: str
    caption: str = ""
    alt: str = ""


@dataclass(frozen=True, kw_only=True)
class Section:
    """A section of a page; every part but its title is optional."""

    title: str
    text: tuple[str, ...] = ()
    pictures: tuple[Picture, ...] = ()
    tables: tuple[Table, ...] = ()
    code: str = ""


@dataclass(frozen=True, kw_only=True)
class Link:
    """A link to a file beside the page."""

    words: str
    address: str

    def __post_init__(self) -> None:
        if ":" in self.address or self.address.startswith(("/", "\\")):
            raise ValueError(f"address must be a file beside the page, got {self.address!r}; give its name")


@dataclass(frozen=True, kw_only=True)
class Page:
    """The content of a page: title, conclusion in words, links, sections and commands.

    Facts, by their names, say how the numbers were obtained: a seed, a device, a version, a time.
    """

    title: str
    lead: str = ""
    links: tuple[Link, ...] = ()
    sections: tuple[Section, ...] = ()
    commands: tuple[str, ...] = ()
    facts: tuple[tuple[str, str], ...] = ()


def render(page: Page, explorer: Mapping[str, Any] | None = None) -> str:
    """Return the page as one HTML file: nothing to load, every text escaped, scripts of the explorer only.

    >>> text = render(Page(title="A < B"))
    >>> "<h1>A &lt; B</h1>" in text, "<script" in text
    (True, False)

    Args:
        page: the content.
        explorer: what the explorer's template needs, as `explorer_page` puts it together; None leaves it out.
    """
    jinja = require("jinja2", extra="viz")
    folder = Path(__file__).parent
    environment = jinja.Environment(
        autoescape=True,
        undefined=jinja.StrictUndefined,
        loader=jinja.FileSystemLoader(folder),
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["show"] = show
    environment.filters["data_uri"] = data_uri
    environment.filters["whole"] = whole_numbers
    environment.tests["words"] = lambda place, table: table.is_text(place)
    style = (folder / "page.css").read_text(encoding="utf-8")
    template = environment.get_template("page.html")
    return template.render(page=page, explorer=explorer, style=style, colors=page_colors())


def whole_numbers(text: str) -> str:
    """Return a text in which no line can break inside a number or before its per cent sign.

    >>> whole_numbers("2.4e-10 or 5 %, step-wise") == "2.4e\\u201110 or 5\\u00a0%, step-wise"
    True
    """
    return re.sub(r"(?<=\d) (?=%)", "\u00a0", re.sub(r"(?<=\de)-(?=\d)", "\u2011", text))


def data_uri(svg: str) -> str:
    """Return a drawing as the address of an image; browsers run no scripts in images and load nothing."""
    return "data:image/svg+xml;base64," + base64.b64encode(svg.encode("utf-8", "replace")).decode("ascii")
