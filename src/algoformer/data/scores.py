"""A trained model of text on whole test splits: the scores that are reported, with their intervals."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from algoformer.language.checkpoint import TextCheckpoint
from algoformer.language.scores import METRICS, Score, TokenLoss, score_texts

if TYPE_CHECKING:
    from algoformer.data.tokenized import TokenizedData

BATCH_TOKENS = 16_384
"""Tokens that are scored at a time."""


@dataclass(frozen=True, kw_only=True)
class Measurement:
    """The scores of a model on a split.

    Attributes:
        split: its name.
        rows: how many texts it has.
        scores: the scores by the names of their metrics.
        loss: cross-entropy of the right answers, in fp32 and without label smoothing: of the tokens of the
            translations, given the ones before, or of the labels.
        loss_rows: the number of texts in `loss`, which leaves out pairs that do not fit the model's context.
        iterations: under a stopping rule, the mean number of loop iterations of an answer (a token or a
            label); None without one. The scores are of those answers, the loss is that of all iterations.
        seconds: the time for all answers, without scoring them.
        hypotheses: the answers: translations, or the names of classes.
    """

    split: str
    rows: int
    scores: dict[str, Score]
    loss: TokenLoss
    loss_rows: int
    seconds: float
    iterations: float | None = None
    hypotheses: tuple[str, ...] = ()

    def to_data(self) -> dict[str, Any]:
        """Return the scores as plain data."""
        return {
            "split": self.split,
            "rows": self.rows,
            "scores": {name: asdict(one) for name, one in self.scores.items()},
            "cross_entropy": self.loss.per_token,
            "perplexity": self.loss.perplexity,
            "loss_tokens": self.loss.tokens,
            "loss_rows": self.loss_rows,
            "answer_seconds": self.seconds,
            **({} if self.iterations is None else {"iterations": self.iterations}),
        }


def measure(
    data: TokenizedData, model: Any, metrics: Sequence[str], options: Mapping[str, Any]
) -> list[Measurement]:
    """Score a translator or classifier on every test split; texts are compared as people write them."""
    for name in metrics:  # rather now than after all texts are answered
        METRICS.find(name)
    checkpoint = TextCheckpoint(model=model, tokenizer=data.known_tokenizer.to_json(), card=data.facts())
    # no padding that a model of any context might have no room for
    tokens = BATCH_TOKENS + 2 * model.context + 1
    exact = replace(data, max_length=model.context, batch_tokens=tokens, pad_to_multiple_of=1)
    found = []
    for name, split in data.text.splits.items():
        if not name.startswith("test"):
            continue
        answerer = data._answerer(checkpoint, options)
        began = time.perf_counter()
        hypotheses = data._answers(answerer, split)
        seconds = time.perf_counter() - began
        fitting = data._fitting(split, model.context)
        found.append(
            Measurement(
                split=name,
                rows=len(split),
                scores=score_texts(metrics, hypotheses, data._references(split), lowercase=data.lowercase),
                loss=exact.split_loss(model, fitting) if len(fitting) else TokenLoss(),
                loss_rows=len(fitting),
                seconds=seconds,
                iterations=answerer.iterations if options.get("early_exit") else None,
                hypotheses=tuple(hypotheses),
            )
        )
    return found
