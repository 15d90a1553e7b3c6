"""Several steps of a method in one pass are named after that method, not after one that looks like it."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from torch import Tensor

from algoformer import tasks
from algoformer.insight import filters, identify
from tests.insight.controls import FromWeights, Weights, from_filter

TASK = tasks.LinearRegression(dim=4, points=13)

METHODS: list[tuple[str, Callable[..., Tensor], dict[str, float], int]] = [
    # 1 - (1 - ηλ)^k is also nearly ηkλ/(λ + ρ), a step of damped Newton, with a large ρ
    ("gradient descent", filters.gradient_descent, {"η": 0.05}, 3),
    ("gradient descent", filters.gradient_descent, {"η": 0.2}, 4),
    ("gradient descent", filters.gradient_descent, {"η": 0.05}, 10),
    ("heavy ball", filters.heavy_ball, {"η": 0.2, "β": 0.3}, 6),
    ("Newton from αI", filters.newton_from_identity, {"α": 0.02}, 4),
]


def several(weights: Weights, count: int) -> Weights:
    """Return `count` steps of a method in every pass."""

    def every(features: Tensor, labels: Tensor, steps: int) -> Tensor:
        return weights(features, labels, steps * count)[count - 1 :: count]

    return every


@pytest.mark.parametrize(("name", "rule", "parameters", "count"), METHODS)
def test_many_steps_in_a_pass_are_those_of_the_method(
    name: str, rule: Callable[..., Tensor], parameters: dict[str, float], count: int
) -> None:
    solver = FromWeights(several(from_filter(rule, *parameters.values()), count))
    found = identify(solver, TASK, steps=5, prompts=32)
    assert found.name == name
    assert (found.nearest.pace, found.nearest.offset) == (count, 0)
    assert found.nearest.parameters == pytest.approx(parameters, rel=1e-4)


OTHERS: list[tuple[str, Callable[..., Tensor], tuple[float, ...]]] = [
    ("gradient descent", filters.gradient_descent, (0.03,)),
    ("heavy ball", filters.heavy_ball, (0.05, 0.8)),
    ("Nesterov", filters.nesterov, (0.2, 0.6)),
    ("Newton from αS", filters.newton_from_gram, (0.001,)),
]


@pytest.mark.parametrize("count", [5, 8])
@pytest.mark.parametrize(("name", "rule", "parameters"), OTHERS)
def test_many_steps_in_a_pass_have_no_wrong_name(
    name: str, rule: Callable[..., Tensor], parameters: tuple[float, ...], count: int
) -> None:
    found = identify(FromWeights(several(from_filter(rule, *parameters), count)), TASK, steps=5, prompts=32)
    assert found.nearest.name == name
    assert found.name in (name, None)  # one described pass can be too little
