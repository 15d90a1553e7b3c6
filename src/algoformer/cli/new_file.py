"""Files that commands write and never overwrite."""

from __future__ import annotations

from pathlib import Path


def refuse_existing(file: Path) -> None:
    """Refuse to write over something; it is asked before hours of work, not after."""
    if file.is_dir():
        raise ValueError(f"{file} is a folder; name a file in it")
    if file.exists():
        raise ValueError(f"{file} exists already; choose another name")
