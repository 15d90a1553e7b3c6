import pytest

from algoformer.report.svg import embedded

OPEN = '<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink">'


def drawing(inside: str) -> str:
    return f"{OPEN}{inside}</svg>"


@pytest.mark.parametrize(
    "inside",
    [
        "<script>alert(1)</script>",
        '<rect onload="alert(1)"/>',
        '<rect ONCLICK="alert(1)"/>',
        '<a href="https://example.org"><rect/></a>',
        '<use href="https://example.org/a.svg#b"/>',
        '<use xlink:href="javascript:alert(1)"/>',
        '<image href="https://example.org/a.png"/>',
        "<foreignObject><p>x</p></foreignObject>",
        '<rect style="fill: url(https://example.org/a)"/>',
        "<rect style=\"fill: url( 'https://example.org/a')\"/>",
        '<rect fill="url(//example.org/a)"/>',
        "<style>@import 'https://example.org/a.css';</style>",
        "<style>rect { fill: url(https://example.org/a) }</style>",
        '<set attributeName="href" to="javascript:alert(1)"/>',
        '<animate attributeName="href" values="javascript:alert(1)"/>',
        "<iframe/>",
    ],
)
def test_what_is_no_drawing_is_refused(inside: str) -> None:
    with pytest.raises(ValueError, match="must not"):
        embedded(drawing(inside))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("<svg", "not well-formed"),
        ("plain text", "not well-formed"),
        ("<p/>", "<p>"),
        ('<!DOCTYPE svg [<!ENTITY a "b">]><svg/>', "entities"),
    ],
)
def test_what_is_no_svg_is_refused(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        embedded(text)


def test_what_only_a_file_needs_is_taken_away() -> None:
    text = embedded(
        '<?xml version="1.0"?><!DOCTYPE svg PUBLIC "a" "http://www.w3.org/b.dtd">'
        + drawing("<metadata><x/></metadata><!-- http://a --><path d='M 0 0'/>")
    )
    assert text == '<svg role="img"><path d="M 0 0" /></svg>'


def test_identifiers_get_the_prefix_wherever_they_are_used() -> None:
    inside = (
        '<title id="t">x</title><clipPath id="c"><rect id="r"/></clipPath><style>#c { fill: #c0ffee }</style>'
        '<use xlink:href="#r" clip-path="url(#c)" fill="#cccccc" aria-labelledby="t other"/>'
    )
    text = embedded(drawing(inside), prefix="one-")
    assert '<title id="one-t">' in text
    assert '<clipPath id="one-c"><rect id="one-r" /></clipPath>' in text
    assert "#one-c { fill: #c0ffee }" in text
    for part in (
        'href="#one-r"',
        'clip-path="url(#one-c)"',
        'fill="#cccccc"',
        'aria-labelledby="one-t other"',
    ):
        assert part in text


def test_a_style_for_everything_stays_within_the_drawing() -> None:
    text = embedded(drawing('<defs><style type="text/css">*{stroke-linejoin: round}</style></defs><path/>'))
    assert text == '<svg style="stroke-linejoin: round" role="img"><defs /><path /></svg>'


def test_those_who_do_not_see_it_are_told_what_it_is() -> None:
    assert embedded(drawing(""), alt='errors "<b>"') == (
        '<svg role="img" aria-label="errors &quot;&lt;b&gt;&quot;" />'
    )
