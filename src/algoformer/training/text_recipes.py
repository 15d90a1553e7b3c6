"""Recipes for text at a scale, in the words of the presets for prompts: `smoke`, `short`, `paper`.

smoke: minutes on two CPU cores, on corpora inside the package. short: minutes on a GPU, a model of a few MB.
paper: the paper's sizes. tuned: larger and regularized, for the best scores.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

from algoformer.common.names import check_choice
from algoformer.data import Data, LabelledData, TextData, TranslationData
from algoformer.data.protocol import data_class
from algoformer.model import presets
from algoformer.model.program import Program, default_steps, traced_part
from algoformer.training.config import Experiment, Recipe, TrainConfig, sees_input_once

TextKind = Literal["translation", "labels", "text"]
TextScale = Literal["smoke", "short", "paper", "tuned"]


@dataclass(frozen=True, kw_only=True)
class Shape:
    """The models of a scale; the paper's three apply about as many layers to a token.

    Attributes:
        width: width of the residual stream.
        heads: attention heads of every layer.
        standard: layers of the standard transformer.
        looped: layers of the looped one's body, and its iterations.
        algoformer: layers before, in and after the loop, and its iterations.
        window: the iterations that the loss reads at most; each takes a product with the vocabulary.
    """

    width: int
    heads: int
    standard: int
    looped: tuple[int, int]
    algoformer: tuple[int, int, int, int]
    window: int = 4

    def program(self, name: str, *, causal: bool) -> Program:
        """Return the preset of this name; `nested` and `two_loops` run as often as the algoformer."""
        build = presets.PRESETS[name]
        layer: dict[str, Any] = {"heads": self.heads, "causal": causal}
        if name == "standard":
            return build(self.standard, **layer)
        *layers, steps = {"looped": self.looped}.get(name, self.algoformer)
        if name in ("looped", "algoformer"):
            return build(*layers, steps=steps, **layer)
        return build(steps=steps, **layer)


_LANGUAGE: dict[TextScale, Shape] = {
    "smoke": Shape(width=64, heads=4, standard=4, looped=(1, 3), algoformer=(1, 1, 1, 3)),
    "short": Shape(width=256, heads=8, standard=5, looped=(2, 4), algoformer=(1, 2, 1, 4), window=2),
    "paper": Shape(width=256, heads=8, standard=12, looped=(1, 10), algoformer=(1, 1, 1, 10), window=10),
    "tuned": Shape(width=512, heads=8, standard=12, looped=(2, 6), algoformer=(2, 2, 2, 4), window=2),
}
SHAPES: dict[TextKind, dict[TextScale, Shape]] = {
    "translation": _LANGUAGE,
    "text": _LANGUAGE,
    "labels": {
        "smoke": Shape(width=32, heads=4, standard=4, looped=(1, 3), algoformer=(1, 1, 1, 3)),
        "short": Shape(width=48, heads=4, standard=4, looped=(1, 4), algoformer=(1, 1, 1, 4), window=2),
        "paper": Shape(width=32, heads=1, standard=12, looped=(1, 10), algoformer=(1, 1, 1, 10), window=10),
        "tuned": Shape(width=256, heads=4, standard=6, looped=(1, 6), algoformer=(1, 1, 1, 4), window=2),
    },
}

_SMOKE: dict[str, Any] = {"vocabulary": 1200, "max_length": 32, "batch_tokens": 1024}
# a multiple of this many tokens makes some twenty shapes, each of which is captured once on a GPU
_PAIRS: dict[str, Any] = {"pad_to_multiple_of": 16, "label_smoothing": 0.1}
_LABELS: dict[str, Any] = {
    "vocabulary": 16_000,
    "max_length": 128,
    "batch_tokens": 16_384,
    "pad_to_multiple_of": 32,
}
_IWSLT_EXTRA = "iwslt14_de_en/train_extra_ted_tst2013_2014"
SETTINGS: dict[TextKind, dict[TextScale, dict[str, Any]]] = {
    "translation": {
        "smoke": _SMOKE | {"corpus": ("small_de_en",)},
        "short": _PAIRS
        | {"corpus": ("tatoeba_de_en",), "vocabulary": 5000, "max_length": 48, "batch_tokens": 16_384}
        | {"dropout": 0.1},
        # IWSLT14 has no upper case, so that nothing else may have any
        "paper": _PAIRS
        | {"corpus": ("iwslt14_de_en",), "lowercase": True, "vocabulary": 8000, "dropout": 0.2},
        "tuned": _PAIRS
        | {
            "corpus": ("iwslt14_de_en", _IWSLT_EXTRA, "multi30k_de_en", "tatoeba_de_en"),
            "also_tested": ("multi30k_de_en",),
            "lowercase": True,
            "vocabulary": 8000,
            "batch_tokens": 16_384,
            "dropout": 0.2,
            "attention_dropout": 0.1,
        },
    },
    "labels": {
        "smoke": _SMOKE | {"corpus": "small_topics"},
        "short": _LABELS | {"corpus": "dbpedia", "lowercase": True, "dropout": 0.2, "word_dropout": 0.1},
        "paper": _LABELS | {"corpus": "ag_news", "dropout": 0.1},
        "tuned": _LABELS
        | {"corpus": "ag_news", "label_smoothing": 0.05, "dropout": 0.3}
        | {"attention_dropout": 0.1, "word_dropout": 0.3},
    },
    "text": {
        "smoke": {"vocabulary": 1000, "context": 64},
        "short": {"vocabulary": 5000, "context": 256, "dropout": 0.1},
        "paper": {"vocabulary": 8000, "context": 256, "dropout": 0.2},
        "tuned": {"vocabulary": 8000, "context": 512, "dropout": 0.2, "attention_dropout": 0.1},
    },
}
"""Settings of the data by kind and scale; plain text has no corpus of its own and needs files."""

_DATA: dict[TextKind, Any] = {"translation": TranslationData, "labels": LabelledData, "text": TextData}
_OWN_FILES = {"source", "target", "files", "corpus"}

SMOKE_TRAINING: dict[str, Any] = {
    "steps": 500,
    "optimizer": "muon",
    "lr": 1e-2,
    "schedule": "cosine",
    "warmup": 0.05,
    "clip_norm": 1.0,
    "log_every": 50,
    "validate_every": 100,
    "checkpoint_every": 250,
}
TRAINING: dict[str, Any] = {
    "steps": 20_000,
    "optimizer": "muon",
    "weight_decay": 0.05,
    "betas": (0.9, 0.98),
    "schedule": "cosine",
    "warmup": 0.1,
    "clip_norm": 1.0,
    "checkpoint_every": 2000,
    "precision": "bf16",
}
"""Training of the scales for a GPU. Muon: after 500 steps on IWSLT14 a validation loss of 3.76 where AdamW
had 4.42."""

LEARNING_RATES: dict[TextKind, dict[TextScale, float]] = {
    "translation": {"paper": 5e-3, "tuned": 4e-3, "short": 5e-3},
    "text": {"paper": 5e-3, "tuned": 4e-3, "short": 5e-3},
    "labels": {"paper": 5e-3, "tuned": 2e-3, "short": 3e-3},
}
"""Learning rates, from a few short runs and their validation losses; the same for all three models."""


def text_experiment(
    kind: TextKind, program: str | Program = "algoformer", scale: TextScale = "smoke", **data: Any
) -> Experiment:
    """Return the named program as a translator, a classifier or a language model at a scale.

    Args:
        kind: "translation", "labels" or "text".
        program: "standard", "looped", "algoformer", "nested" or "two_loops", or a program of the user's own.
        scale: how large the model and how long the training are.
        data: settings of the data in place of the recipe's: `source=` and `target=`, `files=`, `corpus=`,
            `vocabulary=` and so on.

    >>> run = text_experiment("labels", "standard", "paper")
    >>> run.width, run.program.parts[0].count, run.program.parts[0].heads
    (32, 12, 1)
    """
    return Experiment(*text_recipe(kind, program, scale, **data))


def text_recipe(kind: TextKind, program: str | Program, scale: TextScale, **data: Any) -> Recipe:
    """Return what `text_experiment` is made of."""
    check_choice("kind", kind, get_args(TextKind))
    check_choice("scale", scale, get_args(TextScale))
    shape = SHAPES[kind][scale]
    if isinstance(program, str):
        check_choice("program", program, presets.PRESETS)
        program = shape.program(program, causal=kind != "labels")
    found, training = text_data(kind, scale, **data), text_training(program, kind, scale)
    return Recipe(program, found, shape.width, training)


def recipe_on_files(kind: str, program: str | Program, scale: Any, files: Sequence[str]) -> Recipe:
    """Return the recipe for the user's own files, or for the corpus of the scale.

    Registered data is trained like "text". Translation takes a source and a target file.
    """
    if kind not in get_args(TextKind):
        shape, data = SHAPES["text"][scale], data_class(kind)
        built = shape.program(program, causal=True) if isinstance(program, str) else program
        found = data(files=tuple(files)) if files else data()
        return Recipe(built, found, shape.width, text_training(built, "text", scale))
    settings: dict[str, Any] = {"files": tuple(files)} if files else {}
    if files and kind == "translation":
        if len(files) != 2:
            raise ValueError(
                f"--data translation takes two files, the source and the target, got {len(files)}; "
                "line n of one is the translation of line n of the other"
            )
        settings = {"source": files[0], "target": files[1]}
    return text_recipe(kind, program, scale, **settings)  # type: ignore[arg-type]


def text_data(kind: TextKind, scale: TextScale = "smoke", **data: Any) -> Data:
    """Return the data of a recipe, with these settings in place of its own."""
    settings = dict(SETTINGS[kind][scale])
    if _OWN_FILES & set(data):
        settings = {name: value for name, value in settings.items() if name not in ("corpus", "also_tested")}
    return _DATA[kind](**settings | data)


def text_training(program: Program, kind: TextKind, scale: TextScale = "smoke") -> TrainConfig:
    """Return how a program is trained on text at a scale."""
    steps = default_steps(program) if traced_part(program) is not None else 1
    found: dict[str, Any] = {"window": min(steps, SHAPES[kind][scale].window)}
    if sees_input_once(program):
        found["backprop"] = "full"
    if scale == "smoke":
        return TrainConfig(**found, **SMOKE_TRAINING)
    found |= {"lr": LEARNING_RATES[kind][scale], "validate_every": 200 if kind == "labels" else 500}
    if scale != "paper":
        # an average over the last steps is for many of them: classifiers take some thousand
        found |= {"ema": 0.99 if kind == "labels" else 0.998, "backprop": "full"}
    return TrainConfig(**TRAINING | found)
