"""Classify lines of text with a trained model."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch

from algoformer.common.devices import run_side_by_side
from algoformer.common.plain_data import check_count
from algoformer.common.products import onednn_linear
from algoformer.common.terminal import printable
from algoformer.language.batches import text_batch
from algoformer.language.checkpoint import TextModelFile, TextTool
from algoformer.language.classifier import TextClassifier
from algoformer.language.lines import batched, by_length, prepared
from algoformer.language.tokens import TokenTable
from algoformer.model.program import default_steps
from algoformer.model.settle import check_rule
from algoformer.model.stopping import StoppingRule
from algoformer.trace import Unroll


@dataclass(frozen=True, kw_only=True)
class Label:
    """The most likely class, its probability, and whether the text was truncated to the model's context."""

    name: str
    probability: float
    shortened: bool = False


class Classifier(TextTool[TextClassifier]):
    """A trained classifier and its tokenizer, ready for lines of text.

    Args:
        checkpoint: a classifier; its model stays on its device.
        batch: the number of texts in a batch.
        ahead: the number of batches of lines that are read ahead, to group texts of similar length.
        steps: iterations of the loop; None means as many as in training.
        early_exit: the stopping rule of the loop, in place of `steps`; None runs all iterations.

    Raises:
        ValueError: the checkpoint holds another kind of model, or has no tokenizer.
    """

    ahead = 8

    def __init__(
        self,
        checkpoint: TextModelFile,
        *,
        batch: int = 64,
        ahead: int = ahead,
        steps: int | None = None,
        early_exit: StoppingRule | None = None,
    ) -> None:
        super().__init__(checkpoint, TextClassifier, "classifier")
        for name, count in {"batch": batch, "ahead": ahead}.items():
            check_count(name, count)
        if early_exit is not None:
            check_rule(self.model.body, early_exit)
        self.batch, self.ahead, self.early_exit = batch, ahead, early_exit
        steps = default_steps(self.model.program) if steps is None else steps
        self.unroll = Unroll(steps=steps, window=1)

    def classify(self, lines: Iterable[str]) -> Iterator[Label | None]:
        """Yield a label for each line, in order; None for a line without words."""
        context = self.model.context
        for block in batched(lines, self.batch * self.ahead):
            texts = [prepared(line, lowercase=self.lowercase, only_words=self.only_words) for line in block]
            # one token more than the model reads shows that a text was longer
            encoded = self.tokenizer.encode_all(list(filter(None, texts)), max_tokens=context + 1)
            chances = iter(self.probabilities(TokenTable.of(encoded)))
            lengths = map(len, encoded)
            for text in texts:
                yield self._label(next(chances), shortened=next(lengths) > context) if text else None

    def _label(self, chances: np.ndarray, *, shortened: bool) -> Label:
        best = int(chances.argmax())
        name = printable(self.model.labels[best])
        return Label(name=name, probability=float(chances[best]), shortened=shortened)

    def probabilities(self, texts: TokenTable) -> np.ndarray:
        """Return the probability of every label for every text, truncated to the model's context."""
        table = texts.cut(self.model.context)
        chances = np.zeros((len(table), len(self.model.labels)))
        device = self.model.head.weight.device

        @torch.no_grad()
        def fill(rows: np.ndarray) -> float:
            """Fill in the probabilities of some texts, and return their mean number of iterations."""
            given = text_batch(table, rows).to(device)
            if self.early_exit is None:
                scores, mean = self.model(given.ids, given.mask, self.unroll)[-1], float(self.unroll.steps)
            else:
                scores, iterations = self.model.settle(given.ids, given.mask, self.early_exit)
                mean = float(iterations.float().mean())
            chances[rows] = scores.double().softmax(dim=-1).cpu().numpy()
            return mean

        groups = [np.array(places) for places in by_length(table.lengths.tolist(), self.batch)]
        with onednn_linear(self.model, packed=True):
            means = run_side_by_side([partial(fill, rows) for rows in groups], device)
        for rows, mean in zip(groups, means, strict=True):
            self.count(len(rows), mean)
        return chances
