"""Parallel text as training data: sentences and their translations."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from algoformer.config import TrainConfig
from algoformer.data.exits import token_loss
from algoformer.data.text_base import Paths, TextBatch
from algoformer.data.tokenized import TokenizedData
from algoformer.language import corpora
from algoformer.language.batches import translation_batch
from algoformer.language.losses import (
    TargetPositions,
    step_weights_of,
    target_positions,
    window_cross_entropy,
)
from algoformer.language.text import Corpus, ParallelText
from algoformer.language.token_model import TokenModel
from algoformer.language.tokenizer import Tokenizer
from algoformer.language.tokens import TokenPairs, encode_pairs
from algoformer.model.program import Program
from algoformer.trace import Unroll

if TYPE_CHECKING:
    from algoformer.data.scores import Measurement

LENGTH_RATIO = 3.0
"""Pairs one of whose sides is this many times as long as the other are not trained on."""


@dataclass(frozen=True, kw_only=True)
class TranslationData(TokenizedData[TokenPairs]):
    """Two parallel files, or corpora by name: line i of the target translates line i of the source.

    >>> TranslationData(corpus="small_de_en", vocabulary=1200, max_length=32).context
    72
    """

    source: Paths = ()
    """Files with one sentence a line."""
    target: Paths = ()
    """Files with the translations, as many and as long as `source`."""
    validation: Paths = ()
    """A source and a target file to validate on; none holds out part of the training pairs."""
    test: Paths = ()
    """A source and a target file to report on; none holds out part of the training pairs."""
    corpus: Paths = ()
    """Named corpora. The first is validated and tested on, all are trained on. NAME/SPLIT is another training
    split of a corpus."""
    also_tested: Paths = ()
    """Named corpora whose test splits are scored too; nothing in those is trained on."""
    prefix_lm: bool = True
    """Let the tokens of the source attend to each other in both directions."""
    tied: bool = True
    """Use the embedding as the output matrix too."""

    name: ClassVar[str] = "translation"

    path_settings: ClassVar[tuple[str, ...]] = (
        *("source", "target", "validation", "test", "corpus", "also_tested"),
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if bool(self.corpus) == bool(self.source):
            raise ValueError(
                "give either two files (source= and target=) or a named corpus (corpus='small_de_en')"
            )
        source, target = self._paths("source"), self._paths("target")
        if len(source) != len(target):
            raise ValueError(f"every source file needs a target, got {len(source)} and {len(target)}")
        for name in ("validation", "test"):
            if len(self._paths(name)) not in (0, 2):
                raise ValueError(f"{name} must be a source and a target file, got {getattr(self, name)}")

    @property
    def context(self) -> int:
        """The maximum number of tokens of source, mark and translation together, padding counted."""
        return -(-(2 * self.max_length + 1) // self.pad_to_multiple_of) * self.pad_to_multiple_of

    def build_model(self, program: Program, width: int, training: TrainConfig) -> TokenModel:
        """Return a translator with fresh weights."""
        sizes = self._model_sizes(width)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(training.seed)
            return TokenModel(program, tied=self.tied, prefix_lm=self.prefix_lm, **sizes)

    def check_model(self, model: nn.Module) -> None:
        """Refuse a model of another kind or vocabulary."""
        self._check_language_model(model, prefix_lm=self.prefix_lm)

    def training_loss(
        self, model: TokenModel, batch: TextBatch, unroll: Unroll, training: TrainConfig
    ) -> tuple[Tensor, Tensor]:
        """Return the loss of the translation's tokens as training says; nothing waits for the device."""
        positions = TargetPositions(batch["positions"], batch["counts"])
        found = token_loss(
            model,
            batch["input_ids"],
            batch["targets"],
            positions,
            unroll,
            training,
            prefix=batch["prefix"],
            smoothing=self.label_smoothing,
        )
        return found.mean, found.by_step

    def window_loss(
        self,
        model: TokenModel,
        batch: TextBatch,
        unroll: Unroll,
        *,
        smoothing: float,
        shares: tuple[float, ...] | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Return the cross-entropy of the translation's tokens; nothing waits for the device."""
        states = model.states(batch["input_ids"], unroll, prefix=batch["prefix"])
        positions = TargetPositions(batch["positions"], batch["counts"])
        found = window_cross_entropy(
            states,
            model.output_weight,
            batch["targets"],
            positions,
            smoothing=smoothing,
            step_weights=step_weights_of(shares, batch["targets"]),
        )
        return found.mean, found.by_step

    def validate(self, model: nn.Module, *, bf16: bool = False) -> dict[str, float]:
        """Return the cross-entropy of the validation split's translations, per token."""
        split: Any = self.text.splits["valid"]
        return {"valid_loss": self.split_loss(model, split, bf16=bf16).per_token}

    def evaluate(self, model: nn.Module, **options: Any) -> list[Measurement]:
        """Translate every test split whole and score it with BLEU, chrF and cross-entropy.

        Args:
            model: the translator.
            options: `metrics` (names, BLEU and chrF), and those of `language.translate.Decoding`.
        """
        from algoformer.data.scores import measure_translation
        from algoformer.language.translate import Decoding

        self.check_model(model)
        metrics = options.pop("metrics", ("BLEU", "chrF"))
        return measure_translation(self, model, Decoding(**options), metrics=metrics)  # type: ignore[arg-type]

    def _corpus(self) -> Corpus[ParallelText]:
        if self.source:
            from algoformer.data.files import read_parallel

            given = self._paths("validation"), self._paths("test")
            held_out = [(files[0], files[1]) if files else None for files in given]
            pairs = list(zip(self._paths("source"), self._paths("target"), strict=True))
            return read_parallel(pairs, validation=held_out[0], test=held_out[1], seed=self.split_seed)
        first, *others = [_named(name, self.folder) for name in self._paths("corpus")]
        tested = [_named(name, self.folder) for name in self._paths("also_tested")]
        return corpora.together(first, *others, also_tested=tested) if others or tested else first

    def _encode(self, tokenizer: Tokenizer, name: str, split: ParallelText) -> TokenPairs:
        longest = None if name.startswith("test") else self.max_length
        ratio = LENGTH_RATIO if name.startswith("train") else None
        return encode_pairs(tokenizer, split, longest=longest, ratio=ratio)

    def _lengths(self, split: TokenPairs) -> np.ndarray:
        return split.source.lengths + 1 + split.target.lengths

    def _batch(self, split: TokenPairs, rows: Any, length: int, *, round_to: int = 1) -> TextBatch:
        batch = translation_batch(split, rows, length=length)
        positions = target_positions(batch.loss_mask, multiple=round_to)
        return {
            "input_ids": batch.ids,
            "attention_mask": batch.mask,
            "targets": batch.targets,
            "prefix": batch.prefix,
            "positions": positions.places,
            "counts": positions.counts,
        }

    def _count(self, batch: TextBatch) -> int:
        return int(batch["counts"].sum())


def _named(name: str, folder: str | None) -> Corpus[ParallelText]:
    """Load a corpus by name, spelled as people write; NAME/SPLIT trains on another of its splits."""
    base, _, split = name.partition("/")
    corpus = corpora.load_parallel(base, data=folder)
    if split:
        if split not in corpus.further or not split.startswith("train"):
            known = [one for one in corpus.further if one.startswith("train")]
            raise ValueError(f"{base} has no further training split {split!r}, only {known}")
        corpus = replace(corpus, name=name, train=corpus.further[split])
    source = corpora.PARALLEL.get(base)
    if source is None or source.spelling is None:
        return corpus
    return corpus.mapped(source.spelling, note=f"{base}: tokens put together, references too")
