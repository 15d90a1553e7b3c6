"""Render a report as one self-contained HTML file."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from algoformer.evaluation import Table
from algoformer.evaluation.numbers import show
from algoformer.extras import require

Outcome = Literal["holds", "does not hold", "not decided"]
"""The verdict of the numbers on a claim."""


@dataclass(frozen=True, kw_only=True)
class Fact:
    """A fact about how the numbers were obtained: a seed, a device, a version, a time."""

    name: str
    value: str


@dataclass(frozen=True, kw_only=True)
class Picture:
    """A drawing and its caption. `svg` is embedded as an image, in which no script runs and nothing loads."""

    svg: str
    caption: str = ""
    alt: str = ""


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """A claim, whether the numbers support it, and why."""

    claim: str
    outcome: Outcome
    because: str = ""


@dataclass(frozen=True, kw_only=True)
class Section:
    """A section of a page; every part but its title is optional."""

    title: str
    text: tuple[str, ...] = ()
    verdicts: tuple[Verdict, ...] = ()
    pictures: tuple[Picture, ...] = ()
    tables: tuple[Table, ...] = ()
    code: str = ""


@dataclass(frozen=True, kw_only=True)
class Page:
    """The content of a report: title, lead, sections, commands and facts."""

    title: str
    lead: str = ""
    sections: tuple[Section, ...] = ()
    commands: tuple[str, ...] = ()
    facts: tuple[Fact, ...] = ()


def render(page: Page) -> str:
    """Return the page as one HTML file: no scripts, nothing to load, every text escaped.

    >>> text = render(Page(title="A < B"))
    >>> "<h1>A &lt; B</h1>" in text, "<script" in text
    (True, False)
    """
    jinja = require("jinja2", extra="viz")
    environment = jinja.Environment(
        autoescape=True,
        undefined=jinja.StrictUndefined,
        loader=jinja.FileSystemLoader(Path(__file__).parent),
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["show"] = show
    environment.filters["data_uri"] = data_uri
    environment.tests["words"] = lambda place, table: table.is_text(place)
    text: str = environment.get_template("page.html").render(page=page)
    return text


def data_uri(svg: str) -> str:
    """Return a drawing as the address of an image; browsers run no scripts in images and load nothing."""
    return "data:image/svg+xml;base64," + base64.b64encode(svg.encode("utf-8", "replace")).decode("ascii")
