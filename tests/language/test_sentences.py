"""Ends of sentences: found where they are plain, left alone where they are not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from algoformer.language.sentences import sentences
from algoformer.language.text import plain


@pytest.mark.parametrize(
    "parts",
    [
        ["Ich habe keine Zeit.", "Der Hund schläft."],
        ["Was?", "Nein!", "Wirklich?!", "Gut…", "Na ja ...", "Ende"],
        ["„Ich komme.“", "»Wann?«", '"Morgen!"', "(Oder nie.)", "Er ging."],
        ["Er sagte „Ja.“", "„Nein“ hörte er nicht."],
        ["„Wo ist sie?“", "— „Die ist gegangen.“"],
        ["Das war 1990.", "Dann kam 2020.", "20 Leute kamen."],
        ["Er ist 30.", "Wir sind 40.", "Es kostet 3.50.", "Das ist viel."],
        ["Äpfel, Birnen usw.", "Übrigens kam Max.", "Er blieb."],
        ["ich habe keine zeit.", "der hund schläft.", "warum?", "darum."],
    ],
)
def test_every_sentence_by_itself(parts: list[str]) -> None:
    assert sentences(" ".join(parts)) == parts


@pytest.mark.parametrize(
    "text",
    [
        "Dr. Müller und Prof. Dr. med. Schmidt wohnen in St. Gallen.",
        "Dipl.-Ing. Meier (bzw. Frl. Meier) fährt mit z. B. Bussen, d. h. Linie Nr. 5.",
        "Er mag z.B. Katzen und die U.S. Armee.",
        "J. S. Bach starb am 28. Juli, im 18. Jahrhundert.",
        "Am 3.5. Treffen mit Karl V. Habsburg und Ludwig XIV. Bourbon.",
        "Es kostet 3.50 Euro, also 2.000 Mark.",
        "1. Ich gehe.",
        "„Komm!“ rief er ... und ging.",
        "„Komm!“ – sagte er.",
        "Siehe Art. 5 und Kap. 3.",
        "ich weiß ... vielleicht",
        "... !",
    ],
)
def test_what_is_one_sentence_stays_whole(text: str) -> None:
    assert sentences(text) == [text]


def test_no_text_has_no_sentences() -> None:
    assert sentences("") == []


@given(st.text(st.sampled_from("aAbÄß1. .!?…\"“„»()'V-"), max_size=60).map(plain))
def test_nothing_is_lost(text: str) -> None:
    parts = sentences(text)
    assert " ".join(parts) == text
    assert all(any(letter.isalpha() for letter in part) for part in parts[:-1])
