"""Files of text as others leave them: compressed or not, in odd encodings, with line breaks in quotes."""

from __future__ import annotations

import csv
import gzip
import hashlib
import io
import sys
import warnings
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path


class UnknownFileWarning(UserWarning):
    """A file of a known set is not the one whose checksum is known; numbers may not be comparable."""


@dataclass
class Reader:
    """Reads the files of one data folder, and keeps what it noticed.

    Attributes:
        folder: where the sets are.
        checksums: sha256 of the known files, by their path inside the folder.
        strict: refuse a known file with another content, where otherwise a warning says so.
        files: sha256 of what was read so far.
        notes: what was noticed so far, in sentences.
    """

    folder: Path
    checksums: dict[str, str] = field(default_factory=dict)
    strict: bool = False
    files: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def find(self, name: str) -> str | None:
        """The path inside the folder of the file, compressed or not; None if it is not there."""
        return next((path for path in (f"{name}.gz", name) if (self.folder / path).is_file()), None)

    def text(self, path: str) -> str:
        """The whole text of a file.

        Raises:
            ValueError: it cannot be read or is cut off, or it is not the known file and `strict` is set.
        """
        try:
            raw = (self.folder / path).read_bytes()
        except OSError as error:
            raise ValueError(f"{self.folder / path} cannot be read: {error.strerror or error}") from None
        self._check(path, hashlib.sha256(raw).hexdigest())
        if path.endswith(".gz"):
            try:
                raw = gzip.decompress(raw)
            except (EOFError, OSError, zlib.error) as error:
                raise ValueError(f"{self.folder / path} is cut off or not gzip: {error}") from None
        text, repaired = decode(raw)
        if repaired:
            self.notes.append(f"{path}: {repaired} line(s) were not UTF-8 and were read as Windows-1252")
        return text

    def lines(self, path: str) -> list[str]:
        """The lines of a file; only a line feed ends a line, for a text may hold any other separator."""
        lines = self.text(path).split("\n")
        if lines[-1] == "":
            lines.pop()
        return [line.removesuffix("\r") for line in lines]

    def rows(self, path: str) -> Iterator[tuple[int, list[str]]]:
        """The rows of a csv file with the number of the line each ends on; empty ones are left out."""
        text = self.text(path)
        before = csv.field_size_limit(min(sys.maxsize, 2**31 - 1))
        try:
            reader = csv.reader(io.StringIO(text, newline=""))
            for row in reader:
                if row:
                    yield reader.line_num, row
        except csv.Error as error:
            raise ValueError(f"{self.folder / path} is not csv: {error}") from None
        finally:
            csv.field_size_limit(before)

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


def decode(raw: bytes) -> tuple[str, int]:
    """Bytes as text: UTF-8, UTF-16 if it says so, and single lines that are neither as Windows-1252.

    Returns:
        The text, and how many lines had to be read as Windows-1252.

    >>> decode("schön\\nfür".encode("utf-8-sig"))
    ('schön\\nfür', 0)
    >>> decode("schön\\n".encode() + "für".encode("cp1252"))
    ('schön\\nfür', 1)
    """
    if raw.startswith((b"\xff\xfe", b"\xfe\xff")):
        return raw.decode("utf-16", errors="replace"), 0
    try:
        return raw.decode("utf-8-sig"), 0
    except UnicodeDecodeError:
        pass
    lines, repaired = [], 0
    for line in raw.removeprefix(b"\xef\xbb\xbf").split(b"\n"):
        try:
            lines.append(line.decode("utf-8"))
        except UnicodeDecodeError:
            # five bytes mean nothing in Windows-1252; Latin-1 has a place for every byte
            try:
                lines.append(line.decode("cp1252"))
            except UnicodeDecodeError:
                lines.append(line.decode("latin-1"))
            repaired += 1
    return "\n".join(lines), repaired
