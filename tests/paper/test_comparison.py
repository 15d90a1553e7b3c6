"""Which model is called better: prompt by prompt, seed by seed, each at its rate."""

from dataclasses import replace

import numpy as np
import pytest

from made_up_results import constructed
from paper.comparison import at_its_rate, beats, beats_at_its_rate
from paper.result import Result
from paper.runs import RunSpec
from paper.summary import all_items

ITEMS = {item.name: item for item in all_items("short")}
OWN, OTHER = "autoregressive/algoformer", "autoregressive/standard"


def result(name: str, errors: np.ndarray | None = None, error: float = 1.15) -> Result:
    plain = constructed(ITEMS[name], error)
    if errors is None:
        return plain
    kept = replace(plain.main, by_prompt=tuple(float(value) for value in errors))
    return replace(plain, errors={plain.against: kept})


def prompts(shift: float, *, noise: float = 0.0) -> np.ndarray:
    """Errors that vary widely between prompts, and alike for all models."""
    shared = np.random.default_rng(0).exponential(size=1280)
    own = np.random.default_rng(1).normal(size=1280)
    return shared + shift + noise * (own - own.mean())


def test_a_small_gain_on_every_prompt_is_seen_where_bands_overlap() -> None:
    better, worse = prompts(-0.01, noise=0.05), prompts(0.0)
    assert beats([result(OWN)], [result(OTHER)])[0] is None
    assert beats([result(OWN, better)], [result(OTHER, worse)])[0] is True
    assert beats([result(OTHER, worse)], [result(OWN, better)])[0] is False


def test_noise_larger_than_the_gain_leaves_it_open() -> None:
    outcome, words = beats([result(OWN, prompts(-0.001, noise=0.5))], [result(OTHER, prompts(0.0))])
    assert outcome is None
    assert words.endswith("(not told apart)")


def test_every_pair_of_seeds_has_to_agree() -> None:
    own = [result(OWN, prompts(-0.01)), result(f"{OWN}-seed1", prompts(-0.02))]
    assert beats(own, [result(OTHER, prompts(0.0)), result(f"{OTHER}-seed1", prompts(0.01))])[0] is True
    assert beats(own, [result(OTHER, prompts(0.0)), result(f"{OTHER}-seed1", prompts(-0.015))])[0] is None


@pytest.mark.parametrize("count", [0, 100])
def test_without_the_same_prompts_bands_decide(count: int) -> None:
    own = result(OWN, prompts(-0.5))
    assert beats([own], [result(OTHER, prompts(0.0)[:count])])[0] is None
    assert beats([own], [result(OTHER, prompts(0.0)[:count], error=2.3)])[0] is True


def test_the_rate_is_chosen_on_training_batches() -> None:
    common, slow = result(OWN, error=1.2), result(f"{OWN}-slow", error=1.3)
    runs = {OWN: common, f"{OWN}-slow": replace(slow, history={"error": (1.1,)})}
    assert at_its_rate(runs, OWN) == [runs[f"{OWN}-slow"]], "not by the held-out error, which is larger"
    runs[f"{OWN}-slow"] = slow
    assert at_its_rate(runs, OWN) == [common]


def test_a_lower_rate_over_other_steps_is_no_comparison() -> None:
    item = ITEMS[f"{OWN}-slow"]
    assert isinstance(item, RunSpec)
    runs = {OWN: result(OWN, error=1.2), f"{OWN}-slow": constructed(item.with_steps(99_000), 0.1)}
    assert at_its_rate(runs, OWN) == [runs[OWN]]


def test_being_behind_a_rate_that_one_was_not_tried_at_is_no_defeat() -> None:
    runs = {OWN: result(OWN, error=1.0), OTHER: result(OTHER, error=2.0)}
    assert beats_at_its_rate(runs, OWN, OTHER) == (True, "50%")
    runs[f"{OTHER}-slow"] = result(f"{OTHER}-slow", error=0.5)
    assert beats_at_its_rate(runs, OWN, OTHER)[0] is None
    runs[f"{OWN}-slow"] = result(f"{OWN}-slow", error=0.8)
    assert beats_at_its_rate(runs, OWN, OTHER) == (False, "160% (the other at a lower rate)")
    assert beats_at_its_rate(runs, OTHER, OWN)[0] is True
