"""Lines of a user's text, in order and none lost: read from a stream, and spelled for a model."""

from __future__ import annotations

import codecs
import io
import re
import select
from collections import deque
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Literal, TypeVar

import numpy as np

from algoformer.language.text import plain

Item = TypeVar("Item")

SIGN = re.compile(r"[^\w\s]|_")
"""A character that is neither part of a word nor white space."""

Errors = Literal["strict", "replace"]
"""The handling of bytes that cannot be decoded: raise, or replace by U+FFFD."""

CHUNK = 2**16
"""The number of bytes requested at a time; a pipe returns what it has."""

LONGEST_LINE = 2**26
"""The most characters of a line: a stream may have no line feed and no end."""

FIRST_BLOCK = 8
"""The number of lines in the first block; every further block is twice as long."""


def batched(items: Iterable[Item], size: int) -> Iterator[list[Item]]:
    """Yield the items in lists of `size`, the last one shorter; nothing is read ahead."""
    source = iter(items)
    while block := list(islice(source, size)):
        yield block


def one_line(text: str) -> str:
    """Return a text without line breaks, with white space collapsed."""
    return " ".join(text.split())


def prepared(line: str, *, lowercase: bool, only_words: bool = False) -> str:
    """Spell a line like the training text: NFC, single spaces, optionally lower case and words only.

    >>> prepared("Coquerel's coua (Coua coquereli).", lowercase=True, only_words=True)
    'coquerel s coua coua coquereli'
    """
    text = plain(line)  # first, because a letter and its combining mark are two characters before NFC
    text = one_line(SIGN.sub(" ", text)) if only_words else text
    return text.lower() if lowercase else text


def by_length(lengths: Iterable[int], size: int) -> Iterator[list[int]]:
    """Yield indices in groups of at most `size`, of similar length."""
    order = np.argsort(np.array(list(lengths), dtype=np.int64), kind="stable").tolist()
    return batched(order, size)


class LineReader(Iterator[str]):
    """An iterator over the lines of a stream, without line ends (LF or CR LF) and byte order mark.

    Only a line feed ends a line: other characters that some programs break lines at stay inside.

    >>> list(LineReader(io.BytesIO(b"ein Hund\\r\\n\\nzwei")))
    ['ein Hund', '', 'zwei']

    Args:
        stream: the bytes; the caller closes it.
        encoding: the encoding of the text.
        errors: the handling of bytes that cannot be decoded.
        name: the name of the stream in messages.

    Raises:
        ValueError: there is no such encoding, or a line is not in it or has more than `LONGEST_LINE`
            characters; all lines before it were given.
    """

    def __init__(
        self,
        stream: io.BufferedIOBase,
        *,
        encoding: str = "utf-8",
        errors: Errors = "strict",
        name: str = "the input",
    ) -> None:
        try:
            known = codecs.lookup(encoding).name
        except LookupError:
            raise ValueError(f"encoding {encoding!r} is not known; try utf-8, latin-1 or cp1252") from None
        self.encoding, self.name = encoding, name
        self._decoder = codecs.getincrementaldecoder("utf-8-sig" if known == "utf-8" else known)(errors)
        self._stream, self._ended, self._number = stream, False, 0
        self._lines: deque[str] = deque()
        self._parts: list[str] = []  # the beginning of a line that has not ended yet
        self._length = 0  # of all parts
        self._failure: ValueError | None = None

    def __next__(self) -> str:
        while not self._lines and not self._ended:
            self._read()
        if self._lines:
            return self._lines.popleft().removesuffix("\r")
        if self._failure is not None:
            raise self._failure
        raise StopIteration

    def at_hand(self) -> bool:
        """Return whether the next line can be read without waiting."""
        while not self._lines and not self._ended and _has_something(self._stream):
            self._read()
        return bool(self._lines)

    def _read(self) -> None:
        """Read what the stream has, which may be less than a line."""
        chunk = self._stream.read1(CHUNK)
        self._ended = not chunk
        try:
            self._split(self._decoder.decode(chunk, final=self._ended))
        except UnicodeDecodeError as error:
            held = len(self._decoder.getstate()[0])  # bytes of the chunk before
            self._split(self._decoder.decode(error.object[held : error.start]))
            self._not_encoded(f"byte 0x{error.object[error.start]:02x} at place {self._length + 1}")
        except UnicodeError as error:  # no byte order mark
            self._not_encoded(f"{error}; try {self.encoding}-le or {self.encoding}-be")
        if self._length > LONGEST_LINE:
            self._fail(f"has more than {LONGEST_LINE:,} characters; break it into several lines")
        if self._ended and self._failure is None and any(self._parts):
            self._split("\n")

    def _split(self, text: str) -> None:
        for number, part in enumerate(text.split("\n")):
            if number:
                self._lines.append("".join(self._parts))
                self._number += 1
                self._parts.clear()
                self._length = 0
            self._parts.append(part)
            self._length += len(part)

    def _not_encoded(self, reason: str) -> None:
        self._fail(
            f"is not {self.encoding}: {reason}; give its --encoding (utf-16, latin-1, cp1252, ...), or "
            "--errors replace"
        )

    def _fail(self, reason: str) -> None:
        self._ended = True
        self._failure = ValueError(f"line {self._number + 1} of {self.name} {reason}")


def blocks(lines: LineReader, most: int) -> Iterator[list[str]]:
    """Yield lines in blocks: those available without waiting, a few at first, never more than `most`.

    An interactive user gets each answer at once, and the first answers of a long file come soon.

    Raises:
        ValueError: as for `LineReader`, after all lines before it were given.
    """
    size = min(FIRST_BLOCK, most)
    block: list[str] = []
    for line in lines:
        block.append(line)
        if len(block) == size or not lines.at_hand():
            yield block
            block, size = [], min(2 * size, most)


def _has_something(stream: io.BufferedIOBase) -> bool:
    try:
        return bool(select.select([stream], [], [], 0)[0])
    except (OSError, ValueError):
        # the stream cannot be polled: answer a few lines rather than let a user wait
        return False
