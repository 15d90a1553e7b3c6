"""Random German sentences with their English: statements, questions, and clauses inside each other."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from scripts.small_corpora.clauses import Clause, Nominal, third_person
from scripts.small_corpora.dice import Dice
from scripts.small_corpora.grammar import combinations, draw_clause, draw_phrase, draw_subject
from scripts.small_corpora.lexicon import NOUNS, Verb
from scripts.small_corpora.morphology import determiner, present
from scripts.small_corpora.phrases import PRONOUNS, NounPhrase
from scripts.small_corpora.verbs import VERBS

Combinations = frozenset[tuple[str, str]]


@dataclass(frozen=True)
class Sentence:
    """A German sentence, its English, and the combinations of verb and noun in it."""

    german: str
    english: str
    combinations: Combinations


def _sentence(german: str, english: str, *clauses: Clause, end: str = ".") -> Sentence:
    together: Combinations = frozenset().union(*map(combinations, clauses))
    return Sentence(german[0].upper() + german[1:] + end, english[0].upper() + english[1:] + end, together)


def _statement(dice: Dice) -> Sentence:
    clause = draw_clause(dice)
    return _sentence(clause.german_main(), clause.english_main(), clause)


def _inverted(dice: Dice) -> Sentence:
    """Something else than the subject stands first, and the subject after the verb."""
    clause = draw_clause(dice)
    fronts = [
        *([clause.time] if clause.time else []),
        *([clause.place] if clause.place and not clause.place.direction and not clause.negated else []),
        *(phrase for case, phrase in clause.objects if _unmistakable(case, phrase)),
    ]
    front = dice.choose(fronts) if fronts else None
    return _sentence(clause.german_main(front=front), clause.english_main(), clause)


def _unmistakable(case: str, phrase: object) -> bool:
    # only here does the form alone say that it is not the subject
    if not isinstance(phrase, NounPhrase) or phrase.determiner in ("", "kein"):
        return False
    return case == "dat" or phrase.agreement == "m"


def _question(dice: Dice) -> Sentence:
    clause = replace(draw_clause(dice), negated=False)
    return _sentence(clause.german_question(), clause.english_question(), clause, end="?")


def _open_question(dice: Dice) -> Sentence:
    clause = replace(draw_clause(dice), negated=False)
    where = "wohin" if clause.verb.goes else "wo"
    german, english = dice.choose((("warum", "why"), ("wann", "when"), (where, "where")))
    if german == "wann":
        clause = replace(clause, time=None)
    if german == where:
        clause = replace(clause, place=None)
    return _sentence(
        clause.german_main(first=german), f"{english} {clause.english_question()}", clause, end="?"
    )


def _with_reason(dice: Dice) -> Sentence:
    """A main clause and a subordinate one, in either order."""
    german, english = dice.choose((("weil", "because"), ("obwohl", "although"), ("wenn", "when")))
    tense = "present" if german == "wenn" else None
    main, reason = draw_clause(dice, tense=tense), draw_clause(dice, tense=tense)
    inside = f"{german} {reason.german_final()}"
    if dice.chance(0.3):
        return _sentence(
            main.german_main(first=f"{inside},"),
            f"{english} {reason.english_main()}, {main.english_main()}",
            *(main, reason),
        )
    return _sentence(
        f"{main.german_main()}, {inside}",
        f"{main.english_main()} {english} {reason.english_main()}",
        *(main, reason),
    )


def _reported(dice: Dice) -> Sentence:
    speaker, said = draw_subject(dice, "p"), draw_clause(dice)
    verb, base = dice.choose(
        (("wissen", "know"), ("glauben", "believe"), ("sagen", "say"), ("hoffen", "hope"))
    )
    finite = present(verb, speaker.person, plural=speaker.plural)
    does = third_person(base) if speaker.person == 3 and not speaker.plural else base
    return _sentence(
        f"{speaker.german('nom')} {finite}, dass {said.german_final()}",
        f"{speaker.english()} {does} that {said.english_main()}",
        said,
    )


_FEELINGS = [verb for verb in VERBS if verb.english in ("need", "forget", "lose", "love")]
"""What nobody goes anywhere to do."""


def _purpose(dice: Dice) -> Sentence:
    going = draw_clause(dice, verbs=_verbs(lambda verb: verb.infinitive == "gehen"))
    doing = draw_clause(
        dice,
        verbs=_verbs(lambda verb: verb.subjects == "p" and bool(verb.objects) and verb not in _FEELINGS),
        subject=going.subject,
        tense="present",
        bare=True,
    )
    return _sentence(
        f"{going.german_main()}, um {doing.german_purpose()}",
        f"{going.english_main()} in order to {doing.english_predicate(base=True)}",
        *(going, doing),
    )


def _relative(dice: Dice) -> Sentence:
    """A main clause whose object does something, or has something done to it, in a relative clause."""
    head = draw_phrase(dice, "partf")
    head = NounPhrase(head.noun, head.determiner or "der", head.adjective, head.plural)
    main = draw_clause(
        dice,
        verbs=_verbs(lambda verb: verb.infinitive in ("sehen", "suchen", "finden", "vergessen")),
        objects=(("acc", head),),
        tense="present",
        bare=True,
    )
    acts = head.noun.kind in "pa" and dice.chance(0.6)
    if acts:
        inside = draw_clause(
            dice,
            verbs=_verbs(lambda verb: head.noun.kind in verb.subjects and not verb.goes),
            subject=head,
            bare=True,
        )
        english = f"{'who' if head.noun.kind == 'p' else 'that'} {inside.english_predicate()}"
    else:
        fitting = _verbs(
            lambda verb: (
                len(verb.objects) == 1
                and verb.objects[0][0] == "acc"
                and head.noun.kind in verb.objects[0][1]
            )
        )
        inside = draw_clause(
            dice, verbs=fitting, objects=(("acc", head),), subject=_clear_subject(dice, head), bare=True
        )
        english = f"that {inside.subject.english()} {inside.english_predicate(gap=head)}"
    pronoun = determiner("der", "nom" if acts else "acc", head.agreement)
    return _sentence(
        f"{main.german_main()}, {pronoun} {inside.german_final(gap=head)}",
        f"{main.english_main()} {english}",
        *(main, inside),
    )


def _clear_subject(dice: Dice, head: NounPhrase) -> Nominal:
    """Somebody who cannot be taken for the object: "die Frau, die das Kind sieht" would be read both ways."""
    if head.agreement == "m":
        return draw_subject(dice, "p")
    if dice.chance(0.5):
        return dice.choose([one for one in PRONOUNS if one.forms[0] != one.forms[1]])
    masculine = [noun for noun in NOUNS if noun.kind == "p" and noun.gender == "m"]
    phrase = draw_phrase(dice, "p", subject=True, noun=dice.choose(masculine))
    return replace(phrase, plural=False)


def _verbs(fits: Callable[[Verb], bool]) -> tuple[Verb, ...]:
    return tuple(verb for verb in VERBS if fits(verb))


PATTERNS: dict[Callable[[Dice], Sentence], float] = {
    _statement: 4,
    _inverted: 3,
    _question: 1.5,
    _open_question: 1.5,
    _with_reason: 3,
    _reported: 1.5,
    _purpose: 1,
    _relative: 2,
}
"""Kinds of sentences with their weights."""


def draw_sentence(dice: Dice) -> Sentence:
    """One sentence.

    >>> draw_sentence(Dice(4)).german
    'In der Küche habe ich mein rotes Hemd gesehen.'
    """
    return dice.weighted(PATTERNS)(dice)
