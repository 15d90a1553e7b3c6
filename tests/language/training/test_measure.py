"""Scores on test splits, held against sums that are written out."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch

from algoformer.language import TextCheckpoint
from algoformer.language.tokenizer import EOS, TRANSLATE
from algoformer.language.training.experiment import build_text_model
from algoformer.language.training.measure import measure
from algoformer.language.translate import Decoding
from tests.language.training.small_text import small_experiment, small_text

pytest.importorskip("sacrebleu", reason="the extra `text` is not installed")


def fresh(kind: Any, text: Any, settings: Any = None, **card: Any) -> TextCheckpoint:
    labels, experiment = text.card["classes"], small_experiment(kind, text=settings)
    model = build_text_model(experiment, vocabulary=len(text.tokenizer), labels=labels).eval()
    return TextCheckpoint(model=model, tokenizer=text.tokenizer.to_json(), card=card)


def test_cross_entropy_is_that_of_each_token_given_those_before() -> None:
    text = small_text()
    checkpoint: Any = fresh("translation", text)
    (found,) = measure(checkpoint, text, decoding=Decoding(beam=1))
    nats, tokens = 0.0, 0
    pairs: Any = text.splits["test"]
    for row in range(len(pairs)):
        given = [*pairs.source[row].tolist(), TRANSLATE]
        wanted = [*pairs.target[row].tolist(), EOS]
        ids = torch.tensor([given + wanted[:-1]])
        with torch.no_grad():
            scores = checkpoint.model(ids, prefix=torch.tensor([len(given)]))[-1, 0].double()
        chances = scores.log_softmax(dim=-1)[len(given) - 1 :]
        nats -= float(chances[torch.arange(len(wanted)), torch.tensor(wanted)].sum())
        tokens += len(wanted)
    assert (found.loss.tokens, found.loss_rows) == (tokens, len(pairs))
    assert found.loss.per_token == pytest.approx(nats / tokens, rel=1e-5)
    data = found.to_data()
    assert data["perplexity"] == pytest.approx(2.718281828 ** data["cross_entropy"], rel=1e-6)


def test_pairs_that_do_not_fit_are_translated_and_left_out_of_the_loss() -> None:
    text = small_text()
    pairs: Any = text.splits["test"]
    long = type(pairs.source).of([pairs.source[row].tolist() * 30 for row in range(1)])
    one = type(pairs)(source=long, target=pairs.target.take([0]))
    (found,) = measure(fresh("translation", text), replace(text, splits={"test": one}))
    assert (found.rows, found.loss_rows, found.loss.tokens, len(found.hypotheses)) == (1, 0, 0, 1)


@pytest.mark.parametrize(("lowercase", "word"), [(True, "case:lc"), (False, "case:mixed")])
def test_the_signature_says_whether_case_counts(lowercase: bool, word: str) -> None:
    text = small_text()
    (found,) = measure(fresh("translation", text, lowercase=lowercase), text, decoding=Decoding(beam=1))
    assert all(word in score.signature for score in found.scores.values())


def test_a_classifier_is_right_where_its_best_label_is() -> None:
    text = small_text("classification")
    checkpoint: Any = fresh("classification", text)
    (found,) = measure(checkpoint, text)
    split: Any = text.splits["test"]
    nats, right = 0.0, 0
    for row in range(len(split)):
        ids = torch.tensor([split.texts[row].tolist()])
        with torch.no_grad():
            scores = checkpoint.model(ids, torch.ones_like(ids, dtype=torch.bool))[-1, 0].double()
        nats -= float(scores.log_softmax(dim=-1)[split.labels[row]])
        right += int(scores.argmax() == int(split.labels[row]))
    assert found.scores["accuracy"].value == pytest.approx(100 * right / len(split))
    assert found.loss.per_token == pytest.approx(nats / len(split), rel=1e-5)


@pytest.mark.parametrize(("kind", "context"), [("translation", 13), ("classification", 3)])
def test_a_context_of_any_length_is_used_to_its_end(kind: Any, context: int) -> None:
    text = small_text(kind)
    longest = 6 if kind == "translation" else context
    checkpoint: Any = fresh(kind, text, {"longest": longest, "multiple": 1})
    assert checkpoint.model.trunk.context == context
    (found,) = measure(checkpoint, text, decoding=Decoding(beam=1))
    split: Any = text.splits["test"]
    if kind == "translation":
        lengths = split.source.lengths + 1 + split.target.lengths
        assert found.loss_rows == (lengths <= context).sum() > (lengths <= 8).sum()
        return
    nats = 0.0
    for row in range(len(split)):
        ids = torch.tensor([split.texts[row].tolist()[:context]])
        with torch.no_grad():
            scores = checkpoint.model(ids, torch.ones_like(ids, dtype=torch.bool))[-1, 0].double()
        nats -= float(scores.log_softmax(dim=-1)[split.labels[row]])
    assert found.loss.per_token == pytest.approx(nats / len(split), rel=1e-5)
