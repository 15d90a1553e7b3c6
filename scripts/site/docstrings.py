"""Docstrings, which are written in Markdown, for Sphinx, which reads reStructuredText."""

from __future__ import annotations

import re

CODE = re.compile(r"(`[^`]+`)")
LIST = re.compile(r"\s*(?:[-*]|\d+\.) ")
LINK = re.compile(r"\[([^\]]+)\]\((https?://[^)]+)\)")


def as_restructured_text(lines: list[str]) -> list[str]:
    """Return a docstring's lines with code spans, links, lists and special signs as Sphinx reads them.

    >>> as_restructured_text(["Iterations `steps`, |e_t|², *args:", "- one"])
    ['Iterations ``steps``, \\\\|e_t\\\\|², \\\\*args:', '', '- one']
    """
    found: list[str] = []
    in_list = False
    for line in lines:
        if line.lstrip().startswith(">>>"):
            if found and found[-1].strip() and not found[-1].lstrip().startswith((">>>", "...")):
                found += [""] if _is_prose(found) else []
            found.append(line)
            continue
        if not _is_prose([*found, line]):
            found.append(line)
            continue
        starts = LIST.match(line) is not None
        if starts and not in_list and found and found[-1].strip():
            found.append("")
        in_list = starts or (in_list and line.startswith("  ") and bool(line.strip()))
        found.append("".join(map(_piece, CODE.split(line))))
    return found


def _is_prose(lines: list[str]) -> bool:
    """Tell whether the last line is outside of a doctest, which ends at the first empty line."""
    for line in reversed(lines):
        if not line.strip():
            return True
        if line.lstrip().startswith(">>>"):
            return False
    return True


def _piece(text: str) -> str:
    if CODE.fullmatch(text):
        return f"`{text}`"
    text = LINK.sub(r"`\1 <\2>`__", text) if LINK.search(text) else re.sub(r"([*|\\])", r"\\\1", text)
    text = re.sub(r"^(\s*)\\\* ", r"\1* ", text)
    return re.sub(r"([^\W_])_(?!\w)", r"\1\\_", text)
