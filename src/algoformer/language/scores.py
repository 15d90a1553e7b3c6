"""Scores of translations and classifications, with confidence intervals."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from algoformer.extras import require

RESAMPLES = 1000
Z_95 = 1.959963984540054
"""A normal variable lies within this many standard deviations of its mean with probability 95 %."""

SEED = 12345
"""The seed of the bootstrap resamples."""

CHARACTERS = 6
"""The longest character n-grams that chrF counts."""


@dataclass(frozen=True, kw_only=True)
class Score:
    """A score with its 95 % interval, and sacreBLEU's signature where it has one."""

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
    """Return sacreBLEU's corpus BLEU, with its signature and a bootstrap interval over sentences.

    >>> score = bleu(["the cat sat on the mat"], ["the cat sat on the mat"], resamples=10)
    >>> round(score.value), score.signature.split("|version")[0]
    (100, 'nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp')
    """
    _check(hypotheses, references)
    metrics = require("sacrebleu.metrics", extra="text")
    # force: only silences the warning about texts that are tokenized already, as IWSLT14 is
    metric = metrics.BLEU(lowercase=lowercase, force=True)
    found = metric.corpus_score(list(hypotheses), [list(references)])
    by_sentence = metrics.BLEU(lowercase=lowercase, force=True, effective_order=True)
    lines = [by_sentence.sentence_score(*pair) for pair in _pairs(hypotheses, references)]
    counts = np.array([[*line.counts, *line.totals, line.sys_len, line.ref_len] for line in lines])
    orders = len(lines[0].counts)

    def score(total: list[int]) -> float:
        matches, ngrams, lengths = total[:orders], total[orders : 2 * orders], total[2 * orders :]
        return float(metric.compute_bleu(matches, ngrams, *lengths, smooth_method=metric.smooth_method).score)

    low, high = _interval(counts, score, resamples)
    return Score(value=float(found.score), low=low, high=high, signature=str(metric.get_signature()))


def chrf(
    hypotheses: Sequence[str],
    references: Sequence[str],
    *,
    lowercase: bool = False,
    resamples: int = RESAMPLES,
) -> Score:
    """Return sacreBLEU's chrF2 (F-score of character n-grams) with a bootstrap interval over sentences."""
    _check(hypotheses, references)
    metric = require("sacrebleu.metrics", extra="text").CHRF(lowercase=lowercase)
    found = metric.corpus_score(list(hypotheses), [list(references)])
    spelled = (
        tuple(text.lower() if lowercase else text for text in pair)
        for pair in zip(hypotheses, references, strict=True)
    )
    counts = np.array([_character_matches(one, other) for one, other in spelled])
    low, high = _interval(counts, chrf_of_counts, resamples)
    return Score(value=float(found.score), low=low, high=high, signature=str(metric.get_signature()))


def chrf_of_counts(counts: Sequence[int]) -> float:
    """Return chrF2 from counts of n-grams of each order: in the hypothesis, in the reference, in both."""
    triples = [counts[start : start + 3] for start in range(0, len(counts), 3)]
    known = [(both / ours, both / theirs) for ours, theirs, both in triples if ours and theirs]
    precision = sum(one for one, _ in known) / max(len(known), 1)
    recall = sum(one for _, one in known) / max(len(known), 1)
    return 100 * 5 * precision * recall / (4 * precision + recall) if precision + recall else 0.0


def _character_matches(hypothesis: str, reference: str) -> list[int]:
    ours, theirs = ("".join(text.split()) for text in (hypothesis, reference))
    counts = []
    for order in range(1, CHARACTERS + 1):
        one, other = (
            Counter(text[place : place + order] for place in range(len(text) - order + 1))
            for text in (ours, theirs)
        )
        counts += [one.total() if other else 0, other.total(), (one & other).total()]
    return counts


def _interval(counts: np.ndarray, score: Callable[[list[int]], float], resamples: int) -> tuple[float, float]:
    """Return the central 95 % of the scores of resampled sentences, drawn with replacement."""
    if resamples < 2:
        raise ValueError(f"an interval needs at least 2 resamples, got {resamples}")
    generator = np.random.default_rng(SEED)
    rows = len(counts)
    scores = [
        score(counts[generator.integers(rows, size=rows)].sum(axis=0).tolist()) for _ in range(resamples)
    ]
    low, high = np.quantile(scores, [0.025, 0.975])
    return float(low), float(high)


def _pairs(hypotheses: Sequence[str], references: Sequence[str]) -> Iterator[tuple[str, list[str]]]:
    for hypothesis, reference in zip(hypotheses, references, strict=True):
        yield hypothesis, [reference]


def better_by_chance(
    baseline: Sequence[str], system: Sequence[str], references: Sequence[str], *, resamples: int = RESAMPLES
) -> float:
    """Return the p-value of the BLEU difference between two systems under the paired bootstrap.

    This is sacreBLEU's test: both systems are scored on the same resampled sentences, so it detects
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
    # equal scores would give the smallest p, because no resample differs by more than they do
    return 1.0 if first.score == second.score else float(second.p_value)


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
