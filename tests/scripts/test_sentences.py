"""Word order and translation: sentences that were written by hand, and what holds for all of them."""

from collections.abc import Iterator
from itertools import pairwise

import pytest

from scripts.small_corpora.clauses import Clause, third_person
from scripts.small_corpora.dice import Dice
from scripts.small_corpora.grammar import combinations, draw_clause
from scripts.small_corpora.lexicon import ADJECTIVES, NOUNS, PLACES, Noun, Verb
from scripts.small_corpora.phrases import PRONOUNS, NounPhrase, PlacePhrase
from scripts.small_corpora.sentences import PATTERNS, draw_sentence
from scripts.small_corpora.verbs import VERBS

OLD = next(one for one in ADJECTIVES if one.english == "old")
ICH, DU, ER, SIE, WIR, IHR, SIE_ALLE = PRONOUNS


def noun(german: str) -> Noun:
    return next(one for one in NOUNS if one.german == german)


def verb(infinitive: str) -> Verb:
    return next(one for one in VERBS if one.infinitive == infinitive)


def place(german: str, *, direction: bool = False) -> PlacePhrase:
    return PlacePhrase(next(one for one in PLACES if one.noun.german == german), direction)


def drawn() -> Iterator[Clause]:
    dice = Dice(7)
    return (draw_clause(dice) for _ in range(300))


WOMAN, DOG, KEY = (
    NounPhrase(noun("Frau")),
    NounPhrase(noun("Hund"), "ein", OLD),
    NounPhrase(noun("Schlüssel")),
)
TIMELY = ("heute", "today")


def test_a_separable_verb_parts_in_a_main_clause_and_joins_in_a_subordinate_one() -> None:
    clause = Clause(WOMAN, verb("abholen"), (("acc", KEY),), time=TIMELY)
    assert clause.german_main() == "die Frau holt heute den Schlüssel ab"
    assert clause.german_main(front=clause.time) == "heute holt die Frau den Schlüssel ab"
    assert clause.german_main(front=KEY) == "den Schlüssel holt die Frau heute ab"
    assert clause.german_question() == "holt die Frau heute den Schlüssel ab"
    assert clause.german_final() == "die Frau heute den Schlüssel abholt"
    assert clause.german_purpose() == "heute den Schlüssel abzuholen"
    assert clause.english_main() == "the woman picks up the key today"
    assert clause.english_question() == "does the woman pick up the key today"


@pytest.mark.parametrize(
    ("tense", "main", "final", "english"),
    [
        (
            "perfect",
            "er ist in den Garten gegangen",
            "er in den Garten gegangen ist",
            "he went into the garden",
        ),
        (
            "future",
            "er wird in den Garten gehen",
            "er in den Garten gehen wird",
            "he will go into the garden",
        ),
        (
            "müssen",
            "er muss in den Garten gehen",
            "er in den Garten gehen muss",
            "he must go into the garden",
        ),
        (
            "wollen",
            "er will in den Garten gehen",
            "er in den Garten gehen will",
            "he wants to go into the garden",
        ),
    ],
)
def test_helpers_and_brackets(tense: str, main: str, final: str, english: str) -> None:
    clause = Clause(ER, verb("gehen"), place=place("Garten", direction=True), tense=tense)
    assert (clause.german_main(), clause.german_final(), clause.english_main()) == (main, final, english)


def test_the_same_preposition_takes_dative_for_where_and_accusative_for_where_to() -> None:
    assert (place("Küche").german(), place("Küche").english()) == ("in der Küche", "in the kitchen")
    to = place("Küche", direction=True)
    assert (to.german(), to.english()) == ("in die Küche", "into the kitchen")
    contracted = [
        place(name, direction=way).german() for name in ("Haus", "Bahnhof") for way in (False, True)
    ]
    assert contracted == ["im Haus", "ins Haus", "am Bahnhof", "zum Bahnhof"]


def test_two_objects_stand_dative_first_and_pronouns_before_everything() -> None:
    give = Clause(WOMAN, verb("geben"), (("dat", NounPhrase(noun("Kind"))), ("acc", DOG)), tense="perfect")
    assert give.german_main() == "die Frau hat dem Kind einen alten Hund gegeben"
    assert give.english_main() == "the woman gave the child an old dog"
    ask = Clause(WOMAN, verb("fragen"), (("acc", ER),), time=TIMELY, negated=True)
    assert ask.german_final() == "ihn die Frau heute nicht fragt"
    assert ask.english_main() == "the woman does not ask him today"


def test_negation_of_must_is_not_must_not() -> None:
    clause = Clause(SIE, verb("schlafen"), tense="müssen", negated=True)
    assert (clause.german_main(), clause.english_main()) == (
        "sie muss nicht schlafen",
        "she does not have to sleep",
    )


def test_weak_nouns_and_genitives() -> None:
    boy = NounPhrase(noun("Junge"))
    assert [boy.german(case) for case in ("nom", "acc", "dat", "gen")] == [
        *("der Junge", "den Jungen", "dem Jungen", "des Jungen")
    ]
    owned = NounPhrase(noun("Bild"), "der", OLD, owner=NounPhrase(noun("Kind"), plural=True))
    assert (owned.german("acc"), owned.english()) == (
        "das alte Bild der Kinder",
        "the children's old picture",
    )
    sisters = NounPhrase(noun("Hut"), owner=NounPhrase(noun("Schwester"), "mein", plural=True))
    assert (sisters.german("dat"), sisters.english()) == ("dem Hut meiner Schwestern", "my sisters' hat")


def test_mass_nouns_take_strong_adjectives() -> None:
    cold = next(one for one in ADJECTIVES if one.english == "cold")
    phrases = [NounPhrase(noun(name), "", cold).german("acc") for name in ("Tee", "Wasser", "Milch")]
    assert phrases == ["kalten Tee", "kaltes Wasser", "kalte Milch"]


def test_the_verb_is_second_last_or_first() -> None:
    for clause in drawn():
        finite, bracket = clause.finite(), clause.bracket()
        subject = clause.subject.german("nom")
        main, final = clause.german_main(), clause.german_final()
        assert main.startswith(f"{subject} {finite}")
        assert main.endswith(bracket)
        assert clause.german_question().startswith(finite)
        assert final.endswith(bracket + finite if clause.tense == "present" else f"{bracket} {finite}")
        if clause.time:
            assert clause.german_main(front=clause.time).startswith(f"{clause.time[0]} {finite} ")


def test_main_and_subordinate_clauses_have_the_same_letters() -> None:
    for clause in drawn():
        main, final = clause.german_main(), clause.german_final()
        assert sorted(main.replace(" ", "")) == sorted(final.replace(" ", ""))


def test_objects_carry_the_case_of_their_verb() -> None:
    marked = {
        "acc": ("den ", "einen ", "diesen ", "keinen "),
        "dat": ("dem ", "einem ", "diesem ", "keinem "),
    }
    for clause in drawn():
        for case, phrase in clause.objects:
            masculine = isinstance(phrase, NounPhrase) and phrase.agreement == "m" and not phrase.owner
            if masculine and phrase.determiner in ("der", "ein", "dieser", "kein"):
                assert phrase.german(case).startswith(marked[case])
                assert phrase.german(case) in clause.german_main()


def test_english_agrees_with_its_subject() -> None:
    for clause in drawn():
        if clause.tense == "present" and not clause.negated:
            singular = clause.subject.person == 3 and not clause.subject.plural
            wanted = third_person(clause.verb.english) if singular else clause.verb.english
            assert clause.english_main().startswith(f"{clause.subject.english()} {wanted}")


@pytest.mark.parametrize(
    ("base", "wanted"),
    [("go", "goes"), ("wash", "washes"), ("carry", "carries"), ("buy", "buys"), ("look for", "looks for")],
)
def test_third_person_of_english_verbs(base: str, wanted: str) -> None:
    assert third_person(base) == wanted


def test_the_indefinite_article_follows_the_next_sound() -> None:
    dice = Dice(3)
    words = " ".join(draw_sentence(dice).english.lower().strip(".?") for _ in range(400)).split()
    for article, following in pairwise(words):
        if article in ("a", "an"):
            assert (article == "an") == (following[0] in "aeiou"), f"{article} {following}"


def test_every_pattern_makes_whole_sentences() -> None:
    for pattern in PATTERNS:
        dice = Dice(11)
        for _ in range(60):
            sentence = pattern(dice)
            for text in (sentence.german, sentence.english):
                assert text[0].isupper()
                assert text[-1] in ".?"
                assert "  " not in text
                assert " ," not in text


def test_a_clause_names_what_is_new_about_it() -> None:
    assert combinations(Clause(WOMAN, verb("sehen"), (("acc", DOG),))) == {("sehen", "Hund")}
    assert combinations(Clause(WOMAN, verb("schlafen"))) == {("schlafen", "Frau")}
    assert combinations(Clause(ER, verb("schlafen"))) == frozenset()


def test_the_names_of_verbs_are_unique() -> None:
    names = [one.infinitive for one in VERBS]
    assert len(set(names)) == len(names)
