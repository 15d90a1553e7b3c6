"""Depth distributions against closed forms."""

import math
import statistics

import pytest

from algoformer.common.plain_data import as_data, read_dataclass
from algoformer.config import TrainConfig
from algoformer.depth import Depth

DRAWS = 20_000


@pytest.mark.parametrize(
    ("word", "mean", "variance", "fourth"),
    [
        ("fixed:7", 7, 0, 0),
        ("list:2,4,12", 6, (16 + 4 + 36) / 3, None),
        # 1 + Poisson(7): variance 7, fourth central moment λ + 3λ²
        ("poisson:8", 8, 7, 7 + 3 * 49),
        ("poisson:480.5", 480.5, 479.5, None),
        # the total variance: E λ + Var λ, with Var λ = (E λ)² (exp σ² - 1)
        ("lognormal:33,sigma=0.5", 33, 32 + 32**2 * (math.exp(0.25) - 1), None),
        ("lognormal:9,sigma=0.2,per=sequence", 9, 8 + 64 * (math.exp(0.04) - 1), None),
    ],
)
def test_mean_and_variance_are_those_of_the_closed_form(
    word: str, mean: float, variance: float, fourth: float | None
) -> None:
    depth = Depth.parse(word)
    assert depth.moments == pytest.approx((mean, variance))
    drawn = depth.draw("a seed", DRAWS)
    assert min(drawn) >= 1
    assert statistics.fmean(drawn) == pytest.approx(mean, abs=5 * math.sqrt(variance / DRAWS))
    spread = statistics.pvariance(drawn)
    if fourth is None:
        assert spread == pytest.approx(variance, rel=0.12)
    else:
        assert spread == pytest.approx(variance, abs=5 * math.sqrt((fourth - variance**2) / DRAWS) + 1e-12)


def test_poisson_has_the_probabilities_of_its_formula() -> None:
    drawn = Depth.parse("poisson:4").draw("another seed", DRAWS)
    for count in range(8):
        wanted = math.exp(-3) * 3**count / math.factorial(count)
        share = sum(one == count + 1 for one in drawn) / DRAWS
        assert share == pytest.approx(wanted, abs=5 * math.sqrt(wanted * (1 - wanted) / DRAWS))


def test_the_key_alone_decides_a_draw() -> None:
    depth = Depth.parse("lognormal:33,sigma=0.5")
    assert depth.draw("0/17", 4) == depth.draw("0/17", 4)
    assert depth.draw("0/17", 9)[:4] == depth.draw("0/17", 4)
    assert len({depth.draw(f"0/{step}") for step in range(50)}) > 20


def test_no_draw_is_above_the_bound() -> None:
    drawn = Depth.parse("poisson:8,most=9").draw("x", 500)
    assert max(drawn) == 9
    assert drawn == tuple(min(9, one) for one in Depth.parse("poisson:8").draw("x", 500))


@pytest.mark.parametrize(
    "depth",
    [
        Depth(kind="fixed", mean=400.0),
        Depth(kind="list", choices=(3,)),
        Depth(kind="list", choices=(9, 9, 1), most=5, per="sequence"),
        Depth(kind="poisson", mean=8.5, per="sequence"),
        Depth(kind="lognormal", mean=33.0, sigma=1.25, most=64),
        Depth(kind="poisson", mean=12.3456789),
        Depth(kind="list", choices=(1, 1_234_567)),
    ],
)
def test_words_and_plain_data_hold_all_of_a_distribution(depth: Depth) -> None:
    assert Depth.parse(str(depth)) == depth
    training = TrainConfig(depth=depth)
    assert read_dataclass(TrainConfig, as_data(training)) == training


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("", "cannot read ''; write fixed:8"),
        ("poisson", "cannot read 'poisson'"),
        ("poisson:x", "cannot read"),
        ("poisson:8,9", "cannot read"),
        ("poisson:8,max=9", "cannot read"),
        ("gauss:8", "kind must be one of fixed, list, poisson, lognormal, got 'gauss'"),
        ("poisson:0.5", "mean must lie in 1..500, got 0.5"),
        ("poisson:nan", "mean must lie in 1..500, got nan"),
        ("poisson:8,sigma=1", "'lognormal' needs a sigma"),
        ("lognormal:8", "'lognormal' needs a sigma"),
        ("list:", "'list' needs choices"),
        ("list:0,4", "choices of at least 1"),
        ("fixed:2.5", "whole number of iterations, got 2.5"),
        ("fixed:2,per=token", "per must be one of batch, sequence, got 'token'"),
        ("fixed:2,most=0", "most must be at least 1"),
    ],
)
def test_wrong_words_are_refused(word: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Depth.parse(word)


@pytest.mark.parametrize(
    ("word", "least", "largest"),
    [
        ("fixed:7", 7, 7),
        ("fixed:7,most=5", 5, 5),
        ("list:9,4,6", 4, 9),
        ("list:9,4,most=2", 2, 2),
        ("poisson:8,most=9", 1, 9),
    ],
)
def test_least_and_largest_are_those_that_are_drawn(word: str, least: int, largest: int) -> None:
    depth = Depth.parse(word)
    drawn = depth.draw("key", 5000)
    assert (min(drawn), max(drawn)) == (depth.least, depth.largest) == (least, largest)
    assert Depth.parse("poisson:2").largest == Depth.parse("lognormal:2,sigma=1").largest == math.inf
