"""Files that are whole or not there: nothing is ever half written under its final name."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

LARGEST_JSON = 2**28
"""Bytes of the largest JSON file that is read; no file of this library comes near."""


def write_atomically(path: Path, write: Callable[[Path], object]) -> None:
    """Let `write` fill a temporary file beside `path`, then put it in place in one step.

    If anything goes wrong (a full disk, a kill), what was at `path` before is still there.

    Raises:
        OSError: the file could not be written; the message names it.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write(temporary)
        with temporary.open("r+b") as handle:
            os.fsync(handle.fileno())
        os.chmod(temporary, _ordinary_mode())
        os.replace(temporary, path)
    except OSError as error:
        raise _named(error, path) from error
    finally:
        _remove(temporary)
    _sync_folder(path.parent)


def _ordinary_mode() -> int:
    # what open() would give a new file; some writers make theirs readable by nobody else
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask


def remove_leftovers(folder: Path) -> None:
    """Remove the temporary files that a killed process left in `folder`."""
    for path in folder.glob(".*.part"):
        if path.name.split(".")[-2].isdigit():
            _remove(path)


def write_text(path: Path, text: str) -> None:
    """Write a text file atomically."""
    write_atomically(path, lambda temporary: temporary.write_text(text, encoding="utf-8"))


def append_line(path: Path, line: str) -> None:
    """Add a line to a text file; a kill or a full disk can cut it off, but leaves what was there before.

    Raises:
        OSError: the line could not be written; the message names the file.
    """
    try:
        with path.open("a", encoding="utf-8") as file:
            file.write(line + "\n")
    except OSError as error:
        raise _named(error, path) from error


def write_json(path: Path, data: Any) -> None:
    """Write JSON atomically, for people to read."""
    write_text(path, json.dumps(data, indent=2, ensure_ascii=False, allow_nan=True) + "\n")


def read_json(path: Path) -> Any:
    """Read a JSON file; what cannot be read raises ValueError with the file's name."""
    try:
        with path.open("rb") as file:
            content = file.read(LARGEST_JSON + 1)  # a device such as /dev/zero has no end
    except FileNotFoundError:
        raise ValueError(f"{path} does not exist") from None
    if len(content) > LARGEST_JSON:
        raise ValueError(f"{path} is not readable as JSON: it is larger than {LARGEST_JSON} bytes")
    try:
        return json.loads(content.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is not readable as JSON: {error}") from None


def check_readable(path: Path) -> None:
    """Refuse a file that may not be read; safetensors would say that there is none.

    Raises:
        ValueError: it is there, but cannot be opened; the message says why.
    """
    if path.is_file():
        try:
            path.open("rb").close()
        except OSError as error:
            raise ValueError(f"{path} cannot be read: {error.strerror or error}") from None


def _named(error: OSError, path: Path) -> OSError:
    number, reason = error.errno, error.strerror or str(error)
    # a writer that is not Python's says it in words only, and names its own temporary file in them
    foreign = re.search(r"\(os error (\d+)\)", reason)
    if foreign is not None:
        number = int(foreign[1])
        reason = os.strerror(number)
    return OSError(number, f"{path} could not be written ({reason}); what was there before is intact")


def _remove(path: Path) -> None:
    # tidying up must not hide the error that made it necessary
    try:
        path.unlink(missing_ok=True)
    except OSError:
        return


def _sync_folder(folder: Path) -> None:
    # the new name must reach the disk too; some file systems cannot do that, and lose nothing by it
    try:
        handle = os.open(folder, os.O_RDONLY)
    except OSError:
        return
    try:
        os.fsync(handle)
    except OSError:
        return
    finally:
        os.close(handle)
