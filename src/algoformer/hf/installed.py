"""The installed version of `transformers`, checked once."""

import re
from types import ModuleType

from algoformer.extras import require

OLDEST = (5, 9)
"""The oldest release of `transformers` that is supported, as major and minor version."""


def transformers() -> ModuleType:
    """Import and return `transformers`.

    Raises:
        ModuleNotFoundError: `transformers` is not installed; the message holds the command that installs it.
        ImportError: the installed release is too old; the message names both versions.
    """
    package = require("transformers", extra="hf")
    found = tuple(int(number) for number in re.findall(r"\d+", package.__version__)[:2])
    if found < OLDEST:
        wanted = ".".join(map(str, OLDEST))
        raise ImportError(
            f"algoformer.hf needs transformers {wanted} or newer, found {package.__version__}: "
            "pip install --upgrade 'algoformer[hf]'"
        )
    return package
