"""Split German and English text into sentences; in doubt, do not split."""

from __future__ import annotations

import re

MARKS = re.compile(
    r"(?<![.!?…])(?P<marks>[.!?…]++)[\"'’”“»«›‹)\]}]*+ "
    r"(?=(?:[–—-] )?+[\"'‘“„»«›‹(\[{¿¡]*+(?P<following>\w{0,9}))"
)
"""A possible end: marks, quotes or brackets that close, a space, and the beginning of the next word.

It never goes back, so that a line of a million signs takes no longer than one of a million words.
"""

_TITLES = (
    *("dipl", "dr", "fr", "frl", "hl", "hr", "ing", "jr", "lt", "med", "messrs", "mr", "mrs", "ms", "phil"),
    *("prof", "sr", "st"),
)
_MONTHS = ("feb", "mär", "apr", "aug", "sept", "okt", "oct", "nov", "dez", "dec")
_OTHERS = (
    *("abb", "allg", "bes", "betr", "bzgl", "bzw", "ca", "co", "corp", "evtl", "exkl", "geb", "gegr", "gest"),
    *("ggf", "inc", "inkl", "jh", "jhd", "ltd", "mio", "mrd", "mt", "nr", "sog", "str", "tel", "urspr"),
    *("vgl", "vs", "zzgl"),
)
ABBREVIATIONS = frozenset((*_TITLES, *_MONTHS, *_OTHERS))
"""After these a full stop ends no sentence. Those that mostly end one (usw., etc.) and names are not here."""

BEFORE_NUMBERS = frozenset(("abs", "art", "bd", "fig", "kap", "no", "vol", "ziff"))
"""These are abbreviations before a number, otherwise words."""

BEGINNINGS = frozenset(("das", "der", "die", "du", "er", "es", "ich", "wir", "he", "it", "she", "they", "we"))
"""No ordinal number stands before these: the number is the end of a sentence. (Sie may be a polite you.)"""

LONGEST_ORDINAL = 3
"""Digits. A larger number, a year say, is an end like any other word."""


def sentences(text: str) -> list[str]:
    """Split a text with single spaces into sentences; joined by spaces, they are the text.

    A sentence ends with one or more of `. ! ? …`, perhaps quotes or brackets that close, and a space, unless

    - the next word begins with a small letter; in a text without any capital that says nothing, and only
      three dots end no sentence there;
    - the full stop belongs to an abbreviation: one of a list (Dr.), a single letter (z. B., J. S. Bach), or
      short pieces with full stops in between (z.B., U.S.);
    - it makes an ordinal of a number (am 3. Mai, Karl V.), which a pronoun or article cannot follow;
    - nothing but signs and numbers would be cut off (1. Anfang).

    >>> sentences("Dr. Müller kam am 3. Mai. „Wo ist er?“ fragte sie. Ja ... Nein!")
    ['Dr. Müller kam am 3. Mai.', '„Wo ist er?“ fragte sie.', 'Ja ...', 'Nein!']
    """
    cased = text != text.lower()
    found, begin, seen, has_letters = [], 0, 0, False
    for match in MARKS.finditer(text):
        has_letters = has_letters or any(map(str.isalpha, text[seen : match.start()]))
        seen = match.end()
        if has_letters and _is_end(match, cased=cased):
            found.append(text[begin : seen - 1])
            begin, has_letters = seen, False
    return [*found, text[begin:]] if text[begin:] else found


def _is_end(match: re.Match[str], *, cased: bool) -> bool:
    marks, following = match["marks"], match["following"]
    if cased and following[:1].islower():
        return False
    if marks != ".":
        return cased or not set(marks) <= {".", "…"}
    before = match.string[match.string.rfind(" ", 0, match.start()) + 1 : match.start()]
    word = re.split(r"[-/(\[\"'„»«“‚]", before)[-1]
    if _is_number(word):
        return cased and following.lower() in BEGINNINGS
    return not _is_abbreviation(word, before_number=following[:1].isdigit())


def _is_abbreviation(word: str, *, before_number: bool) -> bool:
    known = ABBREVIATIONS | BEFORE_NUMBERS if before_number else ABBREVIATIONS
    pieces = word.split(".")
    return (
        word.lower() in known
        or (len(word) == 1 and word.isalpha())
        or (len(pieces) > 1 and all(piece.isalpha() and len(piece) <= 2 for piece in pieces))
    )


def _is_number(word: str) -> bool:
    if re.fullmatch(r"[IVX]+", word):
        return True
    return bool(re.fullmatch(r"[\d.]+", word)) and len(word.split(".")[-1]) <= LONGEST_ORDINAL
