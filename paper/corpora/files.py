"""Read corpus files as they are distributed: compressed or not, in any encoding, as lines or as csv."""

from __future__ import annotations

import gzip
import hashlib
import io
import warnings
import zlib
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from algoformer.data.files import csv_rows, lines_of

MAX_RATIO = 100
"""A compressed file may unpack to this many times its size; text rarely exceeds ten times."""

ALWAYS_ALLOWED = 2**26
"""Bytes that a compressed file of any size may unpack to."""


class UnknownFileWarning(UserWarning):
    """The checksum of a file of a known corpus differs; scores on it may not be comparable."""


@dataclass
class Reader:
    """A reader for the files of one data folder, which records checksums and repairs.

    Attributes:
        folder: the data folder.
        checksums: sha256 of the known files, by their path inside the folder.
        strict: refuse a known file with another content instead of giving a warning.
        files: sha256 of the files read so far.
        notes: sentences about repairs and unknown files so far.
    """

    folder: Path
    checksums: dict[str, str] = field(default_factory=dict)
    strict: bool = False
    files: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def find(self, name: str) -> str | None:
        """Return the path of the file inside the folder, compressed or not; None if it does not exist."""
        return next((path for path in (f"{name}.gz", name) if (self.folder / path).is_file()), None)

    def text(self, path: str) -> str:
        """Return the whole text of a file.

        Raises:
            ValueError: it cannot be read, is cut off, unpacks to far too much, or is not the known file and
                `strict` is set.
        """
        try:
            raw = (self.folder / path).read_bytes()
        except OSError as error:
            raise ValueError(f"{self.folder / path} cannot be read: {error.strerror or error}") from None
        self._check(path, hashlib.sha256(raw).hexdigest())
        if path.endswith(".gz"):
            try:
                raw = decompressed(raw)
            except (EOFError, OSError, zlib.error) as error:
                raise ValueError(f"{self.folder / path} is cut off or not gzip: {error}") from None
            except ValueError as error:
                raise ValueError(f"{self.folder / path} {error}") from None
        text, repaired = decode(raw)
        if repaired:
            self.notes.append(f"{path}: {repaired} line(s) were not UTF-8 and were read as Windows-1252")
        return text

    def lines(self, path: str) -> list[str]:
        """Return the lines of a file. Only a line feed ends a line; text may contain other separators."""
        return lines_of(self.text(path))

    def rows(self, path: str) -> Iterator[tuple[int, list[str]]]:
        """Yield the rows of a csv file, each with the number of its last line; empty rows are skipped."""
        return csv_rows(self.text(path), str(self.folder / path))

    def _check(self, path: str, digest: str) -> None:
        self.files[path] = digest
        known = self.checksums.get(path)
        if known is None or known == digest:
            return
        message = (
            f"{self.folder / path} is not the file that this library knows "
            f"(sha256 {digest[:12]}…, known {known[:12]}…): scores on it may not be comparable"
        )
        if self.strict:
            raise ValueError(f"{message}; get the known file again, or load with strict=False")
        self.notes.append(message)
        warnings.warn(message, UnknownFileWarning, stacklevel=2)


def decompressed(raw: bytes) -> bytes:
    """Decompress gzip, up to `MAX_RATIO` times the size of the file.

    Raises:
        ValueError: the content is larger than that: text does not compress so well, so it is an attack.
    """
    limit = max(ALWAYS_ALLOWED, MAX_RATIO * len(raw))
    with gzip.GzipFile(fileobj=io.BytesIO(raw)) as file:
        content = file.read(limit + 1)
    if len(content) > limit:
        raise ValueError(
            f"unpacks to more than {MAX_RATIO} times its size; unpack it yourself if it is right"
        )
    return content


def decode(raw: bytes) -> tuple[str, int]:
    """Decode bytes as UTF-8, or UTF-16 with a byte order mark; other lines are read as Windows-1252.

    Returns:
        The text, and the number of lines that were read as Windows-1252.

    >>> decode("schön\\nfür".encode("utf-8-sig"))
    ('schön\\nfür', 0)
    >>> decode("schön\\n".encode() + "für".encode("cp1252"))
    ('schön\\nfür', 1)
    """
    if raw.startswith((b"\xff\xfe", b"\xfe\xff")):
        return raw.decode("utf-16", errors="replace"), 0
    with suppress(UnicodeDecodeError):
        return raw.decode("utf-8-sig"), 0
    lines, repaired = [], 0
    for line in raw.removeprefix(b"\xef\xbb\xbf").split(b"\n"):
        # five bytes mean nothing in Windows-1252; Latin-1 has a place for every byte
        for encoding in ("utf-8", "cp1252", "latin-1"):
            with suppress(UnicodeDecodeError):
                lines.append(line.decode(encoding))
                repaired += encoding != "utf-8"
                break
    return "\n".join(lines), repaired
