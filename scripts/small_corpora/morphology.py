"""German inflection: articles, adjectives, nouns and verbs change with case, gender, number and person."""

from __future__ import annotations

from typing import Literal

Case = Literal["nom", "acc", "dat", "gen"]
Agreement = Literal["m", "f", "n", "p"]
"""What articles and adjectives agree with: one of three genders, or plural."""

_FULL: dict[Case, dict[Agreement, str]] = {
    "nom": {"m": "er", "f": "e", "n": "es", "p": "e"},
    "acc": {"m": "en", "f": "e", "n": "es", "p": "e"},
    "dat": {"m": "em", "f": "er", "n": "em", "p": "en"},
    "gen": {"m": "es", "f": "er", "n": "es", "p": "er"},
}
"""The endings that show case, gender and number."""

_DEFINITE: dict[Case, dict[Agreement, str]] = {
    "nom": {"m": "der", "f": "die", "n": "das", "p": "die"},
    "acc": {"m": "den", "f": "die", "n": "das", "p": "die"},
    "dat": {"m": "dem", "f": "der", "n": "dem", "p": "den"},
    "gen": {"m": "des", "f": "der", "n": "des", "p": "der"},
}

CONTRACTIONS = {
    ("in", "dem"): "im",
    ("in", "das"): "ins",
    ("an", "dem"): "am",
    ("zu", "dem"): "zum",
    ("zu", "der"): "zur",
}
"""Prepositions that swallow the article after them."""


def determiner(word: str, case: Case, agreement: Agreement) -> str:
    """The form of `der`, `dieser` or a word like `ein` (kein, mein, unser, ...); "" stays "".

    >>> determiner("der", "dat", "f"), determiner("ein", "acc", "m"), determiner("ein", "acc", "n")
    ('der', 'einen', 'ein')
    """
    if word == "der":
        return _DEFINITE[case][agreement]
    if word == "dieser":
        return "dies" + _FULL[case][agreement]
    return word + _FULL[case][agreement] if word and _shows_case(word, case, agreement) else word


def adjective(stem: str, word: str, case: Case, agreement: Agreement) -> str:
    """The adjective after that determiner.

    One word of a noun phrase shows the case. If the determiner does, the adjective is weak: -e in the
    nominative singular and where the accusative looks the same, -en elsewhere. If not, the adjective does.

    >>> adjective("groß", "der", "nom", "m"), adjective("groß", "ein", "nom", "m")
    ('große', 'großer')
    """
    if _shows_case(word, case, agreement):
        plain = agreement != "p" and (case == "nom" or (case == "acc" and agreement != "m"))
        return stem + ("e" if plain else "en")
    if case == "gen" and agreement in ("m", "n"):
        return stem + "en"  # here the noun itself shows it: kalten Wassers
    return stem + _FULL[case][agreement]


def _shows_case(word: str, case: Case, agreement: Agreement) -> bool:
    if word in ("der", "dieser"):
        return True
    bare = (case, agreement) in {("nom", "m"), ("nom", "n"), ("acc", "n")}
    return bool(word) and not bare


def plural_noun(plural: str, case: Case) -> str:
    """A plural, with the -n that the dative adds where it can.

    >>> plural_noun("Kinder", "dat"), plural_noun("Frauen", "dat"), plural_noun("Parks", "dat")
    ('Kindern', 'Frauen', 'Parks')
    """
    return plural + "n" if case == "dat" and plural[-1] not in "ns" else plural


IRREGULAR: dict[str, tuple[str, str, str, str, str, str]] = {
    "haben": ("habe", "hast", "hat", "haben", "habt", "haben"),
    "sein": ("bin", "bist", "ist", "sind", "seid", "sind"),
    "werden": ("werde", "wirst", "wird", "werden", "werdet", "werden"),
    "können": ("kann", "kannst", "kann", "können", "könnt", "können"),
    "müssen": ("muss", "musst", "muss", "müssen", "müsst", "müssen"),
    "wollen": ("will", "willst", "will", "wollen", "wollt", "wollen"),
    "sollen": ("soll", "sollst", "soll", "sollen", "sollt", "sollen"),
    "dürfen": ("darf", "darfst", "darf", "dürfen", "dürft", "dürfen"),
    "wissen": ("weiß", "weißt", "weiß", "wissen", "wisst", "wissen"),
}
"""ich, du, er, wir, ihr, sie of the verbs that no rule covers."""


def present(infinitive: str, person: int, *, plural: bool, shifted: str = "") -> str:
    """The present tense; `shifted` is the stem of du and er where its vowel changes.

    >>> present("arbeiten", 3, plural=False), present("lesen", 2, plural=False, shifted="lies")
    ('arbeitet', 'liest')
    """
    if infinitive in IRREGULAR:
        return IRREGULAR[infinitive][person - 1 + 3 * plural]
    stem = infinitive.removesuffix("en")
    soft = "e" if stem[-1] in "td" else ""
    if plural:
        return stem + soft + "t" if person == 2 else infinitive
    if person == 1:
        return stem + "e"
    stem, soft = (shifted, "") if shifted else (stem, soft)
    if person == 3:
        return stem + soft + "t"
    return stem + soft + ("t" if stem[-1] in "sßzx" else "st")
