import pytest

from algoformer.language.text import plain
from paper.corpora import clean


@pytest.mark.parametrize(
    ("shown", "wanted"),
    [
        ("Iran #39;s plan", "Iran's plan"),
        ("a quot;big quot; one", 'a "big " one'),
        ("AT amp;T", "AT &T"),
        ("second\\team", "second team"),
        ("&lt;b&gt;", "<b>"),
        ("C#39; stays", "C#39; stays"),
        ("item #12 of 30", "item #12 of 30"),
    ],
)
def test_remnants_of_entities(shown: str, wanted: str) -> None:
    assert clean.entity_remnants(shown) == wanted


@pytest.mark.parametrize(
    ("shown", "wanted"),
    [
        ("that 's what we 'd say .", "that's what we'd say."),
        ("they don 't , do they ?", "they don't, do they?"),
        ("well @-@ known [ sic ]", "well-known [sic]"),
        ('he said , " stop " !', 'he said, "stop"!'),
        ('an inch is 1 " long', 'an inch is 1 " long'),
        ("", ""),
    ],
)
def test_tokens_are_joined_again(shown: str, wanted: str) -> None:
    assert clean.without_moses(shown) == wanted


def test_plain_text_is_composed_and_on_one_line() -> None:
    assert plain("u\u0308ber\u00a0alles\r\n\tDinge") == "über alles Dinge"


def test_escaped_breaks_and_quotes() -> None:
    assert clean.escaped_breaks(r"good\n\nbad &amp; \"\"ugly\"\"") == 'good  bad & "ugly"'
