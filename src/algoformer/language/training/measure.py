"""A trained model of text on whole test splits: the scores that are reported, with their intervals."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from algoformer.language.checkpoint import TextCheckpoint
from algoformer.language.classifier import TextClassifier
from algoformer.language.classify import Classifying
from algoformer.language.packing import PackedText
from algoformer.language.scores import Score, accuracy, bleu, chrf
from algoformer.language.tokens import TokenPairs, TokenTexts
from algoformer.language.translate import Decoding, Translator


@dataclass(frozen=True, kw_only=True)
class Measurement:
    """What a model scores on a split.

    Attributes:
        split: its name.
        rows: how many texts it has.
        scores: by name: BLEU and chrF, or accuracy in percent.
        hypotheses: the translations; none for labels.
    """

    split: str
    rows: int
    scores: dict[str, Score]
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
        }


def measure(
    checkpoint: TextCheckpoint, text: PackedText, *, decoding: Decoding | None = None
) -> list[Measurement]:
    """The scores on every test split of the text, whole; translations are compared as detokenized text."""
    splits = {name: split for name, split in text.splits.items() if name.startswith("test")}
    if isinstance(checkpoint.model, TextClassifier):
        classifying = Classifying(checkpoint)
        return [
            _labels(classifying, name, one) for name, one in splits.items() if isinstance(one, TokenTexts)
        ]
    translator = Translator(checkpoint, decoding)
    return [_pairs(translator, name, one) for name, one in splits.items() if isinstance(one, TokenPairs)]


def _labels(classifying: Classifying, name: str, split: TokenTexts) -> Measurement:
    found = classifying.probabilities(split.texts).argmax(axis=1)
    right = int((found == np.asarray(split.labels)).sum())
    return Measurement(split=name, rows=len(split), scores={"accuracy": accuracy(right, len(split))})


def _pairs(translator: Translator, name: str, split: TokenPairs) -> Measurement:
    rows = range(len(split))
    found = translator.translate_encoded([split.source[row].tolist() for row in rows])
    wanted = [translator.tokenizer.decode(split.target[row]) for row in rows]
    scores = {"BLEU": bleu(found, wanted), "chrF": chrf(found, wanted)}
    return Measurement(split=name, rows=len(split), scores=scores, hypotheses=tuple(found))
