"""The installed version of `transformers`, checked on import."""

import re
from typing import Any

from algoformer.extras import require

OLDEST = (5, 10)
"""The oldest release of `transformers` that is supported, as major and minor version."""


def check_version(version: str) -> None:
    """Refuse a release of `transformers` that is too old."""
    found = tuple(int(number) for number in re.findall(r"\d+", version)[:2])
    if found < OLDEST:
        raise ImportError(
            f"algoformer.hf needs transformers {'.'.join(map(str, OLDEST))} or newer, found {version}: "
            "pip install --upgrade 'algoformer[hf]'"
        )


transformers: Any = require("transformers", extra="hf")
"""The package `transformers`."""

check_version(transformers.__version__)
