"""Text in splits that is tokenized as a whole: the base of parallel and labelled text."""

from __future__ import annotations

import hashlib
from abc import abstractmethod
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from algoformer.config import TrainConfig
from algoformer.data.protocol import Data, Loss, Share
from algoformer.data.text_base import BaseTextData, HeldBatch, TextBatch, evaluating
from algoformer.language.batches import BatchPlan
from algoformer.language.lines import SIGN
from algoformer.language.packing import PackedText
from algoformer.language.scores import TokenLoss
from algoformer.language.text import Corpus
from algoformer.language.tokenizer import Tokenizer
from algoformer.language.tokens import TokenPairs, TokenTexts
from algoformer.model.program import Program, default_steps
from algoformer.trace import Unroll

if TYPE_CHECKING:
    from algoformer.data.scores import Measurement
    from algoformer.language.checkpoint import TextCheckpoint

LOWERCASE_NOTE = "all text, references too, is lower case"

TARGETS_ON_CUDA = 1024
"""On CUDA the number of predicted tokens is rounded up to a multiple of this: few shapes, few graphs."""

Split = TypeVar("Split", TokenPairs, TokenTexts)


@dataclass(frozen=True, kw_only=True)
class TokenizedData(BaseTextData, Generic[Split]):
    """Text in training, validation and test splits, in batches of sequences of similar length."""

    max_length: int = 128
    """The maximum number of tokens of a text, or of either side of a pair."""
    batch_tokens: int = 8192
    """The maximum number of tokens in a batch, padding counted."""
    pad_to_multiple_of: int = 8
    """Lengths are padded to a multiple of this, so that a run sees few shapes."""
    lowercase: bool = False
    """Turn all text to lower case, references too."""
    word_dropout: float = 0.0
    """Fraction of the tokens whose whole embedding is dropped while training."""
    label_smoothing: float = 0.0
    """Fraction of the target's probability that is spread over all answers."""
    folder: str | None = field(default=None, compare=False)
    """The folder with named corpora, or "hub"; None asks the environment variable ALGOFORMER_DATA."""
    packed: PackedText | None = field(default=None, compare=False, repr=False)
    """The tokens, where they are made already; None reads the corpus when they are first needed."""

    measures: ClassVar[tuple[str, ...]] = ("loss", "last_loss", "tokens")
    default_metrics: ClassVar[tuple[str, ...]]
    fixed_shapes: ClassVar[bool] = False
    counts: ClassVar[tuple[str, ...]] = ("vocabulary", "max_length", "batch_tokens", "pad_to_multiple_of")
    fractions: ClassVar[tuple[str, ...]] = ("dropout", "attention_dropout", "word_dropout", "label_smoothing")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.batch_tokens < self.context:
            raise ValueError(
                f"batch_tokens must hold the longest sequence, {self.context} tokens, got "
                f"{self.batch_tokens}; raise it, or choose a smaller max_length"
            )

    @property
    @abstractmethod
    def context(self) -> int:
        """The maximum number of tokens of a sequence that is trained on, padding counted."""

    @abstractmethod
    def _corpus(self) -> Corpus:
        """Read the text."""

    @abstractmethod
    def _encode(self, tokenizer: Tokenizer, name: str, split: Any) -> Split:
        """Tokenize a split."""

    @abstractmethod
    def _batch(self, split: Split, rows: Any, length: int, *, round_to: int = 1) -> TextBatch:
        """Return rows of a split as tensors on the CPU; "counts" marks the answers that the loss is over."""

    @abstractmethod
    def window_loss(
        self, model: Any, batch: TextBatch, unroll: Unroll, training: TrainConfig | None
    ) -> tuple[Tensor, Tensor]:
        """Return the loss over the window, and the cross-entropy of each iteration without gradient.

        Without training it is the mean cross-entropy, without label smoothing.
        """

    @abstractmethod
    def _answerer(self, checkpoint: TextCheckpoint, options: Mapping[str, Any]) -> Any:
        """Return what answers the texts of a test split, with the options of `evaluate`."""

    @abstractmethod
    def _answers(self, answerer: Any, split: Split) -> list[str]:
        """Return the answers to the texts of a split."""

    @abstractmethod
    def _references(self, split: Split) -> list[str]:
        """Return the right answers to the texts of a split."""

    @abstractmethod
    def _fitting(self, split: Split, context: int) -> Split:
        """Return what of a split a model with this context can read."""

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
            **({"attribution": list(corpus.credits)} if corpus.credits else {}),
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
        super().check(program, training)
        if training.batch_size != TrainConfig.batch_size:
            raise ValueError(
                "batch_size has no meaning here: a batch is batch_tokens of the data; leave it out"
            )

    def batches(self, model: nn.Module, training: TrainConfig, share: Share) -> TokenBatches:
        """Open the shuffled batches of the training split."""
        return TokenBatches(self, next(model.parameters()).device, training.seed, share)

    def loss(self, model: Any, batch: TextBatch, unroll: Unroll, training: TrainConfig) -> Loss:
        """Return the mean cross-entropy over the window, that of the last iteration, and the tokens read."""
        mean, by_step = self.window_loss(model, batch, unroll, training)
        last, tokens = by_step[-1], batch["attention_mask"].sum()
        if "scale" in batch:  # a process's share of the answers may be more or less than its part
            mean, last, tokens = mean * batch["scale"], last * batch["scale"], tokens * batch["processes"]
        return Loss(mean, (mean.detach(), last.detach(), tokens.to(last.dtype)))

    def evaluate(self, model: nn.Module, **options: Any) -> list[Measurement]:
        """Answer every test split whole, and report the scores of the answers and the cross-entropy.

        Args:
            model: the translator or classifier.
            options: `metrics` (names; by default BLEU and chrF for translation, accuracy for labels), and
                those of `language.translate.Decoding` or `language.classify.Classifier`.
        """
        from algoformer.data.scores import measure

        self.check_model(model)
        self.check_held_out("test")
        return measure(self, model, options.pop("metrics", self.default_metrics), options)

    @torch.no_grad()
    def split_loss(self, model: nn.Module, split: Split, *, bf16: bool = False) -> TokenLoss:
        """Return the cross-entropy on a whole split at the last iteration, without label smoothing."""
        total = TokenLoss()
        with evaluating(model, bf16=bf16):
            for batch, unroll in self._evaluation_batches(model, split):
                mean, _ = self.window_loss(model, batch, unroll, None)
                count = int(batch["counts"].sum())
                total += TokenLoss(nats=float(mean) * count, tokens=count)
        return total

    def _evaluation_batches(self, model: Any, split: Split) -> Iterator[tuple[TextBatch, Unroll]]:
        """Yield the batches of a split in order of length on the model's device, each with its unroll."""
        device, unroll = next(model.parameters()).device, Unroll(steps=default_steps(model.program), window=1)
        for length, rows in self._plan(split, None):
            batch = self._batch(split, rows, length)
            yield {name: value.to(device) for name, value in batch.items()}, unroll

    def _plan(self, split: Split, seed: int | None) -> BatchPlan:
        """Plan the batches of a split: shuffled and all full with a seed, in order of length without."""
        return BatchPlan(
            lengths=split.lengths,
            batch_tokens=self.batch_tokens,
            pad_to_multiple_of=self.pad_to_multiple_of,
            seed=seed,
            fill=seed is not None,
        )

    def resumed(self, stored: Data) -> Any:
        """Return this data with the tokenizer of the run that is resumed; refuse text that has changed."""
        if self.packed is not None and self.packed.tokenizer != stored.tokenizer:  # type: ignore[attr-defined]
            raise ValueError("the text is not the one that the run began with: its tokenizer has changed")
        return super().resumed(stored)

    @property
    def text_is_read(self) -> bool:
        """True if the text was read and tokenized already."""
        return "text" in self.__dict__ or self.packed is not None

    @cached_property
    def text_digest(self) -> str:
        """The SHA-256 of the training tokens of the text as it is now."""
        digest = hashlib.sha256()
        for table in self.text.splits["train"].tables().values():
            digest.update(np.ascontiguousarray(table.ids).data)
            digest.update(np.ascontiguousarray(table.offsets).data)
        return digest.hexdigest()

    def facts(self) -> dict[str, Any]:
        """Return what a card says about the text: its kind, source, terms and spelling."""
        card = self.text.card
        names = ("corpus", "terms", "files", "notes", "attribution")
        kept = {name: card[name] for name in names if name in card}
        only_words = card.get("spelling", {}).get("only_words") is True
        return {"kind": self.name, **kept, "lowercase": self.lowercase, "only_words": only_words}


class TokenBatches(HeldBatch):
    """The batches of a tokenized training split."""

    def __init__(self, data: TokenizedData, device: torch.device, seed: int, share: Share) -> None:
        super().__init__(device)
        self.data, self.share = data, share
        self.split = data.text.splits["train"]
        self.plan = data._plan(self.split, seed)
        smallest = min(rows for rows, _ in self.plan.shapes)
        if smallest < share.processes:
            raise ValueError(
                f"a batch of {data.batch_tokens} tokens has {smallest} sequences of the longest, which "
                f"{share.processes} processes cannot share; raise batch_tokens"
            )
        self.round_to = TARGETS_ON_CUDA if device.type == "cuda" else 1

    def select(self, step: int) -> Hashable:
        """Make the batch of a step, this process's share of it, and put it on the device."""
        length, rows = self.plan.rows(step)
        share, data = self.share, self.data
        whole: TextBatch = data._batch(self.split, rows, length, round_to=self.round_to)
        if share.processes > 1:
            total, own = int(whole["counts"].sum()), rows[share.rank :: share.processes]
            whole = data._batch(self.split, own, length, round_to=self.round_to)
            whole["scale"] = torch.tensor(int(whole["counts"].sum()) * share.processes / total)
            whole["processes"] = torch.tensor(share.processes)
        key = tuple((name, value.shape) for name, value in whole.items())
        self.hold(whole, key)
        return key


def _texts(split: Any) -> Iterator[str]:
    for column in split.columns():
        yield from column
