"""A user's own text, line by line: none is lost, none changes its place, however long, empty or odd it is."""

from __future__ import annotations

import codecs
import io
import re
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import BinaryIO, Literal, TypeVar, cast

import numpy as np

from algoformer.language.corpora.clean import plain

Errors = Literal["strict", "replace"]
"""What to do with bytes that are no text: refuse them, or read U+FFFD in their place."""

Item = TypeVar("Item")

SIGN = re.compile(r"[^\w\s]|_")
"""What is neither a word nor between words."""


def read_lines(
    stream: io.BufferedIOBase, *, encoding: str = "utf-8", errors: Errors = "strict", name: str = "the input"
) -> Iterator[str]:
    """The lines of a stream without their ends (LF or CR LF), one by one; a byte order mark is left out.

    Only a line feed ends a line: other characters that some programs break lines at stay inside.

    >>> list(read_lines(io.BytesIO(b"ein Hund\\r\\n\\nzwei")))
    ['ein Hund', '', 'zwei']

    Raises:
        ValueError: there is no such encoding, or a line is not in it; all lines before it were given.
    """
    try:
        wide = "\n".encode(encoding) != b"\n"
    except LookupError:
        raise ValueError(f"encoding {encoding!r} is not known; try utf-8, latin-1 or cp1252") from None
    if wide:
        yield from _wide_lines(stream, encoding, errors, name)
        return
    for number, raw in enumerate(stream, start=1):
        if number == 1:
            if raw.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) and _is_utf8(encoding):
                raise ValueError(f"{name} begins like UTF-16, not {encoding}; give --encoding utf-16")
            if _is_utf8(encoding):
                raw = raw.removeprefix(codecs.BOM_UTF8)
        try:
            line = raw.decode(encoding, errors)
        except UnicodeDecodeError as error:
            raise ValueError(
                f"line {number} of {name} is not {encoding}: byte 0x{raw[error.start]:02x} at place "
                f"{error.start + 1}; give its --encoding (latin-1, cp1252, ...), or --errors replace"
            ) from None
        yield _without_end(line)


def batched(items: Iterable[Item], size: int) -> Iterator[list[Item]]:
    """The items in lists of `size`, the last one shorter; no more is read than is given."""
    source = iter(items)
    while block := list(islice(source, size)):
        yield block


def one_line(text: str) -> str:
    """A text in which nothing breaks a line: what is printed for a line is a line."""
    return " ".join(text.split())


def prepared(line: str, *, lowercase: bool, only_words: bool = False) -> str:
    """A line as the training text was: NFC, single spaces; lower case, without signs, if that was.

    >>> prepared("Coquerel's coua (Coua coquereli).", lowercase=True, only_words=True)
    'coquerel s coua coua coquereli'
    """
    text = plain(SIGN.sub(" ", line)) if only_words else plain(line)
    return text.lower() if lowercase else text


def by_length(lengths: Iterable[int], size: int) -> Iterator[list[int]]:
    """Places in groups of at most `size`, alike in length."""
    order = np.argsort(np.array(list(lengths), dtype=np.int64), kind="stable").tolist()
    return batched(order, size)


def _wide_lines(stream: io.BufferedIOBase, encoding: str, errors: Errors, name: str) -> Iterator[str]:
    # a line feed is more than one byte here, so that bytes cannot be cut at it
    text = io.TextIOWrapper(cast(BinaryIO, stream), encoding=encoding, errors=errors, newline="\n")
    try:
        for number, line in enumerate(text):
            yield _without_end(line.removeprefix("\ufeff") if number == 0 else line)
    except UnicodeError as error:
        raise ValueError(f"{name} is not {encoding}: {error}; give another --encoding") from None
    finally:
        text.detach()  # the stream is its owner's to close


def _without_end(line: str) -> str:
    return line.removesuffix("\n").removesuffix("\r")


def _is_utf8(encoding: str) -> bool:
    return codecs.lookup(encoding).name.startswith("utf-8")
