"""A model of text with the tokenizer and the facts that are needed to use it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar, runtime_checkable

from torch import nn

from algoformer.language.classifier import TextClassifier
from algoformer.language.token_model import TokenModel
from algoformer.language.tokenizer import Tokenizer


@runtime_checkable
class TextModelFile(Protocol):
    """Anything that holds a model of text and its tokenizer, such as a loaded checkpoint."""

    @property
    def model(self) -> nn.Module:
        """The model."""

    @property
    def tokenizer(self) -> str:
        """The tokenizer as JSON; empty if there is none."""

    @property
    def card(self) -> Mapping[str, Any]:
        """Facts about the model, among them how its text is spelled."""


def held_instead(model: nn.Module) -> str:
    """Return what a checkpoint holds in place of a model of text of the wanted kind, and what it is for.

    >>> held_instead(nn.Identity())
    'a model that answers prompts of numbers; use evaluate'
    """
    if isinstance(model, TextClassifier):
        return "a classifier; use classify"
    if isinstance(model, TokenModel):
        return "a translator or language model; use translate or generate"
    return "a model that answers prompts of numbers; use evaluate"


@dataclass(frozen=True, kw_only=True)
class TextCheckpoint:
    """A model of text and what is needed to use it.

    Attributes:
        model: the model.
        tokenizer: the tokenizer as JSON; empty if there is none.
        card: facts about it in plain JSON types, among them `lowercase` and `only_words`.
    """

    model: TokenModel | TextClassifier
    tokenizer: str = ""
    card: Mapping[str, Any] = field(default_factory=dict)


Model = TypeVar("Model", TokenModel, TextClassifier)


class TextTool(Generic[Model]):
    """The base of translator, classifier and writer: a model and its tokenizer, ready for a user's text.

    `kind` is the class that the model must have, and `name` what such a model is called. The model stays on
    its device. `answers` is the number of answers so far: tokens, or labels.
    """

    def __init__(self, checkpoint: TextModelFile, kind: type[Model], name: str) -> None:
        if not isinstance(checkpoint.model, kind):
            raise ValueError(f"this is not a {name}: the checkpoint holds {held_instead(checkpoint.model)}")
        if not checkpoint.tokenizer:
            raise ValueError("the checkpoint has no tokenizer, so it cannot read text")
        self.model: Model = checkpoint.model.eval()
        self.tokenizer = Tokenizer.from_json(checkpoint.tokenizer)
        self.lowercase = checkpoint.card.get("lowercase") is True
        self.only_words = checkpoint.card.get("only_words") is True
        tokens, known = len(self.tokenizer), self.model.vocabulary
        if tokens != known:
            raise ValueError(f"the tokenizer has {tokens} tokens, the model {known}")
        self.answers = 0
        self._iterations = 0.0

    @property
    def iterations(self) -> float:
        """The mean number of loop iterations per answer so far; NaN before the first."""
        return self._iterations / self.answers if self.answers else math.nan

    def count(self, answers: int, iterations: float) -> None:
        """Take note of answers, and of the mean number of loop iterations that each took."""
        self.answers += answers
        self._iterations += answers * iterations
