import sys
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from algoformer.common.terminal import printable, short


@given(st.text())
def test_printable_text_is_one_line_without_control_characters(text: str) -> None:
    shown = printable(text)
    assert len(shown.splitlines()) <= 1
    assert not {unicodedata.category(character) for character in shown} & {"Cc", "Cs", "Zl", "Zp"}


@given(st.text(alphabet=st.characters(categories=("L", "N", "P", "S"))))
def test_ordinary_letters_signs_and_emoji_are_left_alone(text: str) -> None:
    assert printable(text) == text


@pytest.mark.parametrize(
    "character", ["\x1b", "\x07", "\r", "\n", "\t", "\x9b", "\x7f", "\u2028", "\u202e", "\ud800"]
)
def test_what_a_terminal_would_obey_is_escaped(character: str) -> None:
    shown = printable(f"a{character}b")
    assert character not in shown
    assert shown.startswith("a\\")
    assert shown.endswith("b")


@pytest.mark.parametrize(
    "value",
    [
        "A" * 200_000,
        ["x" * 1000] * 1000,
        {"k": "v" * 10_000},
        10**400,
        -(10**6000),
        [10**6000],
        "\x1b" * 500,
        None,
        1.5,
    ],
    ids=lambda value: type(value).__name__,
)
@pytest.mark.parametrize("limit", [20, 80])
def test_a_short_value_stays_below_its_limit(value: object, limit: int) -> None:
    shown = short(value, limit)
    assert len(shown) <= limit
    assert shown == printable(shown)


def test_a_value_that_fits_is_shown_whole() -> None:
    assert short({"dim": 3, "name": "linear"}) == "{'dim': 3, 'name': 'linear'}"


def test_an_integer_longer_than_python_prints_is_described() -> None:
    assert short(10 ** (sys.get_int_max_str_digits() + 1000)) == "an integer of about 5300 digits"
