"""Runs as one page: a single file with everything in it."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from algoformer.evaluation import Table
from algoformer.extras import require
from algoformer.report.numbers import show
from algoformer.report.svg import embedded
from algoformer.report.tables import is_text

Outcome = Literal["holds", "does not hold", "not decided"]
"""What numbers can say about a claim."""


@dataclass(frozen=True, kw_only=True)
class Fact:
    """Something about how the numbers came to be: a seed, a device, a version, a time."""

    name: str
    value: str


@dataclass(frozen=True, kw_only=True)
class Picture:
    """A drawing and the words under it. `svg` is markup made by this library, and is checked all the same."""

    svg: str
    caption: str = ""
    alt: str = ""


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """A claim and what the numbers say about it."""

    claim: str
    outcome: Outcome
    because: str = ""


@dataclass(frozen=True, kw_only=True)
class Section:
    """A part of a page; everything but its title may be left out."""

    title: str
    text: tuple[str, ...] = ()
    verdicts: tuple[Verdict, ...] = ()
    pictures: tuple[Picture, ...] = ()
    tables: tuple[Table, ...] = ()
    code: str = ""


@dataclass(frozen=True, kw_only=True)
class Page:
    """What a report says: a title, a sentence or two, sections, and how it was made."""

    title: str
    lead: str = ""
    sections: tuple[Section, ...] = ()
    commands: tuple[str, ...] = ()
    facts: tuple[Fact, ...] = ()


def render(page: Page) -> str:
    """The page as one HTML file: no scripts, nothing to load, every text escaped.

    >>> text = render(Page(title="A < B"))
    >>> "<h1>A &lt; B</h1>" in text, "<script" in text
    (True, False)

    Raises:
        ValueError: a picture is not plain SVG (it holds a script, a link or an event handler).
    """
    jinja = require("jinja2", extra="viz")
    environment = jinja.Environment(
        autoescape=True,
        undefined=jinja.StrictUndefined,
        loader=jinja.FileSystemLoader(Path(__file__).parent),
        trim_blocks=True,
        lstrip_blocks=True,
    )
    markup = require("markupsafe", extra="viz").Markup
    environment.filters["show"] = show
    numbers = itertools.count(1)
    environment.filters["drawing"] = lambda picture: markup(_drawing(picture, next(numbers)))
    environment.tests["words"] = lambda place, table: is_text(table, place)
    text: str = environment.get_template("page.html").render(page=page)
    return text


def _drawing(picture: Picture, number: int) -> str:
    return embedded(picture.svg, alt=picture.alt or picture.caption, prefix=f"drawing{number}-")
