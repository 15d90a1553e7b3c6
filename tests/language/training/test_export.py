"""What is given away: measured as it is stored, with its card."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from algoformer.language import Tokenizer, load_text_model
from algoformer.language.classify import Classifying
from algoformer.language.training.export import EXAMPLES, answers, export_text
from tests.language.training.small_text import small_text
from tests.language.training.test_measure import fresh

pytest.importorskip("sacrebleu", reason="the extra `text` is not installed")


@pytest.mark.parametrize("kind", ["translation", "classification"])
def test_a_card_says_what_is_in_the_file(kind: Any, tmp_path: Path) -> None:
    text = small_text(kind)
    text = replace(text, card=dict(text.card) | {"terms": "CC BY 2.0"})
    checkpoint = fresh(kind, text, corpus="tatoeba_de_en" if kind == "translation" else "dbpedia", step=7)
    whole = {name: weight.clone() for name, weight in checkpoint.model.state_dict().items()}
    found = export_text(tmp_path / "small.safetensors", checkpoint, text, command="by hand")
    stored = load_text_model(tmp_path / "small.safetensors")
    card: Any = stored.card
    for name, weight in stored.model.state_dict().items():
        assert weight.equal(whole[name].half().to(weight.dtype)), name
    assert card["step"] == 7
    assert card["measurements"] == [one.to_data() for one in found]
    assert card["licence"] == "CC BY 2.0"
    assert "CC BY" in card["attribution"][0]
    assert list(card["examples"]) == list(EXAMPLES[kind])
    assert answers(stored, EXAMPLES[kind]) == list(card["examples"].values())


def test_text_of_another_tokenizer_is_refused(tmp_path: Path) -> None:
    text = small_text()
    with pytest.raises(ValueError, match="another tokenizer"):
        export_text(
            tmp_path / "no.safetensors",
            fresh("translation", text),
            replace(text, tokenizer=Tokenizer([])),
        )


def test_a_model_that_knows_words_only_is_given_words_only() -> None:
    text = small_text("classification")
    plain, words = fresh("classification", text), fresh("classification", text, only_words=True)
    words.model.load_state_dict(plain.model.state_dict())
    (shown,) = Classifying(plain).classify(["very good"])
    (signs,) = Classifying(words).classify(["very, (good)!"])
    assert shown is not None
    assert signs is not None
    assert torch.isclose(torch.tensor(shown.probability), torch.tensor(signs.probability))
