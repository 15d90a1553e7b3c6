"""The paper's models of text, and settings that people would really use, by name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, get_args

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
    for name, value, known in (
        ("kind", kind, get_args(Kind)),
        ("program", program, PRESETS),
        ("size", size, get_args(Size)),
    ):
        if value not in known:
            raise ValueError(f"{name} must be one of {', '.join(known)}, got {value!r}")
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
    if size == "small":
        return SMALL_TRAINING
    # an average over the last steps is for many of them: classifiers take some thousand
    averaged = {"ema": 0.998 if kind == "translation" else 0.99, "grad": "full"}
    return TRAINING | {"learning_rate": RATES[kind][size]} | (averaged if size != "paper" else {})


_SMALL: dict[str, Any] = {"vocabulary": 1200, "validate_every": 100, "longest": 32, "budget": 1024}
# a multiple of so many tokens makes some twenty shapes, each of which is captured once on a GPU
_PAIRS: dict[str, Any] = {"multiple": 16, "smoothing": 0.1}
_TEXTS: dict[str, Any] = {
    "vocabulary": 16_000,
    "longest": 128,
    "budget": 16_384,
    "multiple": 32,
    "validate_every": 200,
}
TRANSLATION: dict[Size, dict[str, Any]] = {
    "small": _SMALL | {"corpora": ("small_de_en",)},
    # IWSLT14 has no upper case, so that nothing else may have any
    "paper": _PAIRS | {"corpora": ("iwslt14_de_en",), "lowercase": True, "vocabulary": 8000, "dropout": 0.2},
    "tuned": _PAIRS
    | {
        "corpora": (
            *("iwslt14_de_en", "iwslt14_de_en/train_extra_ted_tst2013_2014"),
            *("multi30k_de_en", "tatoeba_de_en"),
        ),
        "also_tested": ("multi30k_de_en",),
        "lowercase": True,
        "vocabulary": 8000,
        "budget": 16_384,
        "dropout": 0.2,
        "attention_dropout": 0.1,
    },
    "shipped": _PAIRS
    | {
        "corpora": ("tatoeba_de_en",),
        "vocabulary": 5000,
        "longest": 48,
        "budget": 16_384,
        "dropout": 0.1,
    },
}
CLASSIFICATION: dict[Size, dict[str, Any]] = {
    "small": _SMALL | {"corpora": ("small_topics",)},
    "paper": _TEXTS | {"corpora": ("ag_news",), "dropout": 0.1},
    "tuned": _TEXTS
    | {
        "corpora": ("ag_news",),
        "smoothing": 0.05,
        "dropout": 0.3,
        "attention_dropout": 0.1,
        "word_dropout": 0.3,
    },
    "shipped": _TEXTS | {"corpora": ("dbpedia",), "lowercase": True, "dropout": 0.2, "word_dropout": 0.1},
}
SMALL_TRAINING: dict[str, Any] = {
    "steps": 500,
    "optimizer": "muon",
    "learning_rate": 1e-2,
    "schedule": "cosine",
    "warmup": 0.05,
    "clip": 1.0,
    "log_every": 50,
    "checkpoint_every": 250,
}
TRAINING: dict[str, Any] = {
    "steps": 20_000,
    "optimizer": "muon",
    "weight_decay": 0.05,
    "betas": (0.9, 0.98),
    "schedule": "cosine",
    "warmup": 0.1,
    "clip": 1.0,
    "checkpoint_every": 2000,
    "precision": "bf16",
}
"""Of the sizes for a GPU. Muon: after 500 steps on IWSLT14 a validation loss of 3.76 where AdamW had 4.42."""

RATES: dict[Kind, dict[Size, float]] = {
    "translation": {"paper": 5e-3, "tuned": 4e-3, "shipped": 5e-3},
    "classification": {"paper": 5e-3, "tuned": 2e-3, "shipped": 3e-3},
}
"""Learning rates, from a few short runs and their validation losses; the same for all three models."""
