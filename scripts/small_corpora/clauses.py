"""Clauses: where German and English put their verbs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from scripts.small_corpora.lexicon import Verb
from scripts.small_corpora.morphology import Case, present
from scripts.small_corpora.phrases import NounPhrase, PlacePhrase, Pronoun
from scripts.small_corpora.verbs import MODALS

Nominal = NounPhrase | Pronoun


def third_person(base: str) -> str:
    """English: what he or she does.

    >>> third_person("carry"), third_person("wash"), third_person("look for")
    ('carries', 'washes', 'looks for')
    """
    word, space, rest = base.partition(" ")
    if word.endswith(("s", "sh", "ch", "x", "o")):
        word += "es"
    elif word.endswith("y") and word[-2] not in "aeiou":
        word = word[:-1] + "ies"
    else:
        word += "s"
    return word + space + rest


@dataclass(frozen=True)
class Clause:
    """Somebody does something, in one of the tenses or with a modal verb.

    Attributes:
        objects: each with its case.
        tense: present, perfect, future, or the infinitive of a modal verb.
        time: German and English.
    """

    subject: Nominal
    verb: Verb
    objects: tuple[tuple[Case, Nominal], ...] = ()
    place: PlacePhrase | None = None
    time: tuple[str, str] | None = None
    tense: str = "present"
    negated: bool = False

    @property
    def helper(self) -> str:
        """The verb that is conjugated in place of the main one; "" in the present."""
        auxiliaries = {"present": "", "perfect": self.verb.auxiliary, "future": "werden"}
        return auxiliaries.get(self.tense, self.tense)

    def finite(self) -> str:
        """The conjugated verb, without its prefix."""
        subject = self.subject
        shifted = "" if self.helper else self.verb.shifted
        return present(
            self.helper or self.verb.german, subject.person, plural=subject.plural, shifted=shifted
        )

    def bracket(self) -> str:
        """What stands at the end of a main clause: prefix, participle or infinitive."""
        if self.tense == "present":
            return self.verb.prefix
        return self.verb.participle if self.tense == "perfect" else self.verb.infinitive

    def middle(self, without: object = None) -> list[str]:
        """What stands between: the subject and pronouns, time, dative, accusative, nicht, place.

        Pronouns come first of all; among them the subject before the accusative before the dative.
        """
        objects = [(case, phrase) for case, phrase in self.objects if phrase is not without]
        order: list[Case] = ["dat", "acc"]
        subject = [] if self.subject is without else [self.subject.german("nom")]
        pronouns = [
            phrase.german(case)
            for case, phrase in sorted(objects, key=lambda item: item[0])
            if isinstance(phrase, Pronoun)
        ]
        words = [*subject, *pronouns] if isinstance(self.subject, Pronoun) else [*pronouns, *subject]
        words += [self.time[0]] if self.time is not None and self.time is not without else []
        words += [
            phrase.german(case)
            for wanted in order
            for case, phrase in objects
            if case == wanted and isinstance(phrase, NounPhrase)
        ]
        words += ["nicht"] if self.negated else []
        words += [self.place.german()] if self.place is not None and self.place is not without else []
        return words

    def german_main(self, first: str | None = None, front: object = None) -> str:
        """Verb second: `front`, a part of this clause, or the given words stand first.

        With neither, the subject does.
        """
        if first is None:
            part = self.subject if front is None else front
            first = self._words_of(part)
            rest = self.middle(without=part)
        else:
            rest = self.middle()
        return _joined(first, self.finite(), *rest, self.bracket())

    def _words_of(self, part: object) -> str:
        if part is self.subject:
            return self.subject.german("nom")
        if self.time is not None and part is self.time:
            return self.time[0]
        if self.place is not None and part is self.place:
            return self.place.german()
        for case, phrase in self.objects:
            if part is phrase:
                return phrase.german(case)
        raise ValueError(f"{part!r} is not a part of this clause")

    def german_question(self) -> str:
        """Verb first."""
        return _joined(self.finite(), *self.middle(), self.bracket())

    def german_final(self, gap: object = None) -> str:
        """Verb last, as after a conjunction; `gap` is the part that a relative pronoun stands for."""
        end = (
            self.bracket() + self.finite() if self.tense == "present" else f"{self.bracket()} {self.finite()}"
        )
        return _joined(*self.middle(without=gap), end)

    def german_purpose(self) -> str:
        """After `um`: no subject, and `zu` before the verb or inside it."""
        verb = f"{self.verb.prefix}zu{self.verb.german}" if self.verb.prefix else f"zu {self.verb.german}"
        return _joined(*self.middle(without=self.subject), verb)

    def english_main(self) -> str:
        """Subject, verb, objects, place, time."""
        return _joined(self.subject.english(), self._english_verb(), *self._english_rest())

    def english_question(self) -> str:
        """With `do` where there is no other helper."""
        helper, base = self._english_helper()
        return _joined(helper, self.subject.english(), base, *self._english_rest())

    def english_predicate(self, gap: object = None, *, base: bool = False) -> str:
        """The clause without its subject, and without `gap`."""
        verb = self.verb.english if base else self._english_verb()
        return _joined(verb, *self._english_rest(gap))

    @property
    def _singular(self) -> bool:
        return self.subject.person == 3 and not self.subject.plural

    def _english_verb(self) -> str:
        do = "does" if self._singular else "do"
        if self.tense in MODALS:
            plain, singular, negative = MODALS[self.tense]
            modal = negative.format(do=do) if self.negated else (singular if self._singular else plain)
            return f"{modal} {self.verb.english}"
        if self.tense == "future":
            return f"will {'not ' if self.negated else ''}{self.verb.english}"
        if self.negated:
            return f"{'did' if self.tense == 'perfect' else do} not {self.verb.english}"
        if self.tense == "perfect":
            return self.verb.past
        return third_person(self.verb.english) if self._singular else self.verb.english

    def _english_helper(self) -> tuple[str, str]:
        do = "does" if self._singular else "do"
        if self.tense == "wollen":
            return do, f"want to {self.verb.english}"
        if self.tense in MODALS:
            return MODALS[self.tense][0], self.verb.english
        helpers = {"future": "will", "perfect": "did", "present": do}
        return helpers[self.tense], self.verb.english

    def _english_rest(self, gap: object = None) -> list[str]:
        order: tuple[Literal["dat", "acc"], ...] = ("dat", "acc")
        words = [
            phrase.english_object()
            for wanted in order
            for case, phrase in self.objects
            if case == wanted and phrase is not gap
        ]
        words += [self.place.english()] if self.place is not None else []
        words += [self.time[1]] if self.time is not None else []
        return words


def _joined(*words: str) -> str:
    return " ".join(word for word in words if word)
