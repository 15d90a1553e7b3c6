"""The paper's models of text, and settings that people would really use, by name."""

from __future__ import annotations

from typing import Any, Literal

from algoformer.language.training.experiment import TextExperiment, TextSettings
from algoformer.model import presets
from algoformer.model.program import Program, default_steps, traced_part
from algoformer.training.config import TrainConfig

Size = Literal["small", "paper", "tuned"]
"""small: two CPU cores and the corpora inside the package; paper: its sizes; tuned: larger, regularized."""

STEPS = 10
"""T of the paper's models of text."""

PRESETS = ("standard", "looped", "algoformer")
"""The paper's three models."""


def text_preset(
    kind: Literal["translation", "classification"] = "translation",
    program: str = "algoformer",
    size: Size = "small",
) -> TextExperiment:
    """The named program as a translator or a classifier.

    The loss is the mean over all T = ΔT iterations, as in the paper.

    >>> run = text_preset("classification", "standard", "paper")
    >>> run.width, run.program.parts[0].count, run.program.parts[0].heads
    (32, 12, 1)
    """
    if program not in PRESETS:
        raise ValueError(f"program must be one of {', '.join(PRESETS)}, got {program!r}")
    translating = kind == "translation"
    built = _program(program, size, heads=_heads(kind, size), causal=translating)
    window = default_steps(built) if traced_part(built) is not None else 1
    return TextExperiment(
        program=built,
        width=WIDTHS[kind][size],
        text=TextSettings(kind=kind, **(TRANSLATION if translating else CLASSIFICATION)[size]),
        training=TrainConfig(window=window, **TRAINING[size]),
    )


def _heads(kind: str, size: Size) -> int:
    if size == "small":
        return 4
    if size == "tuned":
        return 8 if kind == "translation" else 4
    return 8 if kind == "translation" else 1


def _program(name: str, size: Size, *, heads: int, causal: bool) -> Program:
    if name == "standard":
        return presets.standard(4 if size == "small" else 12, heads=heads, causal=causal)
    steps = 3 if size == "small" else STEPS
    if name == "looped":
        return presets.looped(1, steps=steps, heads=heads, causal=causal)
    layers = 2 if size == "tuned" else 1
    return presets.algoformer(layers, layers, layers, steps=steps, heads=heads, causal=causal)


WIDTHS: dict[str, dict[Size, int]] = {
    "translation": {"small": 64, "paper": 256, "tuned": 512},
    "classification": {"small": 32, "paper": 32, "tuned": 256},
}
_SMALL: dict[str, Any] = {"vocabulary": 1200, "validate_every": 100, "longest": 32}
TRANSLATION: dict[Size, dict[str, Any]] = {
    "small": _SMALL | {"corpora": ("small_de_en",), "budget": 1024},
    "paper": {"corpora": ("iwslt14_de_en",), "vocabulary": 10_000, "dropout": 0.1},
    "tuned": {
        "corpora": ("iwslt14_de_en",),
        "vocabulary": 10_000,
        "budget": 16_384,
        "dropout": 0.3,
        "attention_dropout": 0.1,
        "smoothing": 0.1,
    },
}
CLASSIFICATION: dict[Size, dict[str, Any]] = {
    "small": _SMALL | {"corpora": ("small_topics",), "budget": 1024},
    "paper": {"corpora": ("ag_news",), "vocabulary": 16_000, "longest": 256, "budget": 16_384},
    "tuned": {
        "corpora": ("ag_news",),
        "vocabulary": 16_000,
        "longest": 256,
        "budget": 32_768,
        "dropout": 0.3,
        "attention_dropout": 0.1,
        "smoothing": 0.05,
    },
}
TRAINING: dict[Size, dict[str, Any]] = {
    "small": {
        "steps": 500,
        "optimizer": "muon",
        "learning_rate": 1e-2,
        "schedule": "cosine",
        "warmup": 0.05,
        "clip": 1.0,
        "log_every": 50,
        "checkpoint_every": 250,
    },
    "paper": {"steps": 20_000, "learning_rate": 5e-4, "warmup": 0.1, "clip": 1.0, "precision": "bf16"},
    "tuned": {
        "steps": 20_000,
        "optimizer": "adamw",
        "weight_decay": 0.05,
        "betas": (0.9, 0.98),
        "learning_rate": 1e-3,
        "schedule": "cosine",
        "warmup": 0.1,
        "clip": 1.0,
        "ema": 0.999,
        "precision": "bf16",
    },
}
