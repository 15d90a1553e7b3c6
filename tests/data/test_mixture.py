"""Several sets in one spelling: what is trained on, what is held out, what is scored."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from algoformer.data import TranslationData
from paper.corpora import register_corpora

pytest.importorskip("tokenizers", reason="the extra `text` is not installed")

register_corpora()

TED = "iwslt14_de_en"
EXTRA = "train_extra_ted_tst2013_2014"
FILES: dict[str, list[tuple[str, str]]] = {
    f"{TED}/train": [
        ("das ist gut , ja .", "that &apos;s good , yes ."),
        ("ein hund schläft .", "a dog is asleep ."),
    ],
    f"{TED}/valid": [("wir gehen .", "we walk .")],
    f"{TED}/test": [("vielen dank !", "thank you !")],
    f"{TED}/{EXTRA}": [("ich weiß nicht .", "i don &apos;t know .")],
    "multi30k_de_en/train": [("Ein Hund läuft.", "A dog runs."), ("Vielen Dank.", "Many thanks.")],
    "multi30k_de_en/valid": [("Zwei Katzen.", "Two cats.")],
    "multi30k_de_en/test2016": [("Ein Hund schläft.", "A dog sleeps.")],
    "multi30k_de_en/test2017": [("Drei Kinder.", "Three children.")],
}


@pytest.fixture
def data(tmp_path: Path) -> Path:
    for name, pairs in FILES.items():
        path = tmp_path / f"{name}.de"
        path.parent.mkdir(exist_ok=True)
        path.write_text("".join(f"{german}\n" for german, _ in pairs))
        (tmp_path / f"{name}.en").write_text("".join(f"{english}\n" for _, english in pairs))
    return tmp_path


def pairs_of(text: Any, split: str) -> list[tuple[str, str]]:
    found, decode = text.splits[split], text.tokenizer.decode
    return [(decode(found.source[row]), decode(found.target[row])) for row in range(len(found))]


def test_what_any_scored_set_holds_out_is_not_trained_on(data: Path) -> None:
    settings = TranslationData(
        folder=str(data),
        corpus=(TED, f"{TED}/{EXTRA}", "multi30k_de_en"),
        also_tested=("multi30k_de_en",),
        lowercase=True,
        vocabulary=300,
    )
    text = settings.text
    # one German sentence is in the captions' test set, another in the talks': case and signs do not hide it
    assert pairs_of(text, "train") == [
        ("das ist gut, ja.", "that's good, yes."),
        ("ich weiß nicht.", "i don't know."),
        ("ein hund läuft.", "a dog runs."),
    ]
    assert list(text.splits) == ["train", "valid", "test", "test-multi30k_de_en", "test2017-multi30k_de_en"]
    assert pairs_of(text, "valid") == [("wir gehen.", "we walk.")]
    assert pairs_of(text, "test") == [("vielen dank!", "thank you!")]
    assert pairs_of(text, "test-multi30k_de_en") == [("ein hund schläft.", "a dog sleeps.")]
    assert text.card["spelling"] == {"lowercase": True, "only_words": False}


def test_a_set_that_is_only_scored_is_held_out_too(data: Path) -> None:
    settings = TranslationData(
        corpus=TED, also_tested="multi30k_de_en", lowercase=True, vocabulary=300, folder=str(data)
    )
    text = settings.text
    assert pairs_of(text, "train") == [("das ist gut, ja.", "that's good, yes.")]
    assert "test-multi30k_de_en" in text.splits
    alone = TranslationData(corpus=TED, vocabulary=300, folder=str(data)).text
    assert len(alone.splits["train"]) == 2
    assert list(alone.splits) == ["train", "valid", "test"]


def test_a_split_that_is_not_there_or_not_for_training_is_refused(data: Path) -> None:
    for split in ("test", "train_more"):
        with pytest.raises(ValueError, match=f"no further training split '{split}'"):
            TranslationData(corpus=(TED, f"{TED}/{split}"), vocabulary=300, folder=str(data)).text  # noqa: B018
