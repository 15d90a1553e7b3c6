"""Read lines of text from a stream of bytes, without waiting for more than the next line."""

from __future__ import annotations

import codecs
import io
import select
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

Errors = Literal["strict", "replace"]
"""The handling of bytes that cannot be decoded: raise, or replace by U+FFFD."""

CHUNK = 2**16
"""The number of bytes requested at a time; a pipe returns what it has."""

FIRST_BLOCK = 8
"""The number of lines in the first block; every further block is twice as long."""

ORDERS = {
    "utf-16": {"le": codecs.BOM_UTF16_LE, "be": codecs.BOM_UTF16_BE},
    "utf-32": {"le": codecs.BOM_UTF32_LE, "be": codecs.BOM_UTF32_BE},
}
"""Encodings with several bytes per character, and the byte order marks that tell their order."""


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
        ValueError: there is no such encoding, or a line is not in it; all lines before it were given.
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
            "\n".encode(encoding)
        except LookupError:
            raise ValueError(f"encoding {encoding!r} is not known; try utf-8, latin-1 or cp1252") from None
        self.encoding, self.errors, self.name = encoding, errors, name
        self._stream, self._ended, self._number = stream, False, 0
        self._codec: _Codec | None = None
        self._lines: deque[bytes] = deque()
        self._rest = bytearray()
        self._searched = 0

    def __next__(self) -> str:
        while not self._lines and not self._ended:
            self._read()
        if not self._lines:
            raise StopIteration
        self._number += 1
        return self._decoded(self._lines.popleft())

    def at_hand(self) -> bool:
        """Return whether the next line can be read without waiting."""
        while not self._lines and not self._ended and _has_something(self._stream):
            self._read()
        return bool(self._lines)

    def _read(self) -> None:
        """Read what the stream has, which may be less than a line."""
        chunk = self._stream.read1(CHUNK)
        self._rest += chunk
        self._ended = not chunk
        if self._codec is None and (len(self._rest) >= _width(self.encoding) or (self._ended and self._rest)):
            self._codec = _codec(self.encoding, bytes(self._rest), self.name)
        if self._codec is None:
            return
        self._split(self._codec)
        is_first = not self._number and not self._lines
        # a mark alone is no line
        if self._ended and self._rest and not (is_first and self._rest == self._codec.mark):
            self._lines.append(bytes(self._rest))

    def _split(self, codec: _Codec) -> None:
        begin = 0
        while (place := self._rest.find(codec.line_feed, self._searched)) >= 0:
            if place % codec.width:
                # the end of one character and the beginning of the next
                self._searched = place + 1
                continue
            self._searched = place + len(codec.line_feed)
            self._lines.append(bytes(self._rest[begin : self._searched]))
            begin = self._searched
        del self._rest[:begin]
        # a line feed may still lack its last bytes
        self._searched = max(0, len(self._rest) - len(codec.line_feed) + 1)

    def _decoded(self, raw: bytes) -> str:
        assert self._codec is not None
        if self._number == 1:
            raw = raw.removeprefix(self._codec.mark)
        try:
            line = raw.decode(self._codec.name, self.errors)
        except UnicodeDecodeError as error:
            where = f"byte 0x{raw[error.start]:02x} at place {error.start + 1}"
            raise ValueError(
                f"line {self._number} of {self.name} is not {self.encoding}: {where}; give its --encoding "
                "(latin-1, cp1252, ...), or --errors replace"
            ) from None
        return line.removesuffix("\n").removesuffix("\r")


def blocks(lines: LineReader, most: int) -> Iterator[list[str]]:
    """Yield lines in blocks: those available without waiting, a few at first, never more than `most`.

    An interactive user gets each answer at once, and the first answers of a long file come soon.

    Raises:
        ValueError: as for `LineReader`, after all lines before it were given.
    """
    size = min(FIRST_BLOCK, most)
    block: list[str] = []
    try:
        for line in lines:
            block.append(line)
            if len(block) == size or not lines.at_hand():
                yield block
                block, size = [], min(2 * size, most)
    except ValueError:
        if block:
            yield block
        raise


@dataclass(frozen=True)
class _Codec:
    """The codec of single lines: its name, its byte order mark, and its bytes per character."""

    name: str
    mark: bytes
    width: int

    @property
    def line_feed(self) -> bytes:
        return "\n".encode(self.name)


def _width(encoding: str) -> int:
    """Return the number of bytes that all characters are a multiple of."""
    return {"utf-16": 2, "utf-32": 4}.get(codecs.lookup(encoding).name[:6], 1)


def _codec(encoding: str, start: bytes, name: str) -> _Codec:
    known = codecs.lookup(encoding).name
    if known in ("utf-8", "utf-8-sig"):
        if start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            raise ValueError(f"{name} begins like UTF-16, not {encoding}; give --encoding utf-16")
        return _Codec("utf-8", codecs.BOM_UTF8, 1)
    marks = ORDERS.get(known[:6])
    if marks is None:
        return _Codec(known, b"", 1)
    order = known[7:] or next((order for order, mark in marks.items() if start.startswith(mark)), None)
    if order is None:
        raise ValueError(
            f"{name} does not begin with the byte order mark of {encoding}; give another --encoding, or with "
            f"its order: {known}-le or {known}-be"
        )
    return _Codec(f"{known[:6]}-{order}", marks[order], _width(encoding))


def _has_something(stream: io.BufferedIOBase) -> bool:
    try:
        return bool(select.select([stream], [], [], 0)[0])
    except (OSError, ValueError):
        # the stream cannot be polled: answer a few lines rather than let a user wait
        return False
