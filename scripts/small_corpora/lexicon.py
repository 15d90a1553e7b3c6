"""The words of the small corpus, with what their forms cannot be computed from."""

from __future__ import annotations

from dataclasses import dataclass

from scripts.small_corpora.morphology import Agreement, Case, plural_noun


@dataclass(frozen=True)
class Noun:
    """A noun in both languages; `oblique` is the form of weak nouns outside the nominative singular."""

    kind: str
    gender: Agreement
    german: str
    plural: str
    genitive: str
    english: str
    english_plural: str
    oblique: str = ""

    def form(self, case: Case, *, plural: bool) -> str:
        """The German form."""
        if plural:
            return plural_noun(self.plural, case)
        if self.oblique and case != "nom":
            return self.oblique
        return self.genitive if case == "gen" else self.german


@dataclass(frozen=True)
class Adjective:
    """An adjective: its stem before endings, its English, and the kinds of nouns it goes with."""

    stem: str
    english: str
    kinds: str


@dataclass(frozen=True)
class Verb:
    """A verb in both languages.

    Attributes:
        german: the infinitive without its prefix.
        prefix: what comes off in a main clause; "" for most.
        shifted: the stem of du and er where its vowel changes.
        participle: the second participle.
        auxiliary: haben or sein.
        english: the base form; `past` is its past.
        subjects: kinds of nouns that do it.
        objects: for each object its case and the kinds of nouns.
        goes: it may have a direction, as in "into the garden".
    """

    german: str
    participle: str
    english: str
    past: str
    subjects: str
    objects: tuple[tuple[Case, str], ...] = ()
    prefix: str = ""
    shifted: str = ""
    auxiliary: str = "haben"
    goes: bool = False

    @property
    def infinitive(self) -> str:
        """The whole infinitive: the name of the verb."""
        return self.prefix + self.german

    @property
    def takes_pronouns(self) -> bool:
        """Whether a pronoun may follow the whole English verb: not in "pick up him"."""
        return " " not in self.english or self.english.endswith((" for", " to"))


@dataclass(frozen=True)
class Place:
    """A noun of place with its prepositions: where (always dative), and where to."""

    noun: Noun
    at: tuple[str, str]
    to: tuple[str, Case, str]


def _nouns(kind: str, table: str) -> list[Noun]:
    rows = [row.split() for row in table.strip().splitlines()]
    return [Noun(kind, *row) for row in rows]  # type: ignore[arg-type]


# kinds: p person, a animal, r to read, f food, d drink, t thing, o to open, l place
_TABLES = {
    "p": """
m Mann Männer Mannes man men
f Frau Frauen Frau woman women
n Kind Kinder Kindes child children
m Lehrer Lehrer Lehrers teacher teachers
f Ärztin Ärztinnen Ärztin doctor doctors
m Nachbar Nachbarn Nachbarn neighbour neighbours Nachbarn
m Junge Jungen Jungen boy boys Jungen
n Mädchen Mädchen Mädchens girl girls
m Student Studenten Studenten student students Studenten
f Großmutter Großmütter Großmutter grandmother grandmothers
m Bruder Brüder Bruders brother brothers
f Schwester Schwestern Schwester sister sisters
m Koch Köche Kochs cook cooks""",
    "a": """
m Hund Hunde Hundes dog dogs
f Katze Katzen Katze cat cats
n Pferd Pferde Pferdes horse horses
m Vogel Vögel Vogels bird birds
m Bär Bären Bären bear bears Bären
f Maus Mäuse Maus mouse mice""",
    "r": """
n Buch Bücher Buches book books
m Brief Briefe Briefes letter letters
f Zeitung Zeitungen Zeitung newspaper newspapers
n Gedicht Gedichte Gedichts poem poems
m Roman Romane Romans novel novels""",
    "f": """
m Apfel Äpfel Apfels apple apples
m Kuchen Kuchen Kuchens cake cakes
f Suppe Suppen Suppe soup soups
n Ei Eier Eies egg eggs
f Banane Bananen Banane banana bananas""",
    "d": """
m Tee - Tees tea -
n Wasser - Wassers water -
f Milch - Milch milk -
m Saft - Saftes juice -""",
    "t": """
m Schlüssel Schlüssel Schlüssels key keys
f Tasche Taschen Tasche bag bags
n Fahrrad Fahrräder Fahrrads bicycle bicycles
m Stuhl Stühle Stuhls chair chairs
f Lampe Lampen Lampe lamp lamps
n Bild Bilder Bildes picture pictures
m Hut Hüte Hutes hat hats
n Hemd Hemden Hemdes shirt shirts""",
    "o": """
f Tür Türen Tür door doors
n Fenster Fenster Fensters window windows
m Schrank Schränke Schranks cupboard cupboards""",
}
NOUNS: tuple[Noun, ...] = tuple(noun for kind, table in _TABLES.items() for noun in _nouns(kind, table))

_IN: tuple[tuple[str, str], tuple[str, Case, str]] = (("in", "in"), ("in", "acc", "into"))
_AT: tuple[tuple[str, str], tuple[str, Case, str]] = (("an", "at"), ("zu", "dat", "to"))
_ON: tuple[tuple[str, str], tuple[str, Case, str]] = (("auf", "on"), ("auf", "acc", "onto"))
_INSIDE = """
m Garten Gärten Gartens garden gardens
f Küche Küchen Küche kitchen kitchens
n Haus Häuser Hauses house houses
m Wald Wälder Waldes forest forests
f Stadt Städte Stadt city cities
n Zimmer Zimmer Zimmers room rooms"""
_BESIDE = """
m Bahnhof Bahnhöfe Bahnhofs station stations
m See Seen Sees lake lakes"""
_ABOVE = """
f Brücke Brücken Brücke bridge bridges
m Berg Berge Berges mountain mountains
n Dach Dächer Daches roof roofs"""
PLACES: tuple[Place, ...] = tuple(
    Place(noun, *ways)
    for table, ways in ((_INSIDE, _IN), (_BESIDE, _AT), (_ABOVE, _ON))
    for noun in _nouns("l", table)
)

ADJECTIVES: tuple[Adjective, ...] = tuple(
    Adjective(*row.split())
    for row in """alt old partol
neu new rtol
klein small pafrtol
groß big pafrtol
rot red fto
schön beautiful partol
jung young pa
müd tired pa
freundlich friendly pa
krank sick pa
hungrig hungry pa
teur expensive rfdt
billig cheap rfdt
dunkl dark l
schwer heavy rto
kalt cold df
heiß hot df
frisch fresh df
süß sweet df
lang long r
kurz short r
interessant interesting r""".splitlines()
)
