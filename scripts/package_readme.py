"""The description of the package: README.md without links and pictures that only work in the repository.

Hatchling runs this when it builds a wheel (`tool.hatch.metadata.hooks.custom` in pyproject.toml).
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

FENCE = re.compile(r"(^```.*?^```$)", flags=re.MULTILINE | re.DOTALL)
PICTURE = re.compile(r"^!\[[^\]]*\]\((?!https?:)[^)]+\)\n\n?", flags=re.MULTILINE)
LINK = re.compile(r"(?<!!)\[([^\]]+)\]\((?!https?:|mailto:|#)[^)]+\)")


def for_index(text: str) -> str:
    """Return Markdown with the words of relative links, and without relative pictures; code is left alone.

    >>> for_index("See [the site](https://x.org) and [Depth](docs/depth.md).")
    'See [the site](https://x.org) and Depth.'
    """
    pieces = FENCE.split(text)
    pieces[::2] = [LINK.sub(r"\1", PICTURE.sub("", piece)) for piece in pieces[::2]]
    return "".join(pieces)


class PackageReadme(MetadataHookInterface):
    """Sets the field `readme` of the package."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Add the description to the metadata."""
        text = Path(self.root, "README.md").read_text(encoding="utf-8")
        metadata["readme"] = {"content-type": "text/markdown", "text": for_index(text)}
