import sys
import tracemalloc

import numpy as np
import pytest

from algoformer.evaluation import bootstrap
from algoformer.evaluation.curve import _NUMBERS_AT_ONCE, curve_of


def test_the_band_is_that_of_normal_theory_where_that_holds() -> None:
    values = np.random.default_rng(0).normal(3.0, 2.0, size=2000)
    band = bootstrap(values)
    half = 1.645 * values.std() / 2000**0.5
    assert band.mean == pytest.approx(values.mean(), rel=1e-12)
    assert band.low == pytest.approx(values.mean() - half, abs=0.1 * half)
    assert band.high == pytest.approx(values.mean() + half, abs=0.1 * half)


@pytest.mark.parametrize(("share", "normal"), [(0.5, 0.674), (0.9, 1.645)])
def test_the_share_says_how_wide_the_band_is(share: float, normal: float) -> None:
    values = np.random.default_rng(1).normal(size=2000)
    band = bootstrap(values, share=share)
    assert (band.high - band.low) / 2 == pytest.approx(normal * values.std() / 2000**0.5, rel=0.1)


def test_the_band_holds_the_true_mean_nine_times_in_ten() -> None:
    # 800 experiments of 100 prompts: two standard deviations of the count are 2 %, skewness costs another 1 %
    values = np.random.default_rng(2).exponential(1.0, size=(100, 800))
    band = bootstrap(values)
    covered = float(((band.low < 1) & (band.high > 1)).mean())
    assert 0.85 < covered < 0.93


def test_the_seed_alone_decides() -> None:
    values = np.random.default_rng(3).normal(size=(50, 4))
    one, same, other = bootstrap(values, seed=1), bootstrap(values, seed=1), bootstrap(values, seed=2)
    assert (one.low == same.low).all()
    assert (one.high == same.high).all()
    assert (one.low != other.low).all()


def test_columns_are_resampled_together_and_apart_alike() -> None:
    values = np.random.default_rng(4).normal(size=(30, 2, 3))
    together = bootstrap(values)
    assert together.low.shape == (2, 3)
    alone = bootstrap(values[:, 1, 2])
    assert together.low[1, 2] == pytest.approx(float(alone.low), rel=1e-12)
    assert together.high[1, 2] == pytest.approx(float(alone.high), rel=1e-12)


def test_resampling_in_small_chunks_gives_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    values = np.random.default_rng(5).normal(size=(31, 7))
    whole = bootstrap(values, resamples=101)
    monkeypatch.setattr(sys.modules["algoformer.evaluation.curve"], "_NUMBERS_AT_ONCE", 311)
    pieces = bootstrap(values, resamples=101)
    np.testing.assert_allclose(pieces.low, whole.low, rtol=1e-12)
    np.testing.assert_allclose(pieces.high, whole.high, rtol=1e-12)


def test_memory_is_bounded() -> None:
    values = np.ones((1280, 1000))
    tracemalloc.start()
    bootstrap(values)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    # a few arrays of the largest size, not resamples × prompts × columns (10 GB)
    assert peak < 8 * 8 * _NUMBERS_AT_ONCE


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_broken_prompt_breaks_its_column_and_no_other(bad: float) -> None:
    values = np.random.default_rng(6).normal(size=(20, 3))
    sound = bootstrap(values)
    values[4, 1] = bad
    band = bootstrap(values)
    for part in (band.mean, band.low, band.high):
        np.testing.assert_equal(part[1], bad)
    np.testing.assert_allclose(band.low[[0, 2]], sound.low[[0, 2]], rtol=1e-12)


def test_huge_errors_do_not_warn() -> None:
    band = bootstrap(np.full(5, 1e308))
    assert band.mean == np.inf or band.mean == pytest.approx(1e308)


def test_one_prompt_has_a_band_of_no_width() -> None:
    band = bootstrap(np.array([[2.0, 3.0]]))
    assert band.low.tolist() == band.high.tolist() == band.mean.tolist() == [2.0, 3.0]


@pytest.mark.parametrize("options", [{"resamples": 0}, {"share": 0.0}, {"share": 1.0}])
def test_impossible_settings_are_refused(options: dict) -> None:
    with pytest.raises(ValueError, match=next(iter(options))):
        bootstrap(np.ones(3), **options)


def test_no_prompts_are_refused() -> None:
    with pytest.raises(ValueError, match="at least one prompt"):
        bootstrap(np.ones((0, 3)))


def test_a_curve_carries_the_band() -> None:
    values = np.random.default_rng(7).normal(size=(40, 2))
    curve, band = curve_of(values, label="a", axis="samples", x=(3, 5)), bootstrap(values)
    assert curve.x == (3.0, 5.0)
    assert curve.error == tuple(band.mean)
    assert (curve.low, curve.high) == (tuple(band.low), tuple(band.high))
