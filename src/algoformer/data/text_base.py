"""The settings, the stored form and the batches that all kinds of text data share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from algoformer.common.plain_data import MOST, as_data, check_count, read_dataclass
from algoformer.common.terminal import short
from algoformer.config import TrainConfig
from algoformer.data.exits import EXIT_LOSSES, check_exit
from algoformer.data.protocol import Data, Metrics
from algoformer.language.token_model import TokenModel
from algoformer.language.tokenizer import Tokenizer
from algoformer.language.trunk import TextModel
from algoformer.model.program import Program, learns_to_halt

Paths = tuple[str, ...] | list[str | Path] | tuple[str | Path, ...] | str | Path
"""One path or several; stored as a tuple of strings."""

TRAINING_TEXT = ("files", "source", "target", "corpus")
"""The settings that name the training text; each kind of data has some of them."""

TextBatch = dict[str, Tensor]
"""Tensors by name: "input_ids", "attention_mask", targets, and "scale" where processes share a batch."""


@dataclass(frozen=True, kw_only=True)
class BaseTextData(ABC):
    """Text with a tokenizer that is learned from its training split."""

    vocabulary: int = 8000
    """The maximum number of tokens of the tokenizer."""
    split_seed: int = 0
    """Seed of the split where text is held out for validation and test."""
    dropout: float = 0.0
    """Dropout of the embeddings and of what each layer adds."""
    attention_dropout: float = 0.0
    """Dropout of the attention weights."""
    tokenizer: Tokenizer | None = field(default=None, compare=False, repr=False)
    """The tokenizer; None learns one from the training split when it is first needed."""
    digest: str = field(default="", compare=False, repr=False)
    """The SHA-256 of the training tokens of the run that stored this data; empty if there was none, or if the
    training text has been replaced by another."""
    digest_of: tuple[Any, ...] = field(default=(), compare=False, repr=False)
    """The names of the text that `digest` was computed of; filled in."""

    name: ClassVar[str]
    model_class: ClassVar[type[TextModel]] = TokenModel
    path_settings: ClassVar[tuple[str, ...]]
    counts: ClassVar[tuple[str, ...]]
    fractions: ClassVar[tuple[str, ...]] = ("dropout", "attention_dropout")

    def __post_init__(self) -> None:
        for name in self.path_settings:
            self._keep(name, as_paths(getattr(self, name), name))
        for name in self.counts:
            check_count(name, getattr(self, name), most=MOST)
        for name in self.fractions:
            if not 0 <= getattr(self, name) < 1:
                raise ValueError(f"{name} is a fraction in [0, 1), got {short(getattr(self, name))}")
        if self.digest_of not in ((), self._training_text()):  # `dataclasses.replace` named another text
            self._keep("digest", "")
        self._keep("digest_of", self._training_text())

    @property
    @abstractmethod
    def known_tokenizer(self) -> Tokenizer:
        """The tokenizer of the data: the given one, or the one that is learned from its training split."""

    @property
    @abstractmethod
    def text_is_read(self) -> bool:
        """True if the text was read and tokenized already."""

    @property
    @abstractmethod
    def text_digest(self) -> str:
        """The SHA-256 of the training tokens of the text as it is now."""

    @property
    def train_digest(self) -> str:
        """The SHA-256 of the training tokens, or the stored one where the text was not read."""
        return self.digest if self.digest and not self.text_is_read else self.text_digest

    def check_held_out(self, files: str) -> None:
        """Refuse a split without `files` of its own, held out from another text than the stored run had."""
        if self.digest and not self._paths(files) and self.text_digest != self.digest:
            raise ValueError(
                "the text is not the one that the run was trained on: its files, corpus or tokenizer have "
                "changed, so that training text may be held out; restore it, or give other text as "
                f"{files} files"
            )

    def check(self, program: Program, training: TrainConfig) -> None:
        """Refuse settings of training that only prompts of a task have."""
        for name in ("dims", "samples"):
            if getattr(training, name) is not None:
                raise ValueError(f"{name}: text has no such curriculum; leave it out")
        if training.loss not in ("mean", *EXIT_LOSSES):
            raise ValueError(f"loss={training.loss!r} is for prompts; that of text is the cross-entropy")
        if training.loss in EXIT_LOSSES or learns_to_halt(program):
            check_exit(program, training)

    def merit(self, validation: Metrics) -> tuple[float, ...]:
        """Return the negative loss: the smallest loss is the best."""
        return (-validation["valid_loss"],)

    def settings(self) -> dict[str, Any]:
        """Return the stored fields in plain JSON types."""
        return {"name": self.name, "settings": {one: as_data(getattr(self, one)) for one in self._stored()}}

    def header(self) -> dict[str, Any]:
        """Return the settings and the tokenizer."""
        return {**self.settings(), "tokenizer": self.known_tokenizer.to_json(), "digest": self.train_digest}

    @classmethod
    def from_header(cls, header: Mapping[str, Any]) -> Any:
        """Rebuild the data from its header; the text itself is read again when it is needed."""
        stored, tokenizer = header.get("settings"), header.get("tokenizer")
        if not isinstance(stored, Mapping) or not set(map(str, stored)) <= set(cls._stored()):
            known = ", ".join(sorted(cls._stored()))
            raise ValueError(f"data {cls.name!r} has the settings {known} and no others")
        data = read_dataclass(cls, stored)
        if tokenizer is not None:
            if not isinstance(tokenizer, str):
                raise ValueError(f"the tokenizer must be text, got {type(tokenizer).__name__}")
            data._keep("tokenizer", Tokenizer.from_json(tokenizer))
        data._keep("digest", str(header.get("digest", ""))[:64])
        return data

    def resumed(self, stored: Data) -> Any:
        """Return this data with the tokenizer of the run that is resumed; refuse text that has changed."""
        assert isinstance(stored, type(self))
        data = replace(self, tokenizer=stored.tokenizer)
        if data.train_digest != stored.digest:
            raise ValueError(
                "the text is not the one that the run began with: its files, corpus or tokenizer have "
                "changed; resume with the original text, or start again in another folder"
            )
        return data

    def begun_with(self, stored: object) -> Any:
        """Return this data with the tokenizer of the data that a run's initial model was trained on.

        Raises:
            ValueError: this data has another tokenizer of its own.
        """
        if not isinstance(stored, BaseTextData):
            return self
        learned = getattr(self, "tokenize", "bpe") == "bpe" and getattr(self, "packed", None) is None
        if self.tokenizer is None and learned:
            return replace(self, tokenizer=stored.known_tokenizer)
        if self.known_tokenizer != stored.known_tokenizer:
            raise ValueError(
                f"data {self.name!r} has another tokenizer than the model to start from; give none, and that "
                "of the model is taken"
            )
        return self

    @property
    def dropouts(self) -> dict[str, float]:
        """The dropout rates of a model that is trained on this data, by name."""
        return {name: getattr(self, name) for name in self.fractions if name.endswith("dropout")}

    def build_model(self, program: Program, width: int, training: TrainConfig) -> Any:
        """Return a model with fresh weights that `training.seed` alone decides."""
        sizes = {"vocabulary": len(self.known_tokenizer), "width": width}
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(training.seed)
            return self._new_model(program, **sizes, **self.dropouts)

    @abstractmethod
    def _new_model(self, program: Program, **sizes: Any) -> TextModel:
        """Return a model of the kind that this data needs."""

    def check_model(self, model: nn.Module) -> None:
        """Refuse a model of another kind or vocabulary."""
        if not isinstance(model, self.model_class):
            kind, found = self.model_class.__name__, type(model).__name__
            raise ValueError(f"data {self.name!r} needs a {kind}, got a {found}")
        if model.vocabulary != len(self.known_tokenizer):
            tokens = len(self.known_tokenizer)
            raise ValueError(f"the model has {model.vocabulary} tokens, the tokenizer {tokens}")
        needed = getattr(self, "prefix_lm", False)
        if isinstance(model, TokenModel) and model.prefix_lm != needed:
            raise ValueError(f"the model has prefix_lm={model.prefix_lm}, the data needs {needed}")

    @classmethod
    def _stored(cls) -> list[str]:
        # the other fields are local to this machine, or learned from the text
        return [item.name for item in fields(cls) if item.compare]

    def _keep(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value)

    def _training_text(self) -> tuple[Any, ...]:
        return tuple(getattr(self, name) for name in TRAINING_TEXT if hasattr(self, name))

    def _paths(self, name: str) -> tuple[str, ...]:
        return as_paths(getattr(self, name), name)


class HeldBatch:
    """The current batch of a run; on CUDA, batches with one key of shapes always lie in the same memory."""

    generator = None

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self._batch: TextBatch = {}
        self._places: dict[Hashable, TextBatch] = {}

    def hold(self, batch: TextBatch, key: Hashable) -> None:
        """Move a batch to the device and make it the current one."""
        if self.device.type != "cuda":
            self._batch = {name: value.to(self.device) for name, value in batch.items()}
            return
        if key not in self._places:
            empty = {name: torch.empty_like(value, device=self.device) for name, value in batch.items()}
            self._places[key] = empty
        self._batch = self._places[key]
        for name, place in self._batch.items():
            # from pinned memory the copy waits for the step before it, and the host for neither
            place.copy_(batch[name].pin_memory(), non_blocking=True)

    def current(self) -> TextBatch:
        """Return the selected batch."""
        return self._batch

    def metrics(self, step: int) -> Metrics:
        """Return nothing: text has no curriculum."""
        return {}


@contextmanager
def evaluating(model: nn.Module, *, bf16: bool) -> Iterator[None]:
    """Put a model into evaluation mode inside, with matrix products in bf16 where that is allowed."""
    training, device = model.training, next(model.parameters()).device.type
    model.eval()
    try:
        with torch.autocast(device, dtype=torch.bfloat16) if bf16 else nullcontext():
            yield
    finally:
        model.train(training)


def as_paths(value: Any, name: str) -> tuple[str, ...]:
    """Return a path or several as strings."""
    if isinstance(value, str | Path):
        return (str(value),)
    if isinstance(value, list | tuple) and all(isinstance(item, str | Path) for item in value):
        return tuple(map(str, value))
    raise ValueError(f"{name} must be a path or several, got {short(value)}")
