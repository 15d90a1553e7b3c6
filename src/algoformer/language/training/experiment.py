"""A run on text as frozen data: program, corpora, tokens and how to train."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Literal, get_args

import torch

from algoformer.language.classifier import TextClassifier
from algoformer.language.token_model import TokenModel
from algoformer.model.algoformer import modules_of
from algoformer.model.parts import head_width
from algoformer.model.program import Program, from_data, to_data
from algoformer.training.config import TrainConfig, check_loop
from algoformer.common.plain_data import MOST, as_data, read_dataclass

Kind = Literal["translation", "classification"]


@dataclass(frozen=True, kw_only=True)
class TextSettings:
    """What is read and how: everything about a run on text but its program and its steps."""

    kind: Kind = "translation"
    """What is learned: to translate, or to name the class of a text."""
    corpora: tuple[str, ...] = ("small_de_en",)
    """Sets by name. The first is validated and tested on; for translation all of them are trained on. As
    SET/SPLIT, another training split of a set."""
    also_tested: tuple[str, ...] = ()
    """For translation: further sets whose test splits are scored; nothing in those is trained on."""
    lowercase: bool = False
    """Whether all text is lower case, for sets that have no other."""
    vocabulary: int = 8000
    """Tokens of the tokenizer, at most."""
    longest: int = 128
    """Tokens of a text, or of either side of a pair, at most: longer pairs are left out of training, longer
    texts to classify are shortened."""
    budget: int = 8192
    """Tokens in a batch, padding counted."""
    multiple: int = 8
    """Lengths are padded to a multiple of this, so that a run sees few shapes."""
    prefix_lm: bool = True
    """For translation: whether the tokens of the given sentence see each other whatever their order."""
    tied: bool = True
    """For translation: whether the embedding is also the map to scores."""
    dropout: float = 0.0
    """Share of the embeddings and of what each layer adds that is left out while training."""
    attention_dropout: float = 0.0
    """Share of what heads read that is left out while training."""
    word_dropout: float = 0.0
    """Share of the tokens whose embedding is left out while training."""
    smoothing: float = 0.0
    """Share of the right answer's probability that is spread over all answers."""
    validate_every: int = 500
    """Steps between two looks at the validation split; best weights are kept. A multiple of log_every."""

    def __post_init__(self) -> None:
        if self.kind not in get_args(Kind):
            raise ValueError(f"kind must be one of {', '.join(get_args(Kind))}, got {self.kind!r}")
        if not self.corpora or (self.kind == "classification" and len(self.corpora) > 1):
            raise ValueError(f"corpora must name a set, and only one to classify, got {self.corpora}")
        if self.also_tested and self.kind == "classification":
            raise ValueError(f"also_tested is for translation: labels differ, got {self.also_tested}")
        for name in ("vocabulary", "longest", "budget", "multiple", "validate_every"):
            if type(getattr(self, name)) is not int or not 1 <= getattr(self, name) <= MOST:
                raise ValueError(f"{name} must be a whole number of at least 1, got {getattr(self, name)}")
        for name in ("dropout", "attention_dropout", "word_dropout", "smoothing"):
            if not 0 <= getattr(self, name) < 1:
                raise ValueError(f"{name} is a share in [0, 1), got {getattr(self, name)}")
        if self.budget < self.context:
            raise ValueError(
                f"budget must hold a sequence of the longest there are, {self.context} tokens, "
                f"got {self.budget}; raise it, or choose a smaller longest"
            )

    @property
    def context(self) -> int:
        """The most tokens of a sequence that is trained on, padding counted."""
        tokens = 2 * self.longest + 1 if self.kind == "translation" else self.longest
        return -(-tokens // self.multiple) * self.multiple


MEANINGLESS = {
    "batch": "a batch is text.budget tokens",
    "dims": "text has no such curriculum",
    "points": "text has no such curriculum",
    "loss": "it is the cross-entropy",
    "fp32_end": "text is trained in one precision",
}
"""Settings of training that text does not have, and why."""


@dataclass(frozen=True, kw_only=True)
class TextExperiment:
    """What is trained on which text, and how: all that is needed to do it again.

    Attributes:
        program: what is run; causal for translation, with full attention for classification.
        width: of the stream.
        text: what is read, and how.
        training: how to train. A batch is `text.budget` tokens, so that its `batch` means nothing here, as
            do the curricula over coordinates and points.
    """

    program: Program
    width: int = 256
    text: TextSettings = field(default_factory=TextSettings)
    training: TrainConfig = field(default_factory=TrainConfig)

    def __post_init__(self) -> None:
        if type(self.width) is not int or self.width < 1:
            raise ValueError(f"width must be a whole number of at least 1, got {self.width!r}")
        for layers in modules_of(self.program):
            head_width(layers, self.width)  # refuses heads that do not divide the width
        for name, hint in MEANINGLESS.items():
            default = next(one.default for one in fields(TrainConfig) if one.name == name)
            if getattr(self.training, name) != default:
                raise ValueError(f"training.{name} has no meaning for text: {hint}; leave it out")
        if self.text.validate_every % self.training.log_every:
            raise ValueError(
                f"validate_every must be a multiple of log_every ({self.training.log_every}), "
                f"got {self.text.validate_every}"
            )
        check_loop(self.program, self.training)

    def to_data(self) -> dict[str, Any]:
        """Lists, dicts, strings and numbers."""
        return {
            "program": to_data(self.program),
            "width": self.width,
            "text": as_data(self.text),
            "training": as_data(self.training),
        }

    @classmethod
    def from_data(cls, data: object) -> TextExperiment:
        """Read what `to_data` wrote; anything else raises ValueError."""
        if not isinstance(data, Mapping) or set(data) != {"program", "width", "text", "training"}:
            raise ValueError("an experiment on text has exactly the keys program, width, text and training")
        return cls(
            program=from_data(data["program"]),
            width=data["width"],
            text=read_dataclass(TextSettings, data["text"]),
            training=read_dataclass(TrainConfig, data["training"]),
        )


def build_text_model(
    experiment: TextExperiment, *, vocabulary: int, labels: Sequence[str] = ()
) -> TokenModel | TextClassifier:
    """The experiment's model with fresh weights that the seed alone decides."""
    text = experiment.text
    sizes: dict[str, Any] = {
        "vocabulary": vocabulary,
        "context": text.context,
        "width": experiment.width,
        "dropout": text.dropout,
        "attention_dropout": text.attention_dropout,
        "word_dropout": text.word_dropout,
    }
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(experiment.training.seed)
        if text.kind == "classification":
            return TextClassifier(experiment.program, labels=labels, **sizes)
        return TokenModel(experiment.program, tied=text.tied, prefix_lm=text.prefix_lm, **sizes)
