"""Make text fit to print: no control characters, no unbounded messages, lines of a terminal's width."""

from __future__ import annotations

import reprlib
import textwrap
import unicodedata

_INVISIBLE = frozenset({"Cc", "Cs", "Zl", "Zp"})
"""Unicode categories that are escaped: control characters, lone surrogates, line and paragraph separators."""

_BIDI = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
"""Characters that reorder the text around them."""

_LONGEST_INTEGER = 400
"""Bits above which an integer is described by its number of digits: Python refuses to print a huge one."""


def printable(text: str) -> str:
    r"""Replace control characters by their escapes, so that text cannot move the cursor or break a line.

    Letters of every script, accents and emoji stay as they are. Tabs and line feeds are escaped too: text
    that was one value stays on one line.

    >>> printable("Zähne\x1b]0;title\x07\nzwei")
    'Zähne\\x1b]0;title\\x07\\nzwei'
    """
    return text if text.isprintable() else "".join(map(_escaped, text))


def short(value: object, limit: int = 80) -> str:
    """Return a representation of `value` on one line, with at most `limit` characters, for messages.

    The middle of a long value is left out. The time this takes does not depend on the size of a container.

    >>> short("a" * 1000, limit=20)
    "'aaaaaaa...aaaaaaaa'"
    >>> short(10**500)
    'an integer of about 500 digits'
    """
    text = printable(_Short(limit).repr(value))
    if len(text) <= limit:
        return text
    kept = limit - 3
    return f"{text[: kept // 2]}...{text[len(text) - (kept - kept // 2) :]}"


def _escaped(character: str) -> str:
    if unicodedata.category(character) in _INVISIBLE or character in _BIDI:
        return character.encode("unicode_escape").decode("ascii")
    return character


class _Short(reprlib.Repr):
    """A bounded `repr`: a few entries of a container, and never all digits of a huge integer."""

    def __init__(self, limit: int) -> None:
        super().__init__()
        self.maxstring = self.maxother = self.maxlong = max(limit, 8)

    def repr_int(self, value: int, level: int) -> str:
        bits = value.bit_length()
        if bits > _LONGEST_INTEGER:
            return f"an integer of about {round(bits * 0.30103)} digits"
        return repr(value)

    def repr_str(self, value: str, level: int) -> str:
        # cut before quoting: quoting a string of 10 MB would take as much again
        if len(value) > 2 * self.maxstring:
            value = value[: self.maxstring] + value[-self.maxstring :]
        return super().repr_str(value, level)


def filled(text: str) -> str:
    """Return a paragraph in lines that fit a terminal; further lines are indented."""
    return textwrap.fill(text, 80, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)
