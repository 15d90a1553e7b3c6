"""A model of text with the tokenizer and the facts that are needed to use it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from torch import nn

from algoformer.language.classifier import TextClassifier
from algoformer.language.token_model import TokenModel


@runtime_checkable
class TextModelFile(Protocol):
    """Anything that holds a model of text and its tokenizer, such as a loaded checkpoint."""

    @property
    def model(self) -> nn.Module:
        """The model."""
        ...

    @property
    def tokenizer(self) -> str:
        """The tokenizer as JSON; empty if there is none."""
        ...

    @property
    def card(self) -> Mapping[str, Any]:
        """Facts about the model, among them how its text is spelled."""
        ...


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
