"""Classify lines of text with a trained model."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch

from algoformer.common.products import onednn_linear
from algoformer.common.side_by_side import run_side_by_side
from algoformer.common.terminal import printable
from algoformer.language.batches import labelled_batch
from algoformer.language.checkpoint import TextModelFile, held_instead
from algoformer.language.classifier import TextClassifier
from algoformer.language.lines import batched, by_length, prepared
from algoformer.language.tokenizer import Tokenizer
from algoformer.language.tokens import TokenTable, TokenTexts
from algoformer.nn.layers import check_count
from algoformer.trace import Unroll


@dataclass(frozen=True, kw_only=True)
class Label:
    """The most likely class, its probability, and whether the text was truncated to the model's context."""

    name: str
    probability: float
    shortened: bool = False


class Classifier:
    """A trained classifier and its tokenizer, ready for lines of text.

    Args:
        checkpoint: a classifier; its model stays on its device.
        batch: the number of texts in a batch.
        ahead: the number of batches of lines that are read ahead, to group texts of similar length.
        steps: iterations of the loop; None means as many as in training.

    Raises:
        ValueError: the checkpoint holds another kind of model, or has no tokenizer.
    """

    ahead = 8

    def __init__(
        self, checkpoint: TextModelFile, *, batch: int = 64, ahead: int = ahead, steps: int | None = None
    ) -> None:
        if not isinstance(checkpoint.model, TextClassifier):
            raise ValueError(f"this is no classifier: the checkpoint holds {held_instead(checkpoint.model)}")
        if not checkpoint.tokenizer:
            raise ValueError("the checkpoint has no tokenizer, so it cannot read text")
        for name, count in {"batch": batch, "ahead": ahead}.items():
            check_count(name, count, 1)
        self.model = checkpoint.model.eval()
        self.batch, self.ahead = batch, ahead
        self.unroll = None if steps is None else Unroll(steps=steps, window=1)
        self.tokenizer = Tokenizer.from_json(checkpoint.tokenizer)
        self.lowercase = checkpoint.card.get("lowercase") is True
        self.only_words = checkpoint.card.get("only_words") is True
        if len(self.tokenizer) != self.model.trunk.vocabulary:
            raise ValueError(
                f"the tokenizer has {len(self.tokenizer)} tokens, the model {self.model.trunk.vocabulary}"
            )

    def classify(self, lines: Iterable[str]) -> Iterator[Label | None]:
        """Yield a label for each line, in order; None for a line without words."""
        for block in batched(lines, self.batch * self.ahead):
            yield from self.classify_block(block)

    def classify_block(self, lines: Sequence[str]) -> list[Label | None]:
        """Return the labels of some lines."""
        spelling = {"lowercase": self.lowercase, "only_words": self.only_words}
        texts = [prepared(line, **spelling) for line in lines]
        found: list[Label | None] = [None] * len(lines)
        filled = [place for place, text in enumerate(texts) if text]
        # one token more than the model reads shows that a text was longer
        most = self.model.trunk.context + 1
        table = TokenTable.of(self.tokenizer.encode_all([texts[place] for place in filled], max_tokens=most))
        chances = self.probabilities(table)
        for row, place in enumerate(filled):
            best = int(chances[row].argmax())
            found[place] = Label(
                name=printable(self.model.labels[best]),
                probability=float(chances[row, best]),
                shortened=bool(table.lengths[row] > self.model.trunk.context),
            )
        return found

    def probabilities(self, texts: TokenTable) -> np.ndarray:
        """Return the probability of every label for every text, truncated to the model's context."""
        table = texts.cut(self.model.trunk.context)
        all_texts = TokenTexts(texts=table, labels=np.zeros(len(table), dtype=np.int64))
        chances = np.zeros((len(table), len(self.model.labels)))
        device = self.model.head.weight.device

        @torch.no_grad()
        def fill(rows: np.ndarray) -> None:
            given = labelled_batch(all_texts, rows).to(device)
            scores = self.model(given.ids, given.mask, self.unroll)[-1]
            chances[rows] = scores.double().softmax(dim=-1).cpu().numpy()

        groups = by_length(table.lengths.tolist(), self.batch)
        batches = [partial(fill, np.array(places, dtype=np.int64)) for places in groups]
        with onednn_linear(self.model, packed=True):
            run_side_by_side(batches, device)
        return chances
