"""Lines of any text: none lost, none split, none moved, and none kept waiting for the next."""

from __future__ import annotations

import io
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

import algoformer.language.lines as lines_module
from algoformer.language.lines import LineReader, blocks

LINE = st.text(st.characters(exclude_characters="\n", exclude_categories=("Cs",)), max_size=30)


class Slow(io.BytesIO):
    """A stream that gives a few bytes at a time."""

    def __init__(self, raw: bytes, count: int) -> None:
        super().__init__(raw)
        self.count = count

    def read1(self, size: int | None = -1, /) -> bytes:
        """No more than a few, whatever is asked for."""
        return super().read1(self.count)


@given(
    st.lists(LINE, max_size=6),
    st.booleans(),
    st.sampled_from(["utf-8", "utf-8-sig", "utf-16", "utf-16-be", "utf-32", "utf-32-le"]),
    st.integers(1, 9),
)
def test_every_line_comes_back_whatever_is_in_it(
    lines: list[str], ended: bool, encoding: str, count: int
) -> None:
    text = "\n".join(lines) + ("\n" if ended and lines else "")
    if lines and not ended and not lines[-1]:
        lines = lines[:-1]  # nothing after the last line feed is no line
    found = list(LineReader(Slow(text.encode(encoding), count), encoding=encoding))
    if lines and lines[0].startswith("\ufeff"):
        return  # it cannot be told from a byte order mark
    assert found == [line.removesuffix("\r") for line in lines]


def test_a_line_feed_may_be_another_byte() -> None:
    raw = "eins%\nzwei\n".encode("cp037")
    assert b"\n" not in raw
    assert list(LineReader(io.BytesIO(raw), encoding="cp037")) == ["eins%", "zwei"]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig"])
def test_a_byte_order_mark_is_not_text(encoding: str) -> None:
    raw = b"\xef\xbb\xbfja\r\nnein\r\n"
    assert list(LineReader(io.BytesIO(raw), encoding=encoding)) == ["ja", "nein"]


@pytest.mark.parametrize(
    ("encoding", "bad", "byte", "place"),
    [
        ("utf-8", b"f\xfcnf\n", "0xfc", 2),
        ("utf-8-sig", b"f\xfcnf\n", "0xfc", 2),
        # half of a pair of surrogates, and the line feed
        ("utf-16", b"f\x00\x00\xd8\n\x00", "0x00", 2),
        ("utf-32-be", b"\x00\x00\x00f\x7f\x00\x00\x00\x00\x00\x00\n", "0x7f", 2),
    ],
)
def test_a_line_in_another_encoding_is_refused_by_its_number_after_those_before_it(
    encoding: str, bad: bytes, byte: str, place: int
) -> None:
    order = {"utf-16": "utf-16-le", "utf-8-sig": "utf-8"}.get(encoding, encoding)
    raw = "eins\nzwei\n".encode(encoding) + bad + "sechs\n".encode(order)
    lines = LineReader(io.BytesIO(raw), encoding=encoding, name="numbers.txt")
    assert [next(lines), next(lines)] == ["eins", "zwei"]
    words = f"line 3 of numbers.txt is not {encoding}: byte {byte} at place {place}; .* --errors replace"
    with pytest.raises(ValueError, match=words):
        next(lines)
    replaced = list(LineReader(io.BytesIO(raw), encoding=encoding, errors="replace"))
    assert len(replaced) == 4
    assert replaced[2].startswith("f\ufffd")
    assert replaced[3] == "sechs"


class Endless(io.BufferedIOBase):
    """A line feed, and then zeros without end."""

    def __init__(self) -> None:
        self.chunks = 0

    def read1(self, size: int) -> bytes:
        self.chunks += 1
        return b"one\n" + bytes(size - 4) if self.chunks == 1 else bytes(size)


def test_a_line_without_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines_module, "LONGEST_LINE", 10 * lines_module.CHUNK)
    stream = Endless()
    found = LineReader(stream, name="/dev/zero")
    assert next(found) == "one"
    with pytest.raises(ValueError, match="line 2 of /dev/zero has more than 655,360 characters; break it"):
        next(found)
    assert stream.chunks == 11
    long = "x" * 9 * lines_module.CHUNK
    assert list(LineReader(io.BytesIO(f"{long}\n{long}\n{long}".encode()))) == [long] * 3


def test_what_can_be_read_another_way_is() -> None:
    raw = "fünf\n".encode("latin-1")
    assert list(LineReader(io.BytesIO(raw), encoding="latin-1")) == ["fünf"]
    assert list(LineReader(io.BytesIO(raw), errors="replace")) == ["f\ufffdnf"]


@pytest.mark.parametrize(
    ("raw", "encoding", "words"),
    [
        ("ja\n".encode("utf-16"), "utf-8", r"line 1 .* give its --encoding \(utf-16"),
        (b"ja\n", "utf-99", "is not known"),
        (b"\xff\xfej", "utf-16", "is not utf-16"),
        (b"j\x00a\x00\n\x00", "utf-16", "BOM; try utf-16-le or utf-16-be"),
        (b"j", "utf-32", "is not utf-32"),
    ],
)
def test_wrong_encodings_are_refused_in_words(raw: bytes, encoding: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        list(LineReader(io.BytesIO(raw), encoding=encoding))


def test_blocks_of_a_file_grow_and_keep_the_order() -> None:
    names = [str(number) for number in range(100)]
    found = list(blocks(LineReader(io.BytesIO("\n".join(names).encode())), 32))
    # the last line has no end: only the end of the file tells that it is whole
    assert [len(block) for block in found] == [8, 16, 32, 32, 11, 1]
    assert [line for block in found for line in block] == names
    assert len(next(blocks(LineReader(io.BytesIO(b"a\nb\n")), 1))) == 1


def test_a_block_ends_where_a_pipe_is_silent() -> None:
    ours, theirs = os.pipe()
    with os.fdopen(ours, "rb") as stream:
        found = blocks(LineReader(stream), 32)
        os.write(theirs, b"one\n")
        assert next(found) == ["one"]
        os.write(theirs, b"two\nthree\nfo")
        assert next(found) == ["two", "three"]
        os.write(theirs, b"ur\nfive")
        assert next(found) == ["four"]
        os.close(theirs)
        assert list(found) == [["five"]]


def test_lines_before_one_that_cannot_be_read_are_a_block() -> None:
    found = blocks(LineReader(io.BytesIO(b"one\ntwo\n\xff\nfour\n")), 32)
    assert next(found) == ["one", "two"]
    with pytest.raises(ValueError, match="line 3"):
        next(found)
