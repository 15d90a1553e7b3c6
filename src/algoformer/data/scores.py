"""A trained model of text on whole test splits: the scores that are reported, with their intervals."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from algoformer.language.checkpoint import TextCheckpoint
from algoformer.language.classifier import TextClassifier
from algoformer.language.classify import Classifier
from algoformer.language.scores import METRICS, Score, TokenLoss, score_texts
from algoformer.language.token_model import TokenModel
from algoformer.language.tokens import TokenPairs, TokenTexts
from algoformer.language.translate import Decoding, Translator

if TYPE_CHECKING:
    from algoformer.data.labelled import LabelledData
    from algoformer.data.tokenized import TokenizedData
    from algoformer.data.translation import TranslationData

BATCH_TOKENS = 16_384
"""Tokens that are scored at a time."""


@dataclass(frozen=True, kw_only=True)
class Measurement:
    """The scores of a model on a split.

    Attributes:
        split: its name.
        rows: how many texts it has.
        scores: the scores by the names of their metrics.
        loss: cross-entropy of the right answers, in fp32 and without label smoothing: of the tokens of the
            translations, given the ones before, or of the labels.
        loss_rows: the texts that it is over; pairs that do not fit the model's context are left out of it,
            and of nothing else.
        seconds: the time for all answers, without scoring them.
        hypotheses: the translations; none for labels.
    """

    split: str
    rows: int
    scores: dict[str, Score]
    loss: TokenLoss
    loss_rows: int
    seconds: float
    hypotheses: tuple[str, ...] = ()

    def to_data(self) -> dict[str, Any]:
        """Return the scores as plain data."""
        return {
            "split": self.split,
            "rows": self.rows,
            "scores": {
                name: {"value": one.value, "low": one.low, "high": one.high, "signature": one.signature}
                for name, one in self.scores.items()
            },
            "cross_entropy": self.loss.per_token,
            "perplexity": self.loss.perplexity,
            "loss_tokens": self.loss.tokens,
            "loss_rows": self.loss_rows,
            "answer_seconds": self.seconds,
        }


def measure_labels(
    data: LabelledData, model: TextClassifier, *, metrics: Sequence[str] = ("accuracy",), batch: int = 32
) -> list[Measurement]:
    """Score a classifier on every test split, by metrics of label names."""
    _check_metrics(metrics)
    classifier = Classifier(_with_tokenizer(data, model), batch=batch)
    return [_labels(data, classifier, name, split, metrics) for name, split in _test_splits(data).items()]


def measure_translation(
    data: TranslationData,
    model: TokenModel,
    decoding: Decoding | None = None,
    *,
    metrics: Sequence[str] = ("BLEU", "chrF"),
) -> list[Measurement]:
    """Score a translator on every test split; translations are compared as people write them."""
    _check_metrics(metrics)
    translator = Translator(_with_tokenizer(data, model), decoding)
    return [_pairs(data, translator, name, split, metrics) for name, split in _test_splits(data).items()]


def _check_metrics(metrics: Sequence[str]) -> None:
    for name in metrics:  # rather now than after all texts are answered
        METRICS.find(name)


def references(translator: Translator, split: TokenPairs) -> list[str]:
    """Return the translations that were wanted, as text."""
    return [translator.tokenizer.decode(split.target[row]) for row in range(len(split))]


def _test_splits(data: TokenizedData) -> dict[str, Any]:
    return {name: split for name, split in data.text.splits.items() if name.startswith("test")}


def _with_tokenizer(data: TokenizedData, model: TokenModel | TextClassifier) -> TextCheckpoint:
    return TextCheckpoint(model=model, tokenizer=data.known_tokenizer.to_json(), card=data.facts())


def _labels(
    data: LabelledData, classifier: Classifier, name: str, split: TokenTexts, metrics: Sequence[str]
) -> Measurement:
    began = time.perf_counter()
    found = classifier.probabilities(split.texts).argmax(axis=1)
    seconds = time.perf_counter() - began
    names, wanted = classifier.model.labels, np.asarray(split.labels)
    answers = [names[label] for label in found], [names[label] for label in wanted]
    context = classifier.model.trunk.context
    cut = TokenTexts(texts=split.texts.cut(context), labels=split.labels)
    exact = replace(data, max_length=context, batch_tokens=BATCH_TOKENS + context, pad_to_multiple_of=1)
    return Measurement(
        split=name,
        rows=len(split),
        scores=score_texts(metrics, *answers, lowercase=data.lowercase),
        loss=exact.split_loss(classifier.model, cut),
        loss_rows=len(split),
        seconds=seconds,
    )


def _pairs(
    data: TranslationData, translator: Translator, name: str, split: TokenPairs, metrics: Sequence[str]
) -> Measurement:
    rows = range(len(split))
    began = time.perf_counter()
    found = list(translator.translate_encoded([split.source[row].tolist() for row in rows]))
    seconds = time.perf_counter() - began
    wanted = references(translator, split)
    loss, loss_rows = _forced(data, translator.model, split)
    return Measurement(
        split=name,
        rows=len(split),
        scores=score_texts(metrics, found, wanted, lowercase=translator.lowercase),
        loss=loss,
        loss_rows=loss_rows,
        seconds=seconds,
        hypotheses=tuple(found),
    )


def _forced(data: TranslationData, model: TokenModel, split: TokenPairs) -> tuple[TokenLoss, int]:
    """Return the loss on pairs that fit the context, and how many there are."""
    context = model.context
    fitting = np.flatnonzero(split.source.lengths + 1 + split.target.lengths <= context)
    pairs = TokenPairs(source=split.source.take(fitting), target=split.target.take(fitting))
    if not len(pairs):
        return TokenLoss(), 0
    # no padding that a model of any context might have no room for
    tokens = BATCH_TOKENS + 2 * context + 1
    exact = replace(data, max_length=context, batch_tokens=tokens, pad_to_multiple_of=1)
    return exact.split_loss(model, pairs), len(pairs)
