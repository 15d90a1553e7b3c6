"""A handful of sentences as tokens, and experiments on them that take a second."""

from __future__ import annotations

from typing import Any, Literal

import pytest

from algoformer import programs
from algoformer.data import LabelledData, TranslationData
from algoformer.language.packing import PackedText
from algoformer.language.text import LabelledText, ParallelText
from algoformer.language.tokenizer import Tokenizer
from algoformer.language.tokens import encode_pairs, encode_texts
from algoformer.training import Experiment, TrainConfig

GERMAN = ("der Hund", "die Katze schläft", "ein Haus", "wir gehen", "das Kind lacht heute nicht", "ja")
ENGLISH = ("the dog", "the cat sleeps", "a house", "we walk", "the child does not laugh today", "yes")
TEXTS = ("good", "bad", "very good", "very bad", "so good", "so bad", "not at all bad but good", "bad bad")
LABELS = (1, 0, 1, 0, 1, 0, 1, 0)
Kind = Literal["translation", "labels"]


def small_text(kind: Kind = "translation") -> PackedText:
    pytest.importorskip("tokenizers", reason="the extra `text` is not installed")
    tokenizer = Tokenizer.train([*GERMAN, *ENGLISH, *TEXTS] * 2, vocabulary=400)
    split: Any
    if kind == "translation":
        split = encode_pairs(tokenizer, ParallelText(source=GERMAN, target=ENGLISH))
    else:
        split = encode_texts(tokenizer, LabelledText(texts=TEXTS, labels=LABELS))
    classes = [] if kind == "translation" else ["bad", "good"]
    card = {"corpus": "by hand", "classes": classes, "notes": ["made by hand"]}
    return PackedText(splits={"train": split, "valid": split, "test": split}, tokenizer=tokenizer, card=card)


def small_data(kind: Kind = "translation", **settings: Any) -> Any:
    own: dict[str, Any] = {
        "batch_tokens": 72,
        "max_length": 20,
        "vocabulary": 400,
        "packed": small_text(kind),
    }
    if kind == "translation":
        return TranslationData(corpus="by hand", **own | settings)
    return LabelledData(corpus="by hand", **own | settings)


def small_experiment(kind: Kind = "translation", data: dict[str, Any] | None = None, **training: Any) -> Any:
    settings: dict[str, Any] = {
        "steps": 8,
        "window": 2,
        "lr": 1e-2,
        "log_every": 2,
        "validate_every": 4,
        "checkpoint_every": 4,
    }
    return Experiment(
        program=programs.algoformer(steps=2, heads=2, causal=kind == "translation"),
        width=16,
        data=small_data(kind, **(data or {})),
        training=TrainConfig(**(settings | training)),
    )
