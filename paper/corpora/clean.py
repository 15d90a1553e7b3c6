"""Repair known defects of particular corpora."""

from __future__ import annotations

import html
import re

_REMNANT = re.compile(r" ?(?<![&\w])(#\d{2,4}|quot|amp|lt|gt|nbsp);")
_BREAK = re.compile(r"<br\s*/?>", re.IGNORECASE)
_SPACES = re.compile(r"[^\S\n]+")
_CLITIC = re.compile(r" ('(?:s|m|d|re|ve|ll)|n't)\b")


def entity_remnants(text: str) -> str:
    """AG News: entities whose ampersand became a space, and backslashes in place of line breaks.

    >>> entity_remnants("Iran #39;s #36;10\\\\bn plan &lt;b&gt;")
    "Iran's $10 bn plan <b>"
    """
    joined = _REMNANT.sub(_character, text.replace("\\", " "))
    return html.unescape(joined)


def _character(match: re.Match[str]) -> str:
    character = html.unescape(f"&{match[1]};")
    # an apostrophe belongs to the word before it; other signs keep their space
    space = " " if match[0].startswith(" ") and character != "'" else ""
    return space + character


def tag_breaks(text: str) -> str:
    """IMDB: `<br />` as a space.

    >>> tag_breaks("one.<br /><br />Two.")
    'one.  Two.'
    """
    return html.unescape(_BREAK.sub(" ", text))


def escaped_breaks(text: str) -> str:
    r"""Yelp and Yahoo as published: `\n` written as two characters, `\"` and `""` for a quotation mark.

    >>> escaped_breaks(r'so \"\"good\"\"\nreally')
    'so "good" really'
    """
    unquoted = re.sub(r'(?:\\"){1,2}', '"', text)
    return html.unescape(unquoted.replace("\\n", " "))


def without_moses(text: str) -> str:
    """English or German that the Moses tokenizer took apart, put together again; case cannot come back.

    Scores on tokenized and on plain text differ by some BLEU, because 13a counts the pieces of `don 't` as
    two words. Use this on hypotheses and references alike, or on neither.

    >>> without_moses("you know , i don 't like it ( much ) . it 's a jaguar @-@ like \\" cat \\" !")
    'you know, i don\\'t like it (much). it\\'s a jaguar-like "cat"!'
    """
    text = text.replace(" @-@ ", "-")
    text = re.sub(r"\b(\w+n) 't\b", r"\1't", text)
    text = _CLITIC.sub(r"\1", text)
    text = re.sub(r" ([,.;:!?%)\]…]+)", r"\1", text)
    text = re.sub(r"([(\[¿¡]) ", r"\1", text)
    text = _paired_quotes(text)
    return _SPACES.sub(" ", text).strip()


def _paired_quotes(text: str) -> str:
    pieces = text.split('"')
    if len(pieces) % 2 == 0:
        return text  # one is missing, so the inside cannot be told from the outside
    inside = [piece.strip() if number % 2 else piece for number, piece in enumerate(pieces)]
    return '"'.join(inside)
