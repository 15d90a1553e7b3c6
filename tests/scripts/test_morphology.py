"""Inflection against the tables that school books print, cell by cell."""

import pytest

from scripts.small_corpora.morphology import adjective, determiner, plural_noun, present

CASES = ("nom", "acc", "dat", "gen")

# rows: nominative, accusative, dative, genitive; columns: masculine, feminine, neuter, plural
ARTICLES = {
    "der": ["der die das die", "den die das die", "dem der dem den", "des der des der"],
    "dieser": [
        "dieser diese dieses diese",
        "diesen diese dieses diese",
        "diesem dieser diesem diesen",
        "dieses dieser dieses dieser",
    ],
    "kein": [
        "kein keine kein keine",
        "keinen keine kein keine",
        "keinem keiner keinem keinen",
        "keines keiner keines keiner",
    ],
    "unser": [
        "unser unsere unser unsere",
        "unseren unsere unser unsere",
        "unserem unserer unserem unseren",
        "unseres unserer unseres unserer",
    ],
    "": [" ".join(["-"] * 4)] * 4,
}
WEAK = [
    "alte alte alte alten",
    "alten alte alte alten",
    "alten alten alten alten",
    "alten alten alten alten",
]
MIXED = [
    "alter alte altes alten",
    "alten alte altes alten",
    "alten alten alten alten",
    "alten alten alten alten",
]
STRONG = [
    "alter alte altes alte",
    "alten alte altes alte",
    "altem alter altem alten",
    "alten alter alten alter",
]
ADJECTIVES = {"der": WEAK, "dieser": WEAK, "kein": MIXED, "unser": MIXED, "": STRONG}


@pytest.mark.parametrize("word", ARTICLES)
def test_determiners_are_those_of_the_table(word: str) -> None:
    for case, row in zip(CASES, ARTICLES[word], strict=True):
        forms = [determiner(word, case, agreement) or "-" for agreement in ("m", "f", "n", "p")]
        assert forms == row.split()


@pytest.mark.parametrize("word", ADJECTIVES)
def test_adjectives_are_those_of_the_table(word: str) -> None:
    for case, row in zip(CASES, ADJECTIVES[word], strict=True):
        assert [adjective("alt", word, case, agreement) for agreement in ("m", "f", "n", "p")] == row.split()


@pytest.mark.parametrize(
    ("infinitive", "shifted", "forms"),
    [
        ("kaufen", "", "kaufe kaufst kauft kaufen kauft kaufen"),
        ("arbeiten", "", "arbeite arbeitest arbeitet arbeiten arbeitet arbeiten"),
        ("finden", "", "finde findest findet finden findet finden"),
        ("tanzen", "", "tanze tanzt tanzt tanzen tanzt tanzen"),
        ("lesen", "lies", "lese liest liest lesen lest lesen"),
        ("essen", "iss", "esse isst isst essen esst essen"),
        ("laden", "läd", "lade lädst lädt laden ladet laden"),
        ("waschen", "wäsch", "wasche wäschst wäscht waschen wascht waschen"),
        ("geben", "gib", "gebe gibst gibt geben gebt geben"),
        ("wissen", "", "weiß weißt weiß wissen wisst wissen"),
        ("sein", "", "bin bist ist sind seid sind"),
    ],
)
def test_verbs_are_conjugated_as_in_the_dictionary(infinitive: str, shifted: str, forms: str) -> None:
    found = [
        present(infinitive, person, plural=plural, shifted=shifted)
        for plural in (False, True)
        for person in (1, 2, 3)
    ]
    assert found == forms.split()


@pytest.mark.parametrize(
    ("plural", "dative"), [("Hunde", "Hunden"), ("Kinder", "Kindern"), ("Bären", "Bären"), ("Parks", "Parks")]
)
def test_only_the_dative_plural_adds_n(plural: str, dative: str) -> None:
    assert [plural_noun(plural, case) for case in CASES] == [plural, plural, dative, plural]
