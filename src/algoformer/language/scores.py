"""Scores of translations and classifications, with confidence intervals."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from algoformer.common.names import Registry
from algoformer.extras import require

RESAMPLES = 1000
Z_95 = 1.959963984540054
"""A normal variable lies within this many standard deviations of its mean with probability 95 %."""

SEED = 12345
"""The seed of the bootstrap resamples."""


@dataclass(frozen=True, kw_only=True)
class Score:
    """A score with its 95 % interval, and sacreBLEU's signature where it has one."""

    value: float
    low: float
    high: float
    signature: str = ""

    def __str__(self) -> str:
        interval = "" if math.isnan(self.low) else f" [{self.low:.2f}, {self.high:.2f}]"
        return f"{self.value:.2f}{interval}"


def bleu(
    hypotheses: Sequence[str],
    references: Sequence[str],
    *,
    lowercase: bool = False,
    resamples: int = RESAMPLES,
) -> Score:
    """Return sacreBLEU's corpus BLEU, with its signature and a bootstrap interval over sentences.

    >>> score = bleu(["the cat sat on the mat"], ["the cat sat on the mat"], resamples=10)
    >>> round(score.value), score.signature.split("|version")[0]
    (100, 'nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp')
    """
    # force: only silences the warning about texts that are tokenized already, as IWSLT14 is
    metric = require("sacrebleu.metrics", extra="text").BLEU(lowercase=lowercase, force=True)
    return _corpus_score(metric, hypotheses, references, resamples)


def chrf(
    hypotheses: Sequence[str],
    references: Sequence[str],
    *,
    lowercase: bool = False,
    resamples: int = RESAMPLES,
) -> Score:
    """Return sacreBLEU's chrF2 (F-score of character n-grams) with a bootstrap interval over sentences."""
    metric = require("sacrebleu.metrics", extra="text").CHRF(lowercase=lowercase)
    return _corpus_score(metric, hypotheses, references, resamples)


def _corpus_score(metric: Any, hypotheses: Sequence[str], references: Sequence[str], resamples: int) -> Score:
    """Return a sacreBLEU metric with the central 95 % of its values on resampled sentences."""
    _check(hypotheses, references)
    if resamples < 2:
        raise ValueError(f"resamples must be at least 2 for an interval, got {resamples}")
    corpus = list(hypotheses), [list(references)]
    found = metric.corpus_score(*corpus)
    # sacreBLEU's own bootstrap adds up these counts in Python, sentence by sentence, and has no quantiles
    counts = np.array(metric._extract_corpus_statistics(*corpus))
    generator, rows = np.random.default_rng(SEED), len(counts)
    totals = (counts[generator.integers(rows, size=rows)].sum(axis=0).tolist() for _ in range(resamples))
    values = [metric._compute_score_from_stats(total).score for total in totals]
    low, high = np.quantile(values, [0.025, 0.975])
    signature = str(metric.get_signature())
    return Score(value=float(found.score), low=float(low), high=float(high), signature=signature)


def _check(hypotheses: Sequence[str], references: Sequence[str]) -> None:
    if len(hypotheses) != len(references):
        raise ValueError(f"got {len(hypotheses)} hypotheses for {len(references)} references")
    if not references:
        raise ValueError("there is nothing to score: no references")


@dataclass(frozen=True, kw_only=True)
class TokenLoss:
    """Cross-entropy in nats, summed over target tokens, so that batches of any size can be added.

    >>> total = TokenLoss(nats=3.0, tokens=2) + TokenLoss(nats=1.0, tokens=6)
    >>> total.per_token, round(total.perplexity, 3)
    (0.5, 1.649)
    """

    nats: float = 0.0
    tokens: int = 0

    def __add__(self, other: TokenLoss) -> TokenLoss:
        return TokenLoss(nats=self.nats + other.nats, tokens=self.tokens + other.tokens)

    @property
    def per_token(self) -> float:
        """The mean cross-entropy per token; NaN without tokens."""
        return self.nats / self.tokens if self.tokens else math.nan

    @property
    def perplexity(self) -> float:
        """The exponential of the mean cross-entropy; infinite where that overflows."""
        mean = self.per_token
        return math.inf if mean > math.log(1e300) else math.exp(mean)


def accuracy(right: int, of: int) -> Score:
    """Return the accuracy in percent, with Wilson's 95 % interval.

    Wilson's interval stays inside 0..100 and is not empty at its ends, unlike mean ± 1.96 deviations.

    >>> str(accuracy(6840, 7600))
    '90.00 [89.31, 90.65]'
    """
    if of < 1 or not 0 <= right <= of:
        raise ValueError(f"right must lie in 0..of and of be at least 1, got {right} of {of}")
    share = right / of
    shrink = 1 + Z_95**2 / of
    center = (share + Z_95**2 / (2 * of)) / shrink
    spread = Z_95 / shrink * math.sqrt(share * (1 - share) / of + Z_95**2 / (4 * of**2))
    return Score(
        value=100 * share,
        # at 0 and 100 % an end is the share itself, but for rounding
        low=100 * min(share, max(0.0, center - spread)),
        high=100 * max(share, min(1.0, center + spread)),
    )


def label_accuracy(hypotheses: Sequence[str], references: Sequence[str], *, lowercase: bool = False) -> Score:
    """Return the percentage of labels that are right, with Wilson's 95 % interval."""
    _check(hypotheses, references)
    return accuracy(sum(map(str.__eq__, hypotheses, references)), len(references))


Metric = Callable[..., "Score | float"]
"""A metric: `metric(hypotheses, references, lowercase=False)` returns a `Score` or a number.

Hypotheses and references are translations, or names of labels. `lowercase` says that the model was trained
on lower-case text.
"""

METRICS: Registry[Metric] = Registry(
    "metric",
    {"BLEU": bleu, "chrF": chrf, "accuracy": label_accuracy},
    group="algoformer.metrics",
    register="algoformer.language.register_metric",
)
"""Metrics by name."""


def register_metric(name: str, metric: Metric) -> None:
    """Make a metric known by name, so that `evaluate(model, metrics=(name,))` of text data accepts it.

    A package can also name the function in the entry point group `algoformer.metrics`.

    Raises:
        ValueError: the name belongs to another metric.
    """
    METRICS.register(name, metric)


def score_texts(
    metrics: Sequence[str], hypotheses: Sequence[str], references: Sequence[str], *, lowercase: bool
) -> dict[str, Score]:
    """Return the scores by the names of their metrics; a plain number becomes a score without interval."""
    found = {name: METRICS.find(name)(hypotheses, references, lowercase=lowercase) for name in metrics}
    return {
        name: one if isinstance(one, Score) else Score(value=float(one), low=math.nan, high=math.nan)
        for name, one in found.items()
    }
