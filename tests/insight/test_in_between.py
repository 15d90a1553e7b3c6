"""Certificates of what happens between the trained depth and the last pass, and refusals of other traces."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from algoformer import Prompt, Trace, Unroll, tasks
from algoformer.insight import DepthCertificate, certify, identify
from tests.insight.controls import FromWeights

TASK = tasks.LinearRegression(dim=4, points=13)


def with_missing(share: Callable[[torch.Tensor], torch.Tensor]) -> FromWeights:
    """Least squares with a share of the weights missing that depends on the pass."""

    def weights(features: torch.Tensor, labels: torch.Tensor, steps: int) -> torch.Tensor:
        solved = (torch.linalg.pinv(features) @ labels[..., None])[..., 0]
        return (1 - share(torch.arange(1, steps + 1).double())[:, None, None]) * solved

    return FromWeights(weights)


def test_an_error_that_is_large_in_between_does_not_hold() -> None:
    found = certify(
        with_missing(lambda step: 0.1 + 0.9 * ((step > 60) & (step < 90))), TASK, prompts=8, reach=10
    )
    assert found.error_at(found.far) == pytest.approx(found.error_at(found.trained))
    assert found.answers == "grow"
    assert found.peak is not None
    assert 60 < found.peak < 90
    assert found.ratio == pytest.approx(100)  # (1 / 0.1)²
    assert f"from {found.trained} to {found.peak} passes" in found.sentence
    assert DepthCertificate.from_json(found.to_json()) == found


def test_answers_that_are_no_numbers_in_between_diverge() -> None:
    lost = with_missing(lambda step: torch.where((step > 60) & (step < 90), torch.nan, 0.1))
    assert certify(lost, TASK, prompts=8, reach=10).answers == "diverge"


def test_an_error_that_was_large_from_the_start_holds() -> None:
    found = certify(with_missing(lambda step: 20 + 0 * step), TASK, prompts=8, reach=10)
    assert found.error[0] > 100
    assert found.answers == "hold"
    assert found.peak is None


@pytest.mark.parametrize("passes", [1, 30])
def test_answers_after_other_passes_than_were_asked_for_are_refused(passes: int) -> None:
    def solver(prompt: Prompt, unroll: Unroll) -> Trace:
        return Trace(predictions=torch.zeros(passes, *prompt.targets.shape))

    with pytest.raises(ValueError, match=rf"shape \({passes}, .* instead of \(200, 8, 1, 1\)"):
        certify(solver, TASK, prompts=8, reach=10)
    with pytest.raises(ValueError, match=rf"shape \({passes}, .* instead of \(5, "):
        identify(solver, TASK, steps=5)
    series = tasks.AutoregressiveWithRepresentation(dim=2, points=9)
    with pytest.raises(ValueError, match=rf"shape \({passes}, .* instead of \(5, "):
        identify(solver, series, steps=5)


def test_a_trained_depth_that_is_not_a_number_is_refused() -> None:
    with pytest.raises(ValueError, match=r"^trained must be a whole number of passes, at least 1, got True"):
        certify(with_missing(lambda step: 0 * step), TASK, trained=True)


def test_a_task_without_examples_is_refused() -> None:
    with pytest.raises(ValueError, match=r"^points must be at least 2 to show an example, got 1"):
        identify(with_missing(lambda step: 0 * step), tasks.LinearRegression(dim=2, points=1))
