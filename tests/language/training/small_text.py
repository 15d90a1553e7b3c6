"""A handful of sentences as tokens, and experiments on them that take a second."""

from __future__ import annotations

from typing import Any

import pytest

from algoformer import programs
from algoformer.language.packing import PackedText
from algoformer.language.text import LabelledText, ParallelText
from algoformer.language.tokenizer import Tokenizer
from algoformer.language.tokens import encode_pairs, encode_texts
from algoformer.language.training import TextExperiment
from algoformer.language.training.experiment import Kind, TextSettings
from algoformer.training import TrainConfig

GERMAN = ("der Hund", "die Katze schläft", "ein Haus", "wir gehen", "das Kind lacht heute nicht", "ja")
ENGLISH = ("the dog", "the cat sleeps", "a house", "we walk", "the child does not laugh today", "yes")
TEXTS = ("good", "bad", "very good", "very bad", "so good", "so bad", "not at all bad but good", "bad bad")
LABELS = (1, 0, 1, 0, 1, 0, 1, 0)


def small_text(kind: Kind = "translation", **settings: Any) -> PackedText:
    pytest.importorskip("tokenizers", reason="the extra `text` is not installed")
    tokenizer = Tokenizer.train([*GERMAN, *ENGLISH, *TEXTS] * 2, vocabulary=400)
    chosen = _settings(kind, **settings)
    if kind == "translation":
        pairs = encode_pairs(tokenizer, ParallelText(source=GERMAN, target=ENGLISH))
        splits: Any = {"train": pairs, "valid": pairs, "test": pairs}
    else:
        texts = encode_texts(tokenizer, LabelledText(texts=TEXTS, labels=LABELS))
        splits = {"train": texts, "valid": texts, "test": texts}
    deciding = ("kind", "lowercase", "vocabulary", "longest")
    lists = ("corpora", "also_tested")
    card = {
        "corpus": "by hand",
        "classes": [] if kind == "translation" else ["bad", "good"],
        "notes": ["made by hand"],
        "settings": {name: getattr(chosen, name) for name in deciding}
        | {name: list(getattr(chosen, name)) for name in lists},
    }
    return PackedText(splits=splits, tokenizer=tokenizer, card=card)


def small_experiment(kind: Kind = "translation", text: dict[str, Any] | None = None, **training: Any) -> Any:
    settings: dict[str, Any] = {
        "steps": 8,
        "window": 2,
        "learning_rate": 1e-2,
        "log_every": 2,
        "checkpoint_every": 4,
    }
    return TextExperiment(
        program=programs.algoformer(steps=2, heads=2, causal=kind == "translation"),
        width=16,
        text=_settings(kind, **(text or {})),
        training=TrainConfig(**(settings | training)),
    )


def _settings(kind: Kind, **changes: Any) -> TextSettings:
    own: dict[str, Any] = {"budget": 72, "longest": 20, "vocabulary": 400, "validate_every": 4}
    return TextSettings(kind=kind, **(own | changes))
