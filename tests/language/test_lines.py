"""Lines of any text: none lost, none split, none moved."""

from __future__ import annotations

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from algoformer.language.lines import by_length, one_line, read_lines

LINE = st.text(st.characters(exclude_characters="\n", exclude_categories=("Cs",)), max_size=30)


@given(st.lists(LINE, max_size=6), st.booleans(), st.sampled_from(["utf-8", "utf-16", "utf-32"]))
def test_every_line_comes_back_whatever_is_in_it(lines: list[str], ended: bool, encoding: str) -> None:
    text = "\n".join(lines) + ("\n" if ended and lines else "")
    if lines and not ended and not lines[-1]:
        lines = lines[:-1]  # nothing after the last line feed is no line
    found = list(read_lines(io.BytesIO(text.encode(encoding)), encoding=encoding))
    if lines and lines[0].startswith("\ufeff"):
        return  # it cannot be told from a byte order mark
    assert found == [line.removesuffix("\r") for line in lines]


def test_a_byte_order_mark_is_not_text() -> None:
    assert list(read_lines(io.BytesIO(b"\xef\xbb\xbfja\r\nnein\r\n"))) == ["ja", "nein"]


def test_a_line_in_another_encoding_is_refused_by_its_number_after_those_before_it() -> None:
    lines = read_lines(io.BytesIO("eins\nzwei\nfünf\nsechs".encode("latin-1")), name="numbers.txt")
    assert [next(lines), next(lines)] == ["eins", "zwei"]
    with pytest.raises(ValueError, match=r"line 3 of numbers.txt is not utf-8: byte 0xfc at place 2"):
        next(lines)


def test_what_can_be_read_another_way_is() -> None:
    raw = "fünf\n".encode("latin-1")
    assert list(read_lines(io.BytesIO(raw), encoding="latin-1")) == ["fünf"]
    assert list(read_lines(io.BytesIO(raw), errors="replace")) == ["f\ufffdnf"]


@pytest.mark.parametrize(
    ("raw", "encoding", "words"),
    [
        ("ja\n".encode("utf-16"), "utf-8", "give --encoding utf-16"),
        (b"ja\n", "utf-99", "is not known"),
        (b"\xff\xfej", "utf-16", "is not utf-16"),
    ],
)
def test_wrong_encodings_are_refused_in_words(raw: bytes, encoding: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        list(read_lines(io.BytesIO(raw), encoding=encoding))


@given(st.text())
def test_what_is_printed_for_a_line_is_one_line(text: str) -> None:
    assert len(one_line(text).splitlines()) <= 1


@given(st.lists(st.integers(0, 50), max_size=20), st.integers(1, 7))
def test_groups_alike_in_length_hold_everything_once(lengths: list[int], size: int) -> None:
    groups = list(by_length(lengths, size))
    assert sorted(place for group in groups for place in group) == list(range(len(lengths)))
    assert all(len(group) <= size for group in groups)
    ordered = [lengths[place] for group in groups for place in group]
    assert ordered == sorted(ordered)
