"""Files that are whole or not there: nothing is ever half written under its final name."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any


def write_atomically(path: Path, write: Callable[[Path], object]) -> None:
    """Let `write` fill a temporary file beside `path`, then put it in place in one step.

    If anything goes wrong (a full disk, a kill), what was at `path` before is still there.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        write(temporary)
        with temporary.open("rb") as handle:
            os.fsync(handle.fileno())
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
    _sync_folder(path.parent)


def write_text(path: Path, text: str) -> None:
    """Write a text file atomically."""
    write_atomically(path, lambda temporary: temporary.write_text(text, encoding="utf-8"))


def write_json(path: Path, data: Any) -> None:
    """Write JSON atomically, for people to read."""
    write_text(path, json.dumps(data, indent=2, ensure_ascii=False, allow_nan=True) + "\n")


def read_json(path: Path) -> Any:
    """Read a JSON file; what cannot be read raises ValueError with the file's name."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ValueError(f"{path} does not exist") from None
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is not readable as JSON: {error}") from None


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
