import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from algoformer.language.scores import Z_95, TokenLoss, accuracy, bleu, chrf

pytest.importorskip("sacrebleu", reason="the extra `text` is not installed")

HYPOTHESIS, REFERENCE = "the cat sat on the mat today", "the cat sat on a mat today"


def test_bleu_is_the_geometric_mean_of_its_precisions() -> None:
    # words 6 of 7; pairs 4 of 6; threes 2 of 5; fours 1 of 4; equal lengths, so no penalty
    wanted = 100 * (6 / 7 * 4 / 6 * 2 / 5 * 1 / 4) ** 0.25
    assert bleu([HYPOTHESIS], [REFERENCE], resamples=5).value == pytest.approx(wanted)


def test_bleu_counts_over_the_whole_corpus() -> None:
    # the second line adds 1 of 1 word and no longer n-grams: the corpus is not the mean of its lines
    wanted = 100 * (7 / 8 * 4 / 6 * 2 / 5 * 1 / 4) ** 0.25
    assert bleu([HYPOTHESIS, "yes"], [REFERENCE, "yes"], resamples=5).value == pytest.approx(wanted)


def test_the_signature_says_how_it_was_counted() -> None:
    signature = bleu([HYPOTHESIS.upper()], [REFERENCE], lowercase=True, resamples=7).signature
    assert {"case:lc", "tok:13a", "smooth:exp", "nrefs:1"} <= set(signature.split("|"))
    assert "nc:6" in chrf([HYPOTHESIS], [REFERENCE], resamples=5).signature


def test_the_interval_holds_the_score_and_shrinks_with_more_lines() -> None:
    lines = [
        (HYPOTHESIS, REFERENCE),
        (REFERENCE, REFERENCE),
        ("a dog barked loudly here", "a dog barks here"),
    ]

    def interval(times: int) -> tuple[float, float, float]:
        hypotheses, references = zip(*lines * times, strict=True)
        score = bleu(hypotheses, references, resamples=200)
        return score.value, score.low, score.high

    few, many = interval(5), interval(80)
    assert few[1] < few[0] < few[2]
    # sixteen times the lines, a quarter of the width
    assert (many[2] - many[1]) == pytest.approx((few[2] - few[1]) / 4, rel=0.4)


def test_chrf_of_the_same_text_is_full_and_of_another_alphabet_is_none() -> None:
    assert chrf(["abc def"], ["abc def"], resamples=3).value == pytest.approx(100)
    assert chrf(["abc def"], ["xyz"], resamples=3).value == 0


@pytest.mark.parametrize("score", [bleu, chrf])
def test_lines_are_never_lost(score: object) -> None:
    with pytest.raises(ValueError, match="got 1 hypotheses for 2 references"):
        score(["a"], ["a", "b"])  # type: ignore[operator]
    with pytest.raises(ValueError, match="no references"):
        score([], [])  # type: ignore[operator]


@given(st.integers(1, 5000).flatmap(lambda of: st.tuples(st.integers(0, of), st.just(of))))
def test_wilson_ends_are_where_the_normal_test_just_rejects(counts: tuple[int, int]) -> None:
    right, of = counts
    score = accuracy(right, of)
    assert 0 <= score.low <= score.value <= score.high <= 100
    for end in (score.low / 100, score.high / 100):
        if 0 < end < 1:
            distance = abs(right / of - end) / math.sqrt(end * (1 - end) / of)
            assert distance == pytest.approx(Z_95, rel=1e-4, abs=1e-4) or right in (0, of)


@pytest.mark.parametrize(("right", "of"), [(-1, 5), (6, 5), (0, 0)])
def test_impossible_counts_are_refused(right: int, of: int) -> None:
    with pytest.raises(ValueError, match="right must lie in"):
        accuracy(right, of)


@given(st.lists(st.tuples(st.floats(0, 100), st.integers(1, 50)), min_size=1, max_size=8))
def test_losses_add_up_whatever_the_batches(parts: list[tuple[float, int]]) -> None:
    total = sum((TokenLoss(nats=nats, tokens=tokens) for nats, tokens in parts), TokenLoss())
    assert total.per_token == pytest.approx(sum(nats for nats, _ in parts) / sum(count for _, count in parts))
    assert total.perplexity == pytest.approx(math.exp(total.per_token))


def test_perplexity_without_tokens_or_without_bounds() -> None:
    assert math.isnan(TokenLoss().per_token)
    assert math.isnan(TokenLoss().perplexity)
    assert TokenLoss(nats=1e6, tokens=1).perplexity == math.inf
    # a uniform guess among n tokens has perplexity n
    assert TokenLoss(nats=10 * math.log(400), tokens=10).perplexity == pytest.approx(400)


def test_an_interval_is_found_where_some_resamples_match_nothing() -> None:
    score = chrf(["abc", "xyz"], ["abc", "def"], resamples=50)
    assert score.low < score.value < score.high


@pytest.mark.parametrize("score", [bleu, chrf])
def test_an_interval_is_that_of_corpora_drawn_with_replacement(score: object) -> None:
    lines = [
        (HYPOTHESIS, REFERENCE),
        (REFERENCE, REFERENCE),
        ("a dog barked here", "a dog barks here"),
        ("x", "y z"),
    ]
    found = score(*zip(*lines, strict=True), resamples=4000)  # type: ignore[operator]
    corpora = list(itertools.product(lines, repeat=len(lines)))
    drawn = {
        tuple(sorted(some)): score(*zip(*sorted(some), strict=True), resamples=2).value  # type: ignore[operator]
        for some in corpora
    }
    exact = [drawn[tuple(sorted(some))] for some in corpora]
    # 4000 draws estimate a tail of 2.5 % with a standard deviation of 0.25 %
    assert sum(one < found.low - 1e-6 for one in exact) < 0.035 * len(exact)
    assert sum(one < found.low + 1e-6 for one in exact) > 0.015 * len(exact)
    assert sum(one > found.high + 1e-6 for one in exact) < 0.035 * len(exact)
    assert sum(one > found.high - 1e-6 for one in exact) > 0.015 * len(exact)
