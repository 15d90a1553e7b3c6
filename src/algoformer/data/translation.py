"""Parallel text as training data: sentences and their translations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from torch import Tensor, nn

from algoformer.common.terminal import short
from algoformer.config import TrainConfig
from algoformer.data.exits import token_loss
from algoformer.data.text_base import Paths, TextBatch
from algoformer.data.tokenized import TokenizedData
from algoformer.language.batches import translation_batch
from algoformer.language.corpora import load_parallel
from algoformer.language.losses import TargetPositions, target_positions
from algoformer.language.splits import together
from algoformer.language.text import Corpus, ParallelText
from algoformer.language.token_model import TokenModel
from algoformer.language.tokenizer import Tokenizer
from algoformer.language.tokens import TokenPairs, encode_pairs
from algoformer.model.program import Program
from algoformer.trace import Unroll

if TYPE_CHECKING:
    from algoformer.language.checkpoint import TextCheckpoint
    from algoformer.language.translate import Translator

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
    default_metrics: ClassVar[tuple[str, ...]] = ("BLEU", "chrF")
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
                found = short(getattr(self, name))
                raise ValueError(f"{name} must be a source and a target file, got {found}")

    @property
    def context(self) -> int:
        """The maximum number of tokens of source, mark and translation together, padding counted."""
        return -(-(2 * self.max_length + 1) // self.pad_to_multiple_of) * self.pad_to_multiple_of

    def _new_model(self, program: Program, **sizes: Any) -> TokenModel:
        return TokenModel(program, context=self.context, tied=self.tied, prefix_lm=self.prefix_lm, **sizes)

    def window_loss(
        self, model: TokenModel, batch: TextBatch, unroll: Unroll, training: TrainConfig | None
    ) -> tuple[Tensor, Tensor]:
        """Return the loss of the translation's tokens; nothing waits for the device."""
        found = token_loss(
            model,
            batch["input_ids"],
            batch["targets"],
            TargetPositions(batch["positions"], batch["counts"]),
            unroll,
            training,
            prefix=batch["prefix"],
            smoothing=self.label_smoothing,
        )
        return found.mean, found.by_step

    def validate(self, model: nn.Module, *, bf16: bool = False) -> dict[str, float]:
        """Return the cross-entropy of the validation split's translations, per token."""
        split: Any = self.text.splits["valid"]
        return {"valid_loss": self.split_loss(model, split, bf16=bf16).per_token}

    def _answerer(self, checkpoint: TextCheckpoint, options: Mapping[str, Any]) -> Translator:
        from algoformer.language.translate import Decoding, Translator

        return Translator(checkpoint, Decoding(**options))

    def _answers(self, answerer: Translator, split: TokenPairs) -> list[str]:
        return answerer.translate_encoded([split.source[row].tolist() for row in range(len(split))])

    def _references(self, split: TokenPairs) -> list[str]:
        return [self.known_tokenizer.decode(split.target[row]) for row in range(len(split))]

    def _fitting(self, split: TokenPairs, context: int) -> TokenPairs:
        rows = np.flatnonzero(split.lengths <= context)
        return TokenPairs(source=split.source.take(rows), target=split.target.take(rows))

    def _corpus(self) -> Corpus[ParallelText]:
        if self.source:
            from algoformer.data.files import read_parallel

            files = {name: self._paths(name) for name in ("source", "target", "validation", "test")}
            return read_parallel(**files, seed=self.split_seed)
        first, *others = [_named(name, self.folder) for name in self._paths("corpus")]
        tested = [_named(name, self.folder) for name in self._paths("also_tested")]
        return together(first, *others, also_tested=tested) if others or tested else first

    def _encode(self, tokenizer: Tokenizer, name: str, split: ParallelText) -> TokenPairs:
        longest = None if name.startswith("test") else self.max_length
        ratio = LENGTH_RATIO if name.startswith("train") else None
        return encode_pairs(tokenizer, split, longest=longest, ratio=ratio)

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


def _named(name: str, folder: str | None) -> Corpus[ParallelText]:
    """Load a corpus by name, spelled as people write; NAME/SPLIT trains on another of its splits."""
    base, _, split = name.partition("/")
    corpus = load_parallel(base, data=folder)
    if split:
        if split not in corpus.further or not split.startswith("train"):
            known = [one for one in corpus.further if one.startswith("train")]
            raise ValueError(f"{base} has no further training split {split!r}, only {known}")
        corpus = replace(corpus, name=name, train=corpus.further[split])
    if corpus.spelling is None:
        return corpus
    return corpus.mapped(corpus.spelling, note=f"{base}: tokens put together, references too")
