"""Noun phrases, pronouns and places, each in both languages."""

from __future__ import annotations

from dataclasses import dataclass

from scripts.small_corpora.lexicon import Adjective, Noun, Place
from scripts.small_corpora.morphology import CONTRACTIONS, Agreement, Case, adjective, determiner

ENGLISH_DETERMINERS = {
    "der": ("the", "the"),
    "ein": ("a", ""),
    "dieser": ("this", "these"),
    "kein": ("no", "no"),
    "mein": ("my", "my"),
    "dein": ("your", "your"),
    "sein": ("his", "his"),
    "unser": ("our", "our"),
    "": ("", ""),
}
"""Every determiner with its English, singular and plural."""


@dataclass(frozen=True)
class NounPhrase:
    """A noun with its determiner, perhaps an adjective, perhaps an owner in the genitive."""

    noun: Noun
    determiner: str = "der"
    adjective: Adjective | None = None
    plural: bool = False
    owner: NounPhrase | None = None

    person = 3

    @property
    def agreement(self) -> Agreement:
        """What its article and adjective agree with."""
        return "p" if self.plural else self.noun.gender

    @property
    def negatable(self) -> bool:
        """Whether `nicht` can deny a sentence with this object: one with `ein` or nothing takes `kein`."""
        return self.determiner not in ("ein", "kein", "")

    def german(self, case: Case) -> str:
        """The German words in this case.

        >>> from scripts.small_corpora.lexicon import ADJECTIVES, NOUNS
        >>> dog = next(noun for noun in NOUNS if noun.english == "dog")
        >>> NounPhrase(dog, "ein", ADJECTIVES[0]).german("acc")
        'einen alten Hund'
        """
        article = determiner(self.determiner, case, self.agreement)
        stem = self.adjective and adjective(self.adjective.stem, self.determiner, case, self.agreement)
        owner = self.owner and self.owner.german("gen")
        words = [article, stem, self.noun.form(case, plural=self.plural), owner]
        return " ".join(word for word in words if word)

    def english(self) -> str:
        """The English words; they do not change with case."""
        if self.owner is not None:
            owner = self.owner.english()
            first = owner + ("'" if owner.endswith("s") else "'s")
        else:
            first = ENGLISH_DETERMINERS[self.determiner][self.plural]
        noun = self.noun.english_plural if self.plural else self.noun.english
        rest = [self.adjective.english, noun] if self.adjective else [noun]
        if first == "a" and rest[0][0] in "aeiou":
            first = "an"
        return " ".join(word for word in [first, *rest] if word)

    english_object = english


@dataclass(frozen=True)
class Pronoun:
    """A personal pronoun: nominative, accusative, dative; English subject and object."""

    forms: tuple[str, str, str]
    subject: str
    object: str
    person: int
    plural: bool
    negatable = True
    owner = None

    def german(self, case: Case) -> str:
        """The German word in this case."""
        if case == "gen":
            raise ValueError("the genitive of pronouns is not part of this grammar")
        return self.forms[("nom", "acc", "dat").index(case)]

    def english(self) -> str:
        """The English word as a subject."""
        return self.subject

    def english_object(self) -> str:
        """The English word as an object."""
        return self.object


PRONOUNS: tuple[Pronoun, ...] = (
    Pronoun(("ich", "mich", "mir"), "I", "me", 1, False),
    Pronoun(("du", "dich", "dir"), "you", "you", 2, False),
    Pronoun(("er", "ihn", "ihm"), "he", "him", 3, False),
    Pronoun(("sie", "sie", "ihr"), "she", "her", 3, False),
    Pronoun(("wir", "uns", "uns"), "we", "us", 1, True),
    Pronoun(("ihr", "euch", "euch"), "you", "you", 2, True),
    Pronoun(("sie", "sie", "ihnen"), "they", "them", 3, True),
)
"""As objects, `sie` is her or them: nobody could tell, so objects use only those that are clear."""

CLEAR_OBJECTS = {"acc": (0, 1, 2, 4, 5), "dat": (0, 1, 2, 3, 4, 5, 6)}
"""Numbers of the pronouns whose form in that case has one English translation."""


@dataclass(frozen=True)
class PlacePhrase:
    """Where something happens, or where to."""

    place: Place
    direction: bool = False
    adjective: Adjective | None = None

    def _phrase(self) -> NounPhrase:
        return NounPhrase(self.place.noun, "der", self.adjective)

    def german(self) -> str:
        """The German words, preposition and article contracted where usual."""
        preposition, case = self.place.to[:2] if self.direction else (self.place.at[0], "dat")
        article, rest = self._phrase().german(case).split(" ", 1)
        contracted = CONTRACTIONS.get((preposition, article))
        return f"{contracted or f'{preposition} {article}'} {rest}"

    def english(self) -> str:
        """The English words."""
        preposition = self.place.to[2] if self.direction else self.place.at[1]
        return f"{preposition} {self._phrase().english()}"
