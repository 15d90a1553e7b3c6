"""Files that commands write and never overwrite."""

from __future__ import annotations

import tempfile
from pathlib import Path


def refuse_existing(file: Path) -> None:
    """Refuse to write over something, or where nothing can be written, before hours of work and not after."""
    if file.is_dir():
        raise ValueError(f"{file} is a folder; name a file in it")
    if file.exists():
        raise ValueError(f"{file} exists already; choose another name")
    file.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryFile(dir=file.parent):
        pass
