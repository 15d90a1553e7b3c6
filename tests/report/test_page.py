import base64
import sys
from functools import cache
from html.parser import HTMLParser
from xml.etree import ElementTree

import pytest

from algoformer.evaluation import Table
from algoformer.report import (
    Link,
    Page,
    Picture,
    Section,
    error_by_sample,
    error_by_step,
    inline_svg,
    render,
)
from evaluation.known import line

EVIL = "<script>alert('x')</script>\"'&--><img src=x onerror=alert(1)>"
VOID = {"meta", "br", "hr", "img", "link", "input"}


class Reader(HTMLParser):
    """Collects tags, attributes and text, and checks that what is opened is closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str]] = []
        self.words: list[str] = []
        self.open: list[str] = []
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(name, value or "") for name, value in attrs]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(name, value or "") for name, value in attrs]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.append(data)


@cache
def picture(text: str) -> str:
    return inline_svg(error_by_sample([line(label=text), line(label="AlgoFormer")], title=text))


def full(text: str) -> Page:
    """A page with `text` in every place that takes one."""
    table = Table(columns=(text, "error"), rows=((text, 0.5), ("b", None)), title=text, note=text)
    return Page(
        title=text,
        lead=text,
        sections=(
            Section(
                title=text,
                text=(text, text),
                pictures=(Picture(svg=picture(text), caption=text, alt=text),) * 2,
                tables=(table,),
                code=text,
            ),
        ),
        commands=(text,),
        facts=((text, text),),
    )


def test_every_text_is_escaped() -> None:
    page = Reader(render(full(EVIL)))
    assert "script" not in page.tags
    assert page.tags.count("img") == 2
    assert not [name for name, _ in page.attributes if name.startswith("on")]
    # title, heading and lead; section: heading, two paragraphs, two captions; table: title,
    # column, cell, note; code; command; fact: name and value
    assert sum(word.count(EVIL) for word in page.words) == 3 + 5 + 4 + 1 + 1 + 2
    assert [value for name, value in page.attributes if name == "alt"] == [EVIL] * 2


def test_the_page_loads_nothing() -> None:
    text = render(full("plain"))
    page = Reader(text)
    assert not {"script", "link", "iframe", "object", "embed", "svg"} & set(page.tags)
    sources = [value for name, value in page.attributes if name in ("href", "src")]
    assert len(sources) == 2
    assert all(source.startswith("data:image/svg+xml;base64,") for source in sources)
    rest = text
    for source in sources:
        rest = rest.replace(source, "")
    for reaching_out in ("http:", "https:", "//", "@import", "url("):
        assert reaching_out not in rest


def test_the_numbers_are_in_the_page_as_people_read_them() -> None:
    table = Table(columns=("solver", "error"), rows=(("a", 4.04e-4), ("b", None), ("c", float("nan"))))
    text = render(Page(title="t", sections=(Section(title="s", tables=(table,)),)))
    assert '<td class="words">a</td><td>4.04e-4</td>' in text
    assert "<td>–</td>" in text
    assert "<td>NaN</td>" in text


def test_a_wide_table_names_its_columns_in_every_cell_for_narrow_screens() -> None:
    wide = Table(columns=("solver", "a", "b", "c"), rows=(("newton", 1, 2, 3),))
    text = render(Page(title="t", sections=(Section(title="s", tables=(wide,)),)))
    assert '<table class="stack">' in text
    assert '<td data-column="b">2</td>' in text


@pytest.mark.parametrize("address", ["https://example.org", "javascript:alert(1)", "/etc/passwd"])
def test_a_page_links_to_files_beside_it_only(address: str) -> None:
    with pytest.raises(ValueError, match="a file beside the page"):
        Link(words="w", address=address)
    text = render(Page(title="t", links=(Link(words="<b>", address='a"b.html'),)))
    assert '<a href="a&#34;b.html">&lt;b&gt;</a>' in text


def test_a_bare_page_has_no_empty_parts() -> None:
    page = Reader(render(Page(title="t")))
    assert not {"section", "figure", "table", "ul", "pre", "dl"} & set(page.tags)


def test_the_page_follows_the_reader() -> None:
    text = render(Page(title="t"))
    for need in ("prefers-color-scheme: dark", "@media print", "width=device-width", '<html lang="en">'):
        assert need in text


@pytest.mark.parametrize(
    "svg",
    [
        "<svg><script>alert(1)</script></svg>",
        "<svg><style>body{display:none}</style></svg>",
        "<svg><rect style='fill:u\\72l(http://x)'/></svg>",
        "<svg onload='alert(1)'/>",
        '"><script>alert(1)</script>',
        "\ud800",
    ],
)
def test_nothing_of_a_drawing_reaches_the_page_itself(svg: str) -> None:
    section = Section(title="s", pictures=(Picture(svg=svg),))
    text = render(Page(title="t", sections=(section,)))
    page = Reader(text)
    assert page.tags.count("script") == 0
    assert page.tags.count("style") == 1
    (source,) = (value for name, value in page.attributes if name == "src")
    shown = base64.b64decode(source.removeprefix("data:image/svg+xml;base64,")).decode()
    assert shown == svg.encode("utf-8", "replace").decode()


def test_the_same_page_gives_the_same_text() -> None:
    assert render(full("plain")) == render(full("plain"))


def test_figures_of_both_kinds_can_stand_in_a_page() -> None:
    figure = error_by_step([line(axis="iterations", x=(1.0, 30.0))], trained=20)
    section = Section(title="s", pictures=(Picture(svg=inline_svg(figure)),))
    (source,) = (
        value
        for name, value in Reader(render(Page(title="t", sections=(section,)))).attributes
        if name == "src"
    )
    root = ElementTree.fromstring(base64.b64decode(source.partition(",")[2]))
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    style = root[0].text or ""
    assert "prefers-color-scheme:dark" in style
    assert "currentColor" in ElementTree.tostring(root, encoding="unicode")


@pytest.mark.parametrize("label", ["a\x07b", "\x1b[31mred", "a\u2028b", "\x00", "a\ud800", "<b>&\"'"])
def test_a_label_with_any_character_gives_well_formed_svg(label: str) -> None:
    figure = error_by_sample([line(label=label), line(label="AlgoFormer")], title=label)
    text = inline_svg(figure)
    ElementTree.fromstring(text)
    text.encode("utf-8")


def test_a_missing_jinja_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jinja2", None)
    with pytest.raises(ModuleNotFoundError, match=r"'jinja2'.*pip install 'algoformer\[viz\]'"):
        render(Page(title="t"))
