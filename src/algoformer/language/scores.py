"""How good translations and classifications are, and how sure that is."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from algoformer.extras import require

RESAMPLES = 1000
Z_95 = 1.959963984540054
"""95 % of a normal distribution lie within so many standard deviations."""


@dataclass(frozen=True, kw_only=True)
class Score:
    """A number with its 95 % interval, and where there is one the signature that makes it comparable."""

    value: float
    low: float
    high: float
    signature: str = ""

    def __str__(self) -> str:
        return f"{self.value:.2f} [{self.low:.2f}, {self.high:.2f}]"


def bleu(
    hypotheses: Sequence[str],
    references: Sequence[str],
    *,
    lowercase: bool = False,
    resamples: int = RESAMPLES,
) -> Score:
    """Corpus BLEU of sacreBLEU, with its signature and a bootstrap interval over sentences.

    >>> score = bleu(["the cat sat on the mat"], ["the cat sat on the mat"], resamples=10)
    >>> round(score.value), score.signature.split("|version")[0]
    (100, 'nrefs:1|bs:10|seed:12345|case:mixed|eff:no|tok:13a|smooth:exp')
    """
    metrics = require("sacrebleu.metrics", extra="text")
    # force: only silences the warning about texts that are tokenized already, as IWSLT14 is
    return _corpus_score(metrics.BLEU(lowercase=lowercase, force=True), hypotheses, references, resamples)


def chrf(
    hypotheses: Sequence[str],
    references: Sequence[str],
    *,
    lowercase: bool = False,
    resamples: int = RESAMPLES,
) -> Score:
    """chrF2 of sacreBLEU: F-score of character n-grams, with its signature and a bootstrap interval."""
    metrics = require("sacrebleu.metrics", extra="text")
    return _corpus_score(metrics.CHRF(lowercase=lowercase), hypotheses, references, resamples)


def _corpus_score(metric: Any, hypotheses: Sequence[str], references: Sequence[str], resamples: int) -> Score:
    _check(hypotheses, references)
    if resamples < 2:
        raise ValueError(f"an interval needs at least 2 resamples, got {resamples}")
    score_of = metric._compute_score_from_stats

    def in_python(stats: Any) -> Any:
        # a resample without any match scores a float, others a float32, and their mean is refused
        found = score_of(stats)
        found.score = float(found.score)
        return found

    metric._compute_score_from_stats = in_python
    found = metric.corpus_score(list(hypotheses), [list(references)], n_bootstrap=resamples)
    # sacreBLEU gives the mean of the resamples and half the width of the interval around it
    return Score(
        value=float(found.score),
        low=float(found._mean - found._ci),
        high=float(found._mean + found._ci),
        signature=str(metric.get_signature()),
    )


def better_by_chance(
    baseline: Sequence[str], system: Sequence[str], references: Sequence[str], *, resamples: int = RESAMPLES
) -> float:
    """How likely a BLEU difference as large as that of the two would be if there were none.

    This is sacreBLEU's paired bootstrap: both systems are scored on the same resampled sentences, so it finds
    differences that are much smaller than either interval.
    """
    _check(baseline, references)
    _check(system, references)
    significance = require("sacrebleu.significance", extra="text")
    metrics = require("sacrebleu.metrics", extra="text")
    test = significance.PairedTest(
        [("baseline", list(baseline)), ("system", list(system))],
        {"BLEU": metrics.BLEU(references=[list(references)], force=True)},
        references=None,
        test_type="bs",
        n_samples=resamples,
    )
    first, second = test()[1]["BLEU"]
    # counted literally, no resample is further from nothing than nothing: the smallest p of all
    return 1.0 if first.score == second.score else float(second.p_value)


def _check(hypotheses: Sequence[str], references: Sequence[str]) -> None:
    if len(hypotheses) != len(references):
        raise ValueError(f"got {len(hypotheses)} hypotheses for {len(references)} references")
    if not references:
        raise ValueError("there is nothing to score: no references")


@dataclass(frozen=True, kw_only=True)
class TokenLoss:
    """Cross-entropy in nats, summed over target tokens. Sums add up, whatever the batches were; means do not.

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
        """The mean over tokens; NaN if there were none."""
        return self.nats / self.tokens if self.tokens else math.nan

    @property
    def perplexity(self) -> float:
        """How many equally likely tokens would be as surprising; infinite where that is no number."""
        mean = self.per_token
        return math.inf if mean > math.log(1e300) else math.exp(mean)


def accuracy(right: int, of: int) -> Score:
    """The share of right answers in percent, with Wilson's 95 % interval.

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
