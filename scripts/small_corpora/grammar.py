"""Random phrases and clauses that make grammatical sense: who can do what to which things."""

from __future__ import annotations

from functools import cache

from scripts.small_corpora.clauses import Clause, Nominal
from scripts.small_corpora.dice import Dice
from scripts.small_corpora.lexicon import ADJECTIVES, NOUNS, PLACES, Adjective, Noun, Verb
from scripts.small_corpora.morphology import Case
from scripts.small_corpora.phrases import CLEAR_OBJECTS, PRONOUNS, NounPhrase, PlacePhrase
from scripts.small_corpora.verbs import MODALS, VERBS

_LATER = (("morgen", "tomorrow"), ("nächste Woche", "next week"), ("am Montag", "on Monday"))
_EARLIER = (("gestern", "yesterday"), ("letzte Woche", "last week"), ("am Montag", "on Monday"))
_NOW = (
    *(("heute", "today"), ("am Abend", "in the evening")),
    *(("am Montag", "on Monday"), ("im Winter", "in winter")),
)
TIMES = {"present": (*_NOW, ("jeden Tag", "every day")), "perfect": _EARLIER}
"""When, by tense; the future and the modal verbs look ahead."""

TENSES: dict[str, float] = {"present": 4, "perfect": 4, "future": 1, **dict.fromkeys(MODALS, 0.7)}

_SINGULAR = {"der": 9.0, "ein": 5, "dieser": 2, "mein": 1, "dein": 1, "sein": 1, "unser": 1}
_PLURAL = {"der": 5.0, "dieser": 2, "mein": 1, "dein": 1, "sein": 1, "unser": 1}
_MASS = {"": 5.0, "der": 3, "mein": 1, "sein": 1}
_MATTER = "d"


@cache
def _nouns(kinds: str) -> tuple[Noun, ...]:
    return tuple(noun for noun in NOUNS if noun.kind in kinds)


@cache
def _adjectives(kind: str) -> tuple[Adjective, ...]:
    return tuple(one for one in ADJECTIVES if kind in one.kinds)


def draw_phrase(
    dice: Dice, kinds: str, *, subject: bool = False, none: bool = False, noun: Noun | None = None
) -> NounPhrase:
    """A noun phrase of one of these kinds; `none` allows `kein`."""
    noun = noun or dice.choose(_nouns(kinds))
    plural = noun.kind != _MATTER and dice.chance(0.25)
    table = dict(_MASS if noun.kind == _MATTER else _PLURAL if plural else _SINGULAR)
    if plural and not subject:
        table[""] = 3
    if none:
        table["kein"] = 1.5
    word = dice.weighted(table)
    fitting = _adjectives(noun.kind)
    adjective = dice.choose(fitting) if fitting and dice.chance(0.4) else None
    owner = None
    if word == "der" and not subject and noun.kind in "rtoa" and dice.chance(0.15):
        person = dice.choose(_nouns("p"))
        owner = NounPhrase(person, dice.choose(("der", "mein")), plural=dice.chance(0.2))
    return NounPhrase(noun, word, adjective, plural, owner)


def draw_subject(dice: Dice, kinds: str) -> Nominal:
    """A noun phrase or, for what people do, perhaps a pronoun."""
    if "p" in kinds and dice.chance(0.35):
        return dice.choose(PRONOUNS)
    return draw_phrase(dice, kinds, subject=True)


def draw_object(dice: Dice, case: Case, kinds: str, subject: Nominal, *, verb: Verb, none: bool) -> Nominal:
    """An object that is not the subject itself."""
    if "p" in kinds and verb.takes_pronouns and dice.chance(0.2):
        clear = [PRONOUNS[number] for number in CLEAR_OBJECTS[case]]
        # "ich" and "mich" would be reflexive, and so might be "er" and "ihn"
        others = [one for one in clear if isinstance(subject, NounPhrase) or one.person != subject.person]
        return dice.choose(others)
    return draw_phrase(dice, kinds, none=none)


def draw_place(dice: Dice, *, direction: bool) -> PlacePhrase:
    """Where, or where to."""
    place = dice.choose(PLACES)
    return PlacePhrase(place, direction, dice.choose(_adjectives("l")) if dice.chance(0.2) else None)


def draw_clause(
    dice: Dice,
    *,
    verbs: tuple[Verb, ...] = VERBS,
    subject: Nominal | None = None,
    objects: tuple[tuple[Case, Nominal], ...] | None = None,
    tense: str | None = None,
    bare: bool = False,
) -> Clause:
    """A clause with a verb from `verbs`; `bare` leaves out time, place and negation."""
    verb = dice.choose(verbs)
    tense = tense or dice.weighted(TENSES)
    subject = subject or draw_subject(dice, verb.subjects)
    if objects is None:
        # with two objects or a modal verb, `kein` would be about something else in English
        none = not bare and len(verb.objects) == 1 and tense not in MODALS
        objects = tuple(
            (case, draw_object(dice, case, kinds, subject, verb=verb, none=none))
            for case, kinds in verb.objects
        )
    denied = any(isinstance(phrase, NounPhrase) and phrase.determiner == "kein" for _, phrase in objects)
    negated = not bare and not denied and all(one.negatable for _, one in objects) and dice.chance(0.15)
    place = None
    if verb.goes or (not bare and not negated and dice.chance(0.3)):
        place = draw_place(dice, direction=verb.goes)
    times = [time for time in TIMES.get(tense, _LATER) if not (negated and time[0] == "jeden Tag")]
    time = dice.choose(times) if not bare and dice.chance(0.35) else None
    return Clause(subject, verb, objects, place, time, tense, negated)


def combinations(clause: Clause) -> frozenset[tuple[str, str]]:
    """What is new about a clause: the verb with each noun that it acts on, or with who acts if on none."""
    acted = [one.noun.german for _, one in clause.objects if isinstance(one, NounPhrase)]
    if not clause.objects and isinstance(clause.subject, NounPhrase):
        acted = [clause.subject.noun.german]
    return frozenset((clause.verb.infinitive, noun) for noun in acted)
