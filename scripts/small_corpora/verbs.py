"""The verbs of the small corpus."""

from __future__ import annotations

from scripts.small_corpora.lexicon import Verb

_ANYTHING = "partfo"


def _acc(
    german: str, participle: str, english: str, past: str, subjects: str, objects: str, **rest: str
) -> Verb:
    return Verb(german, participle, english, past, subjects, (("acc", objects),), **rest)  # type: ignore[arg-type]


def _dat(
    german: str, participle: str, english: str, past: str, subjects: str, objects: str, **rest: str
) -> Verb:
    return Verb(german, participle, english, past, subjects, (("dat", objects),), **rest)  # type: ignore[arg-type]


def _both(german: str, participle: str, english: str, past: str, **rest: str) -> Verb:
    return Verb(german, participle, english, past, "p", (("dat", "p"), ("acc", "rtf")), **rest)  # type: ignore[arg-type]


VERBS: tuple[Verb, ...] = (
    _acc("lesen", "gelesen", "read", "read", "p", "r", shifted="lies"),
    _acc("schreiben", "geschrieben", "write", "wrote", "p", "r"),
    _acc("kaufen", "gekauft", "buy", "bought", "p", "rtfd"),
    _acc("verkaufen", "verkauft", "sell", "sold", "p", "rtf"),
    _acc("sehen", "gesehen", "see", "saw", "pa", _ANYTHING, shifted="sieh"),
    _acc("suchen", "gesucht", "look for", "looked for", "pa", _ANYTHING),
    _acc("finden", "gefunden", "find", "found", "pa", _ANYTHING),
    _acc("vergessen", "vergessen", "forget", "forgot", "p", _ANYTHING, shifted="vergiss"),
    _acc("verlieren", "verloren", "lose", "lost", "p", "rt"),
    _acc("brauchen", "gebraucht", "need", "needed", "p", "rtfd"),
    _acc("essen", "gegessen", "eat", "ate", "pa", "f", shifted="iss"),
    _acc("trinken", "getrunken", "drink", "drank", "pa", "d"),
    _acc("tragen", "getragen", "carry", "carried", "p", "rt", shifted="träg"),
    _acc("waschen", "gewaschen", "wash", "washed", "p", "pato", shifted="wäsch"),
    _acc("lieben", "geliebt", "love", "loved", "p", "par"),
    _acc("besuchen", "besucht", "visit", "visited", "p", "p"),
    _acc("fragen", "gefragt", "ask", "asked", "p", "p"),
    _acc("bezahlen", "bezahlt", "pay for", "paid for", "p", "rtfd"),
    _acc("machen", "aufgemacht", "open", "opened", "p", "o", prefix="auf"),
    _acc("machen", "zugemacht", "close", "closed", "p", "o", prefix="zu"),
    _acc("rufen", "angerufen", "call", "called", "p", "p", prefix="an"),
    _acc("laden", "eingeladen", "invite", "invited", "p", "p", prefix="ein", shifted="läd"),
    _acc("holen", "abgeholt", "pick up", "picked up", "p", "prt", prefix="ab"),
    _acc("bringen", "mitgebracht", "bring along", "brought along", "p", "partf", prefix="mit"),
    _acc("werfen", "weggeworfen", "throw away", "threw away", "p", "rtf", prefix="weg", shifted="wirf"),
    _dat("helfen", "geholfen", "help", "helped", "p", "pa", shifted="hilf"),
    _dat("danken", "gedankt", "thank", "thanked", "p", "p"),
    _dat("antworten", "geantwortet", "answer", "answered", "p", "p"),
    _dat("folgen", "gefolgt", "follow", "followed", "pa", "pa", auxiliary="sein"),
    _dat("hören", "zugehört", "listen to", "listened to", "p", "p", prefix="zu"),
    _both("geben", "gegeben", "give", "gave", shifted="gib"),
    _both("zeigen", "gezeigt", "show", "showed"),
    _both("schicken", "geschickt", "send", "sent"),
    _both("leihen", "geliehen", "lend", "lent"),
    _both("bringen", "gebracht", "bring", "brought"),
    Verb("schlafen", "geschlafen", "sleep", "slept", "pa", shifted="schläf"),
    Verb("arbeiten", "gearbeitet", "work", "worked", "p"),
    Verb("warten", "gewartet", "wait", "waited", "pa"),
    Verb("lachen", "gelacht", "laugh", "laughed", "p"),
    Verb("tanzen", "getanzt", "dance", "danced", "p"),
    Verb("singen", "gesungen", "sing", "sang", "p"),
    Verb("gehen", "gegangen", "go", "went", "p", auxiliary="sein", goes=True),
    Verb("laufen", "gelaufen", "run", "ran", "pa", auxiliary="sein", shifted="läuf", goes=True),
    Verb("kommen", "angekommen", "arrive", "arrived", "p", prefix="an", auxiliary="sein"),
    Verb("stehen", "aufgestanden", "get up", "got up", "p", prefix="auf", auxiliary="sein"),
    Verb("schlafen", "eingeschlafen", "fall asleep", "fell asleep", "pa", prefix="ein",
         auxiliary="sein", shifted="schläf"),
)  # fmt: skip
"""Whole infinitives are all different: they name the verbs."""

MODALS: dict[str, tuple[str, str, str]] = {
    "können": ("can", "can", "cannot"),
    "müssen": ("must", "must", "{do} not have to"),
    "wollen": ("want to", "wants to", "{do} not want to"),
    "sollen": ("should", "should", "should not"),
    "dürfen": ("may", "may", "may not"),
}
"""English for all persons, for he and she, and negated; `{do}` agrees."""
