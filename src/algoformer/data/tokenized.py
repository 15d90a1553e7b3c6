"""What tokenized text in splits has in common: settings, tokenizer, batches of like length, validation."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from algoformer.common.plain_data import MOST, as_data, read_dataclass
from algoformer.config import TrainConfig
from algoformer.data.protocol import Data, Loss, Metrics, Share
from algoformer.language.batches import BatchPlan
from algoformer.language.lines import SIGN
from algoformer.language.packing import PackedText
from algoformer.language.scores import TokenLoss
from algoformer.language.text import Corpus
from algoformer.language.tokenizer import Tokenizer
from algoformer.language.tokens import TokenPairs, TokenTable, TokenTexts
from algoformer.model.program import Program, default_steps
from algoformer.trace import Unroll

LOWERCASE_NOTE = "all text, references too, is lower case"

Split = TypeVar("Split", TokenPairs, TokenTexts)
Paths = tuple[str, ...] | list[str | Path] | tuple[str | Path, ...] | str | Path
"""One path or several; stored as a tuple of strings."""

TextBatch = dict[str, Tensor]
"""Tensors by name: "input_ids", "attention_mask", targets, and "scale" where processes share a batch."""


@dataclass(frozen=True, kw_only=True)
class TokenizedData(ABC, Generic[Split]):
    """Text in a training, a validation and test splits, tokenized by a BPE that is learned from the first."""

    vocabulary: int = 8000
    """Tokens of the tokenizer, at most."""
    max_length: int = 128
    """Tokens of a text, or of either side of a pair, at most."""
    batch_tokens: int = 8192
    """Tokens in a batch, padding counted."""
    pad_to_multiple_of: int = 8
    """Lengths are padded to a multiple of this, so that a run sees few shapes."""
    lowercase: bool = False
    """Turn all text to lower case, references too."""
    dropout: float = 0.0
    """Dropout of the embeddings and of what each layer adds."""
    attention_dropout: float = 0.0
    """Dropout of the attention weights."""
    word_dropout: float = 0.0
    """Fraction of the tokens whose whole embedding is dropped while training."""
    label_smoothing: float = 0.0
    """Fraction of the target's probability that is spread over all answers."""
    folder: str | None = field(default=None, compare=False)
    """The folder with named corpora, or "hub"; None asks the environment variable ALGOFORMER_DATA."""
    tokenizer: Tokenizer | None = field(default=None, compare=False, repr=False)
    """The tokenizer; None learns one from the training split when it is first needed."""
    packed: PackedText | None = field(default=None, compare=False, repr=False)
    """The tokens, where they are made already; None reads the corpus when they are first needed."""
    digest: str = field(default="", compare=False, repr=False)
    """The SHA-256 of the training tokens of the run that stored this data; empty if there was none."""

    name: ClassVar[str]
    measures: ClassVar[tuple[str, ...]] = ("loss", "last_loss", "tokens")
    fixed_shapes: ClassVar[bool] = False

    def __post_init__(self) -> None:
        for name in ("vocabulary", "max_length", "batch_tokens", "pad_to_multiple_of"):
            if type(getattr(self, name)) is not int or not 1 <= getattr(self, name) <= MOST:
                raise ValueError(f"{name} must be a whole number of at least 1, got {getattr(self, name)}")
        for name in ("dropout", "attention_dropout", "word_dropout", "label_smoothing"):
            if not 0 <= getattr(self, name) < 1:
                raise ValueError(f"{name} is a fraction in [0, 1), got {getattr(self, name)}")
        if self.batch_tokens < self.context:
            raise ValueError(
                f"batch_tokens must hold the longest sequence, {self.context} tokens, got "
                f"{self.batch_tokens}; raise it, or choose a smaller max_length"
            )

    @property
    @abstractmethod
    def context(self) -> int:
        """The most tokens of a sequence that is trained on, padding counted."""

    @abstractmethod
    def _corpus(self) -> Corpus:
        """Read the text."""

    @abstractmethod
    def _encode(self, tokenizer: Tokenizer, name: str, split: Any) -> Split:
        """Tokenize a split."""

    @abstractmethod
    def _tables(self, split: Split) -> tuple[TokenTable, ...]:
        """Return the columns of tokens of a split."""

    @abstractmethod
    def _plan(self, split: Split, seed: int | None) -> BatchPlan:
        """Plan the batches of a split: shuffled and all full with a seed, in order of length without."""

    @abstractmethod
    def _batch(self, split: Split, rows: Any, length: int, *, round_to: int = 1) -> TextBatch:
        """Return rows of a split as tensors on the CPU."""

    @abstractmethod
    def _count(self, batch: TextBatch) -> int:
        """Return how many answers the loss of a batch is a mean over."""

    @abstractmethod
    def window_loss(
        self, model: Any, batch: TextBatch, unroll: Unroll, *, smoothing: float
    ) -> tuple[Tensor, Tensor]:
        """Return the mean cross-entropy over the window, and that of each iteration without gradient."""

    @cached_property
    def text(self) -> PackedText:
        """The tokens of every split with their tokenizer; made when first asked for."""
        if self.packed is not None:
            return self.packed
        corpus: Any = self._corpus()
        if self.lowercase:
            corpus = corpus.mapped(str.lower, note=LOWERCASE_NOTE)
        tokenizer = self.tokenizer or Tokenizer.train(_texts(corpus.train), vocabulary=self.vocabulary)
        splits: dict[str, Any] = {
            name: self._encode(tokenizer, name, split)
            for name, split in corpus.splits().items()
            if name == "train" or not name.startswith("train")  # a further training split is read by name
        }
        for name in ("train", "valid"):
            if not len(splits[name]):
                raise ValueError(f"the {name} split of {corpus.name} holds no text that fits max_length")
        card: dict[str, Any] = {
            "corpus": corpus.name,
            "classes": list(corpus.classes),
            "notes": [*corpus.notes, *splits["train"].notes],
            "files": dict(corpus.files),
            "terms": corpus.terms,
            "settings": self.settings(),
            "spelling": {
                "lowercase": all(text == text.lower() for text in _texts(corpus.train)),
                "only_words": not any(SIGN.search(text) for text in _texts(corpus.train)),
            },
        }
        return PackedText(splits=splits, tokenizer=tokenizer, card=card)

    @property
    def known_tokenizer(self) -> Tokenizer:
        """The tokenizer of the data: the given one, or the one that is learned from its training split."""
        return self.tokenizer or self.text.tokenizer

    def check(self, program: Program, training: TrainConfig) -> None:
        """Refuse settings of training that have no meaning for tokenized text."""
        refuse_prompt_settings(training)
        if training.batch_size != TrainConfig.batch_size:
            raise ValueError(
                "batch_size has no meaning here: a batch is batch_tokens of the data; leave it out"
            )

    def batches(self, model: nn.Module, training: TrainConfig, share: Share) -> TokenBatches:
        """Open the shuffled batches of the training split."""
        return TokenBatches(self, next(model.parameters()).device, training.seed, share)

    def loss(self, model: Any, batch: TextBatch, unroll: Unroll, training: TrainConfig) -> Loss:
        """Return the mean cross-entropy over the window, that of the last iteration, and the tokens read."""
        mean, by_step = self.window_loss(model, batch, unroll, smoothing=self.label_smoothing)
        last, tokens = by_step[-1], batch["attention_mask"].sum()
        if "scale" in batch:  # a process's share of the answers may be more or less than its part
            mean, last, tokens = mean * batch["scale"], last * batch["scale"], tokens * batch["processes"]
        return Loss(mean, (mean.detach(), last.detach(), tokens.to(last.dtype)))

    @torch.no_grad()
    def split_loss(self, model: nn.Module, split: Split, *, bf16: bool = False) -> TokenLoss:
        """Return the cross-entropy on a whole split at the last iteration, without label smoothing."""
        device, total = next(model.parameters()).device, TokenLoss()
        unroll = Unroll(steps=default_steps(model.program), window=1)  # type: ignore[arg-type]
        with evaluating(model, bf16=bf16):
            for length, rows in self._plan(split, None):
                batch = {name: value.to(device) for name, value in self._batch(split, rows, length).items()}
                mean, _ = self.window_loss(model, batch, unroll, smoothing=0.0)
                count = self._count(batch)
                total += TokenLoss(nats=float(mean) * count, tokens=count)
        return total

    def merit(self, validation: Metrics) -> tuple[float, ...]:
        """Return the negative loss: the smallest loss is the best."""
        return (-validation["valid_loss"],)

    def settings(self) -> dict[str, Any]:
        """Return the stored fields in plain JSON types."""
        stored = {item.name: as_data(getattr(self, item.name)) for item in fields(self) if _is_stored(item)}
        return {"name": self.name, "settings": stored}

    def header(self) -> dict[str, Any]:
        """Return the settings and the tokenizer."""
        return {**self.settings(), "tokenizer": self.known_tokenizer.to_json(), "digest": self.train_digest}

    @classmethod
    def from_header(cls, header: Mapping[str, Any]) -> Any:
        """Rebuild the data from its header; the text itself is read again when it is needed."""
        stored, tokenizer = header.get("settings"), header.get("tokenizer")
        names = {item.name for item in fields(cls) if _is_stored(item)}
        if not isinstance(stored, Mapping) or not set(map(str, stored)) <= names:
            raise ValueError(f"data {cls.name!r} has the settings {', '.join(sorted(names))} and no others")
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
        same = self.packed is None or self.packed.tokenizer == stored.tokenizer
        if not same or data.train_digest != stored.digest:
            raise ValueError(
                "the text is not the one that the run began with: its corpus or tokenizer has changed; "
                "resume with the original text, or start again in another folder"
            )
        return data

    @cached_property
    def train_digest(self) -> str:
        """The SHA-256 of the training tokens, or the stored one where the text was not read."""
        if self.digest and "text" not in self.__dict__ and self.packed is None:
            return self.digest
        digest = hashlib.sha256()
        for table in self._tables(self.text.splits["train"]):  # type: ignore[arg-type]
            digest.update(np.ascontiguousarray(table.ids).data)
            digest.update(np.ascontiguousarray(table.offsets).data)
        return digest.hexdigest()

    def facts(self) -> dict[str, Any]:
        """Return what a card says about the text: its kind, source, terms and spelling."""
        card = self.text.card
        kept = {name: card[name] for name in ("corpus", "terms", "files", "notes") if name in card}
        only_words = card.get("spelling", {}).get("only_words") is True
        return {"kind": self.name, **kept, "lowercase": self.lowercase, "only_words": only_words}

    def _paths(self, name: str) -> tuple[str, ...]:
        return as_paths(getattr(self, name), name)

    def _keep(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value)

    def _model_sizes(self, width: int) -> dict[str, Any]:
        return {
            "vocabulary": len(self.known_tokenizer),
            "context": self.context,
            "width": width,
            "dropout": self.dropout,
            "attention_dropout": self.attention_dropout,
            "word_dropout": self.word_dropout,
        }


class TokenBatches:
    """The batches of a tokenized training split; on CUDA those of one shape always lie in the same place."""

    generator = None

    def __init__(self, data: TokenizedData, device: torch.device, seed: int, share: Share) -> None:
        self.data, self.device, self.share = data, device, share
        self.split = data.text.splits["train"]
        self.plan = data._plan(self.split, seed)
        smallest = min(rows for rows, _ in self.plan.shapes)
        if smallest < share.processes:
            raise ValueError(
                f"a batch of {data.batch_tokens} tokens has {smallest} sequences of the longest, which "
                f"{share.processes} processes cannot share; raise batch_tokens"
            )
        self.round_to = TARGETS_ON_CUDA if device.type == "cuda" else 1
        self._batch: TextBatch = {}
        self._places: dict[Hashable, TextBatch] = {}

    def select(self, step: int) -> Hashable:
        """Make the batch of a step, this process's share of it, and put it on the device."""
        length, rows = self.plan.rows(step)
        share, data = self.share, self.data
        whole: TextBatch = data._batch(self.split, rows, length, round_to=self.round_to)
        if share.processes > 1:
            total, own = data._count(whole), rows[share.rank :: share.processes]
            whole = data._batch(self.split, own, length, round_to=self.round_to)
            whole["scale"] = torch.tensor(data._count(whole) * share.processes / total)
            whole["processes"] = torch.tensor(share.processes)
        key = tuple((name, value.shape) for name, value in whole.items())
        self._batch = placed(whole, self.device, self._places, key)
        return key

    def current(self) -> TextBatch:
        """Return the selected batch."""
        return self._batch

    def metrics(self, step: int) -> Metrics:
        """Return nothing: text has no curriculum."""
        return {}


TARGETS_ON_CUDA = 1024
"""On CUDA the number of predicted tokens is rounded up to a multiple of this: few shapes, few graphs."""


def placed(
    batch: TextBatch, device: torch.device, places: dict[Hashable, TextBatch], key: Hashable
) -> TextBatch:
    """Move a batch to a device; on CUDA into the same memory as all batches with its key."""
    if device.type != "cuda":
        return {name: value.to(device) for name, value in batch.items()}
    if key not in places:
        places[key] = {name: torch.empty_like(value, device=device) for name, value in batch.items()}
    for name, place in places[key].items():
        # from pinned memory the copy waits for the step before it, and the host for neither
        place.copy_(batch[name].pin_memory(), non_blocking=True)
    return places[key]


class evaluating:
    """Put a model into evaluation mode inside, with matrix products in bf16 where that is allowed."""

    def __init__(self, model: nn.Module, *, bf16: bool) -> None:
        self.model, self.training = model, model.training
        device = next(model.parameters()).device.type
        self.context = torch.autocast(device, dtype=torch.bfloat16) if bf16 else nullcontext()

    def __enter__(self) -> None:
        self.model.eval()
        self.context.__enter__()

    def __exit__(self, *failure: Any) -> None:
        self.context.__exit__(*failure)
        self.model.train(self.training)


def refuse_prompt_settings(training: TrainConfig) -> None:
    """Refuse settings of training that only prompts of a task have."""
    for name in ("dims", "samples"):
        if getattr(training, name) is not None:
            raise ValueError(f"{name}: text has no such curriculum; leave it out")
    if training.loss != "mean":
        raise ValueError(f"loss={training.loss!r} is for prompts; that of text is the cross-entropy")


def as_paths(value: Any, name: str) -> tuple[str, ...]:
    """Return a path or several as strings."""
    if isinstance(value, str | Path):
        return (str(value),)
    if isinstance(value, list | tuple) and all(isinstance(item, str | Path) for item in value):
        return tuple(map(str, value))
    raise ValueError(f"{name} must be a path or several, got {value!r}")


def _is_stored(item: Any) -> bool:
    # the others are local to this machine, or learned from the text
    return bool(item.compare)


def _texts(split: Any) -> Iterator[str]:
    for column in split.columns():
        yield from column
