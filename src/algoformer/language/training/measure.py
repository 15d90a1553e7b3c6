"""A trained model of text on whole test splits: the scores that are reported, with their intervals."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from algoformer.language.checkpoint import TextCheckpoint
from algoformer.language.classifier import TextClassifier
from algoformer.language.classify import Classifying
from algoformer.language.packing import PackedText
from algoformer.language.scores import Score, TokenLoss, accuracy, bleu, chrf
from algoformer.language.tokens import TokenPairs, TokenTexts
from algoformer.language.training.experiment import TextSettings
from algoformer.language.training.validation import validate
from algoformer.language.translate import Decoding, Translator

BUDGET = 16_384
"""Tokens that are scored at a time."""


@dataclass(frozen=True, kw_only=True)
class Measurement:
    """What a model scores on a split.

    Attributes:
        split: its name.
        rows: how many texts it has.
        scores: by name: BLEU and chrF, or accuracy in percent.
        loss: cross-entropy of the right answers, in fp32 and without smoothing: of the tokens of the
            translations, given the ones before, or of the labels.
        loss_rows: the texts that it is over; pairs that do not fit the model's context are left out of it,
            and of nothing else.
        seconds: that all answers took, without counting scores.
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
        """The scores as plain data."""
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


def measure(
    checkpoint: TextCheckpoint, text: PackedText, *, decoding: Decoding | None = None
) -> list[Measurement]:
    """The scores on every test split of the text, whole; translations are compared as people write them."""
    splits = {name: split for name, split in text.splits.items() if name.startswith("test")}
    if isinstance(checkpoint.model, TextClassifier):
        classifying = Classifying(checkpoint, batch=(decoding or Decoding()).batch)
        return [
            _labels(classifying, name, one) for name, one in splits.items() if isinstance(one, TokenTexts)
        ]
    translator = Translator(checkpoint, decoding)
    return [_pairs(translator, name, one) for name, one in splits.items() if isinstance(one, TokenPairs)]


def _labels(classifying: Classifying, name: str, split: TokenTexts) -> Measurement:
    began = time.perf_counter()
    found = classifying.probabilities(split.texts).argmax(axis=1)
    seconds = time.perf_counter() - began
    right = int((found == np.asarray(split.labels)).sum())
    context = classifying.model.trunk.context
    settings = TextSettings(kind="classification", longest=context, budget=BUDGET + context, multiple=1)
    cut = TokenTexts(texts=split.texts.cut(context), labels=split.labels)
    return Measurement(
        split=name,
        rows=len(split),
        scores={"accuracy": accuracy(right, len(split))},
        loss=validate(classifying.model, cut, settings).loss,
        loss_rows=len(split),
        seconds=seconds,
    )


def _pairs(translator: Translator, name: str, split: TokenPairs) -> Measurement:
    rows = range(len(split))
    began = time.perf_counter()
    found = translator.translate_encoded([split.source[row].tolist() for row in rows])
    seconds = time.perf_counter() - began
    wanted = references(translator, split)
    loss, loss_rows = _forced(translator, split)
    return Measurement(
        split=name,
        rows=len(split),
        scores={
            "BLEU": bleu(found, wanted, lowercase=translator.lowercase),
            "chrF": chrf(found, wanted, lowercase=translator.lowercase),
        },
        loss=loss,
        loss_rows=loss_rows,
        seconds=seconds,
        hypotheses=tuple(found),
    )


def references(translator: Translator, split: TokenPairs) -> list[str]:
    """The translations that were wanted, as text."""
    return [translator.tokenizer.decode(split.target[row]) for row in range(len(split))]


def _forced(translator: Translator, split: TokenPairs) -> tuple[TokenLoss, int]:
    """The loss on pairs that fit the context, and how many there are."""
    context = translator.model.context
    fitting = np.flatnonzero(split.source.lengths + 1 + split.target.lengths <= context)
    pairs = TokenPairs(source=split.source.take(fitting), target=split.target.take(fitting))
    if not len(pairs):
        return TokenLoss(), 0
    # no padding that a model of any context might have no room for
    settings = TextSettings(kind="translation", longest=context, budget=BUDGET + 2 * context + 1, multiple=1)
    return validate(translator.model, pairs, settings).loss, len(pairs)
