"""The location of the data folder."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Literal

VARIABLE = "ALGOFORMER_DATA"
"""The environment variable that names the data folder."""

HUB = "hub"
"""A value in place of a folder: download from the Hugging Face hub."""


def data_place(data: Path | str | None = None) -> Path | Literal["hub"]:
    """Return the folder with the corpora, or `"hub"`.

    Args:
        data: a folder, or "hub"; None to ask the environment variable ALGOFORMER_DATA.

    Raises:
        ValueError: neither says where, or the folder does not exist.
    """
    asked = data if data is not None else os.environ.get(VARIABLE) or None
    origin = "--data-folder" if data is not None else VARIABLE
    if asked is None:
        raise ValueError(
            f"no data folder: give one with --data-folder FOLDER or {VARIABLE}, or --data-folder hub to "
            "download (needs the package datasets); small_de_en and small_topics need no data"
        )
    if str(asked) == HUB:
        return "hub"
    folder = Path(asked).expanduser()
    if not folder.is_dir():
        raise ValueError(f"{origin} names {folder}, which is not a folder")
    return folder
