"""The paper's models of text, and settings that people would really use, by name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from algoformer.language.training.experiment import Kind, TextExperiment, TextSettings
from algoformer.model import presets
from algoformer.model.program import Program, default_steps, traced_part
from algoformer.training.config import TrainConfig

Size = Literal["small", "paper", "tuned", "shipped"]
"""small: two CPU cores and the corpora inside the package; paper: its sizes; tuned: larger, regularized;
shipped: as good as a few MB allow."""

PRESETS = ("standard", "looped", "algoformer")
"""The paper's three models."""


@dataclass(frozen=True, kw_only=True)
class Shape:
    """The three models of a size: they apply about as many layers to a token.

    Attributes:
        width: of the stream.
        heads: of every layer.
        standard: layers of the standard transformer.
        looped: layers of the looped one's body, and T.
        algoformer: layers before, in and after the loop, and T.
        window: ΔT; None means all of T.
    """

    width: int
    heads: int
    standard: int
    looped: tuple[int, int]
    algoformer: tuple[int, int, int, int]
    window: int | None = None

    def program(self, name: str, *, causal: bool) -> Program:
        """One of the three."""
        layer: dict[str, Any] = {"heads": self.heads, "causal": causal}
        if name == "standard":
            return presets.standard(self.standard, **layer)
        if name == "looped":
            layers, steps = self.looped
            return presets.looped(layers, steps=steps, **layer)
        pre, loop, post, steps = self.algoformer
        return presets.algoformer(pre, loop, post, steps=steps, **layer)


SHAPES: dict[Kind, dict[Size, Shape]] = {
    "translation": {
        "small": Shape(width=64, heads=4, standard=4, looped=(1, 3), algoformer=(1, 1, 1, 3)),
        "paper": Shape(width=256, heads=8, standard=12, looped=(1, 10), algoformer=(1, 1, 1, 10)),
        "tuned": Shape(width=512, heads=8, standard=12, looped=(2, 6), algoformer=(2, 2, 2, 4), window=2),
        "shipped": Shape(width=256, heads=8, standard=5, looped=(2, 4), algoformer=(1, 2, 1, 4), window=2),
    },
    "classification": {
        "small": Shape(width=32, heads=4, standard=4, looped=(1, 3), algoformer=(1, 1, 1, 3)),
        "paper": Shape(width=32, heads=1, standard=12, looped=(1, 10), algoformer=(1, 1, 1, 10)),
        "tuned": Shape(width=256, heads=4, standard=6, looped=(1, 6), algoformer=(1, 1, 1, 4), window=2),
        "shipped": Shape(width=48, heads=4, standard=4, looped=(1, 4), algoformer=(1, 1, 1, 4), window=2),
    },
}


def text_preset(
    kind: Kind = "translation", program: str = "algoformer", size: Size = "small"
) -> TextExperiment:
    """The named program as a translator or a classifier.

    In the paper's sizes the loss is the mean over all T = ΔT iterations, as there.

    >>> run = text_preset("classification", "standard", "paper")
    >>> run.width, run.program.parts[0].count, run.program.parts[0].heads
    (32, 12, 1)
    """
    if program not in PRESETS:
        raise ValueError(f"program must be one of {', '.join(PRESETS)}, got {program!r}")
    shape = SHAPES[kind][size]
    built = shape.program(program, causal=kind == "translation")
    steps = default_steps(built) if traced_part(built) is not None else 1
    return TextExperiment(
        program=built,
        width=shape.width,
        text=TextSettings(kind=kind, **(TRANSLATION if kind == "translation" else CLASSIFICATION)[size]),
        training=TrainConfig(window=min(steps, shape.window or steps), **_training(kind, size)),
    )


def _training(kind: Kind, size: Size) -> dict[str, Any]:
    short = kind == "classification" and "ema" in TRAINING[size]
    return TRAINING[size] | ({"ema": SHORT_EMA} if short else {})


SHORT_EMA = 0.99
"""Classifiers take some thousand steps: an average over the last hundred is enough."""

_SMALL: dict[str, Any] = {"vocabulary": 1200, "validate_every": 100, "longest": 32, "budget": 1024}
_REGULAR: dict[str, Any] = {"dropout": 0.3, "attention_dropout": 0.1}
TRANSLATION: dict[Size, dict[str, Any]] = {
    "small": _SMALL | {"corpora": ("small_de_en",)},
    # IWSLT14 has no upper case, so that nothing else may have any
    "paper": {"corpora": ("iwslt14_de_en",), "lowercase": True, "vocabulary": 8000, "dropout": 0.1},
    "tuned": {
        "corpora": (
            *("iwslt14_de_en", "iwslt14_de_en/train_extra_ted_tst2013_2014"),
            *("multi30k_de_en", "tatoeba_de_en"),
        ),
        "also_tested": ("multi30k_de_en",),
        "lowercase": True,
        "vocabulary": 8000,
        "budget": 16_384,
        "smoothing": 0.1,
        **_REGULAR,
    },
    "shipped": {
        "corpora": ("tatoeba_de_en",),
        "vocabulary": 5000,
        "longest": 48,
        "budget": 16_384,
        "smoothing": 0.1,
        "dropout": 0.1,
    },
}
CLASSIFICATION: dict[Size, dict[str, Any]] = {
    "small": _SMALL | {"corpora": ("small_topics",)},
    "paper": {
        "corpora": ("ag_news",),
        "vocabulary": 16_000,
        "longest": 128,
        "budget": 16_384,
        "validate_every": 100,
        "dropout": 0.1,
    },
    "tuned": {
        "corpora": ("ag_news",),
        "vocabulary": 16_000,
        "longest": 128,
        "budget": 16_384,
        "validate_every": 100,
        "smoothing": 0.05,
        **_REGULAR,
    },
    "shipped": {
        "corpora": ("dbpedia",),
        "lowercase": True,
        "vocabulary": 16_000,
        "longest": 128,
        "budget": 16_384,
        "validate_every": 100,
        "dropout": 0.2,
    },
}
_TUNED: dict[str, Any] = {
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
    # the window is short, and what comes before it has to be learned too
    "grad": "full",
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
    "paper": {
        "steps": 20_000,
        "learning_rate": 1e-3,
        "schedule": "cosine",
        "warmup": 0.1,
        "clip": 1.0,
        "precision": "bf16",
    },
    "tuned": _TUNED,
    "shipped": _TUNED,
}
