"""Labelled text as training data: texts and the class of each."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from algoformer.common.terminal import short
from algoformer.config import TrainConfig, iteration_shares
from algoformer.data.files import read_labelled
from algoformer.data.protocol import Data, Metrics
from algoformer.data.text_base import Paths, TextBatch, evaluating
from algoformer.data.tokenized import TokenizedData
from algoformer.language.batches import text_batch
from algoformer.language.classifier import TextClassifier
from algoformer.language.corpora import load_labelled
from algoformer.language.text import Corpus, LabelledText
from algoformer.language.tokenizer import Tokenizer
from algoformer.language.tokens import TokenTexts, encode_texts
from algoformer.language.trunk import TextModel
from algoformer.model.program import Program, halting_of
from algoformer.trace import Unroll

if TYPE_CHECKING:
    from algoformer.language.checkpoint import TextCheckpoint
    from algoformer.language.classify import Classifier


@dataclass(frozen=True, kw_only=True)
class LabelledData(TokenizedData[TokenTexts]):
    """CSV or JSONL files with a text and a label in each row, or a corpus by name.

    >>> LabelledData(corpus="small_topics", max_length=32).context
    32
    """

    files: Paths = ()
    """CSV, TSV or JSON Lines files; the columns are found by their header."""
    validation: Paths = ()
    """Files to validate on; none holds out part of the training texts."""
    test: Paths = ()
    """Files to report on; none holds out part of the training texts."""
    text_column: str = ""
    """The column of the text; empty finds a usual name such as "text" or "review"."""
    label_column: str = ""
    """The column of the label; empty finds a usual name such as "label" or "class"."""
    corpus: str = ""
    """A named corpus in place of files."""
    classes: tuple[str, ...] = field(default=(), compare=False)
    """The names of the labels; read from the data where none are given."""
    labels_digest: str = field(default="", compare=False, repr=False)
    """The SHA-256 of the training labels of the run that stored this data; empty if there was none, if its
    version stored none, or if the training text has been replaced by another."""

    name: ClassVar[str] = "labels"
    model_class: ClassVar[type[TextModel]] = TextClassifier
    default_metrics: ClassVar[tuple[str, ...]] = ("accuracy",)
    path_settings: ClassVar[tuple[str, ...]] = ("files", "validation", "test")

    def __post_init__(self) -> None:
        if bool(self.corpus) == bool(self.files):
            raise ValueError("give either files ('reviews.csv') or a named corpus (corpus='small_topics')")
        if len(set(self.classes)) < len(self.classes):
            raise ValueError(f"classes must differ, got {short(self.classes)}; name each once")
        super().__post_init__()
        if not self.digest:
            self._keep("labels_digest", "")

    @property
    def context(self) -> int:
        """The maximum number of tokens that are read of a text, padding counted."""
        return -(-self.max_length // self.pad_to_multiple_of) * self.pad_to_multiple_of

    @property
    def labels(self) -> tuple[str, ...]:
        """The names of the classes."""
        return self.classes or tuple(map(str, self.text.card["classes"]))

    def _new_model(self, program: Program, **sizes: Any) -> TextClassifier:
        return TextClassifier(program, labels=self.labels, context=self.context, **sizes)

    def check_model(self, model: nn.Module) -> None:
        """Refuse a model of another kind, vocabulary or other labels."""
        super().check_model(model)
        assert isinstance(model, TextClassifier)
        if tuple(model.labels) != self.labels:
            raise ValueError(f"the model has {len(model.labels)} labels, the data {len(self.labels)} others")

    def check(self, program: Program, training: TrainConfig) -> None:
        """Refuse settings of training that have no meaning for labelled text."""
        super().check(program, training)
        if halting_of(program) != "none":
            raise ValueError(
                f"a loop with halt={halting_of(program)!r} halts at each token, and a label belongs to a "
                "whole text; leave out halt"
            )

    def window_loss(
        self, model: TextClassifier, batch: TextBatch, unroll: Unroll, training: TrainConfig | None
    ) -> tuple[Tensor, Tensor]:
        """Return the loss of the labels."""
        scores = model(batch["input_ids"], batch["attention_mask"], unroll).float()
        smoothing = 0.0 if training is None else self.label_smoothing
        by_step = torch.stack(
            [F.cross_entropy(one, batch["labels"], label_smoothing=smoothing) for one in scores]
        )
        shares = None if training is None else iteration_shares(training, unroll.length)
        if shares is None:
            return by_step.mean(), by_step.detach()
        weighted = [share * one for share, one in zip(shares, by_step, strict=True)]
        return torch.stack(weighted).sum(), by_step.detach()

    @torch.no_grad()
    def validate(self, model: nn.Module, *, bf16: bool = False) -> dict[str, float]:
        """Return the cross-entropy and the accuracy on the validation split."""
        split: Any = self.text.splits["valid"]
        nats, right = 0.0, 0
        with evaluating(model, bf16=bf16):
            for batch, unroll in self._evaluation_batches(model, split):
                scores = model(batch["input_ids"], batch["attention_mask"], unroll)[-1].float()
                right += int((scores.argmax(dim=-1) == batch["labels"]).sum())
                nats += float(F.cross_entropy(scores, batch["labels"], reduction="sum"))
        return {"valid_loss": nats / len(split), "valid_accuracy": right / len(split)}

    def merit(self, validation: Metrics) -> tuple[float, ...]:
        """Return the negative share of wrong labels, then the negative loss.

        A classifier's loss rises again once it is too sure of its few mistakes, while it still learns to make
        fewer of them.
        """
        return validation["valid_accuracy"] - 1, -validation["valid_loss"]

    def _answerer(self, checkpoint: TextCheckpoint, options: Mapping[str, Any]) -> Classifier:
        from algoformer.language.classify import Classifier

        return Classifier(checkpoint, **options)

    def _answers(self, answerer: Classifier, split: TokenTexts) -> list[str]:
        return [self.labels[label] for label in answerer.probabilities(split.texts).argmax(axis=1)]

    def _references(self, split: TokenTexts) -> list[str]:
        return [self.labels[label] for label in split.labels]

    def _fitting(self, split: TokenTexts, context: int) -> TokenTexts:
        return TokenTexts(texts=split.texts.cut(context), labels=split.labels)

    def resumed(self, stored: Data) -> Any:
        """Return this data with tokenizer and classes of the resumed run; refuse what has changed."""
        assert isinstance(stored, LabelledData)
        data = TokenizedData.resumed(replace(self, classes=self.classes or stored.classes), stored)
        if stored.labels_digest and data.train_labels_digest != stored.labels_digest:
            raise ValueError(
                "the labels are not those that the run began with: its files, corpus or label_column have "
                "changed; resume with the original labels, or start again in another folder"
            )
        return data

    @property
    def train_labels_digest(self) -> str:
        """The SHA-256 of the training labels, or the stored one where the text was not read."""
        if self.digest and not self.text_is_read:
            return self.labels_digest
        split: Any = self.text.splits["train"]
        return hashlib.sha256(np.ascontiguousarray(split.labels, dtype=np.int64).data).hexdigest()

    def header(self) -> dict[str, Any]:
        """Return the settings, the tokenizer, the names of the classes and the digest of the labels."""
        return {
            **super().header(),
            "classes": list(self.labels),
            "labels_digest": self.train_labels_digest,
        }

    @classmethod
    def from_header(cls, header: Mapping[str, Any]) -> Any:
        """Rebuild the data from its header."""
        data = super().from_header(header)
        classes = header.get("classes", [])
        if not isinstance(classes, list) or not all(isinstance(one, str) for one in classes):
            raise ValueError("classes must be a list of names")
        data._keep("classes", tuple(classes))
        data._keep("labels_digest", str(header.get("labels_digest", ""))[:64])
        return data

    def _corpus(self) -> Corpus[LabelledText]:
        if self.corpus:
            return load_labelled(self.corpus, data=self.folder)
        return read_labelled(
            self._paths("files"),
            validation=self._paths("validation"),
            test=self._paths("test"),
            text_column=self.text_column,
            label_column=self.label_column,
            seed=self.split_seed,
            classes=self.classes,
        )

    def _encode(self, tokenizer: Tokenizer, name: str, split: LabelledText) -> TokenTexts:
        return encode_texts(tokenizer, split, longest=self.max_length)

    def _batch(self, split: TokenTexts, rows: np.ndarray, length: int, *, round_to: int = 1) -> TextBatch:
        batch, labels = text_batch(split.texts, rows, length=length), torch.as_tensor(split.labels[rows])
        return {
            "input_ids": batch.ids,
            "attention_mask": batch.mask,
            "labels": labels,
            "counts": torch.ones_like(labels, dtype=torch.bool),
        }
