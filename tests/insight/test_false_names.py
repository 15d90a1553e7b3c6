"""Solvers that are near a family, or are one only in a part of what they do, are not named."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import pytest
import torch
from torch import Tensor

from algoformer import Prompt, Trace, Unroll, tasks
from algoformer.insight import Identification, filters, identify
from algoformer.insight.gates import CONSTANT
from algoformer.insight.verdict import RUNS
from algoformer.problems import pairs
from tests.insight.controls import FromWeights, Weights, from_filter

TASK = tasks.LinearRegression(dim=4, points=13)
GD = from_filter(filters.gradient_descent, 0.3)


@cache
def identified(solver: Weights | PlusConstant) -> Identification:
    found = solver if isinstance(solver, PlusConstant) else FromWeights(solver)
    return identify(found, TASK, steps=6, prompts=24, queries=18)


@dataclass(frozen=True)
class PlusConstant:
    """Answers that are linear in the query, and a number for each prompt."""

    weights: Weights
    constant: Callable[[Tensor], Tensor]

    def __call__(self, prompt: Prompt, unroll: Unroll) -> Trace:
        trace = FromWeights(self.weights)(prompt, unroll)
        labels = pairs(prompt).labels[:, 0, :-1, 0]
        return Trace(
            predictions=trace.predictions + self.constant(labels)[None, :, None, None],
            first_step=trace.first_step,
        )


def descent(step_size: Callable[[int], float]) -> Weights:
    """Gradient descent whose step sizes change from step to step."""

    def weights(features: Tensor, labels: Tensor, steps: int) -> Tensor:
        now, found = features.new_zeros(features.shape[0], features.shape[2]), []
        for step in range(steps):
            rest = labels - (features @ now[..., None])[..., 0]
            now = now + step_size(step) / features.shape[1] * (features.mT @ rest[..., None])[..., 0]
            found.append(now)
        return torch.stack(found)

    return weights


def least_squares(features: Tensor, labels: Tensor, steps: int) -> Tensor:
    return (torch.linalg.pinv(features) @ labels[..., None])[..., 0].expand(steps, -1, -1)


def one_step_in_two_passes(features: Tensor, labels: Tensor, steps: int) -> Tensor:
    return GD(features, labels, steps).repeat_interleave(2, 0)[:steps]


def nothing_for_two_passes(features: Tensor, labels: Tensor, steps: int) -> Tensor:
    found = GD(features, labels, steps)
    return torch.cat([torch.zeros_like(found[:2]), found[:-2]])


def rest_after_four_passes(features: Tensor, labels: Tensor, steps: int) -> Tensor:
    found = GD(features, labels, steps)
    return torch.cat([found[:4], *[found[3:4]] * (steps - 4)])


def weaker_ridge_in_each_pass(features: Tensor, labels: Tensor, steps: int) -> Tensor:
    each = [from_filter(filters.ridge, 2.0**-step)(features, labels, 1) for step in range(steps)]
    return torch.cat(each)


SPECTRAL: dict[str, Weights] = {
    "steps that shrink": descent(lambda step: 0.5 / (step + 1)),
    "two step sizes in turn": descent(lambda step: (0.1, 0.5)[step % 2]),
    "one step in two passes": one_step_in_two_passes,
    "nothing for two passes": nothing_for_two_passes,
    "rest after four passes": rest_after_four_passes,
    "weaker ridge in each pass": weaker_ridge_in_each_pass,
}
"""Filters of the spectrum that are in no family; a family with free parameters comes within a few percent."""


@pytest.mark.parametrize("name", SPECTRAL)
def test_a_filter_that_a_family_only_imitates_is_not_named(name: str) -> None:
    found = identified(SPECTRAL[name])
    assert found.name is None, str(found)
    assert found.ceiling > 0.999  # a filter explains all of it: no symmetry is missing
    assert found.status == "resembles"


def test_momentum_is_not_fitted_below_zero() -> None:
    found = identified(one_step_in_two_passes)  # what Nesterov's method with β = -1 does
    fitted = [one.parameters["β"] for one in found.families if "β" in one.parameters]
    assert fitted
    assert all(0 <= beta < 1 for beta in fitted)


def solved_at_once(before: Weights, passes: int) -> Weights:
    def weights(features: Tensor, labels: Tensor, steps: int) -> Tensor:
        found = before(features, labels, steps).clone()
        found[passes:] = least_squares(features, labels, steps)[passes:]
        return found

    return weights


def test_zeros_before_the_solution_are_not_a_method() -> None:
    found = identified(solved_at_once(from_filter(filters.zero), 3))
    assert found.nearest.name == "zero"
    assert found.name is None
    assert found.status == "none of these"


def test_a_method_that_does_not_reach_the_solution_with_the_solver_is_not_named() -> None:
    found = identified(solved_at_once(GD, 4))
    assert found.passes == (1, 4)
    assert found.nearest.name == "gradient descent"
    assert found.nearest.share == pytest.approx(1)
    assert found.status == "resembles"


@pytest.mark.parametrize("weights", [GD, from_filter(filters.ridge, 0.1), least_squares])
@pytest.mark.parametrize("constant", [lambda labels: labels.abs().mean(1), lambda labels: labels[:, 0] ** 0])
def test_answers_with_a_constant_part_are_not_those_of_a_method(
    weights: Weights, constant: Callable[[Tensor], Tensor]
) -> None:
    found = identified(PlusConstant(weights, constant))
    assert found.name is None, str(found)
    if weights is least_squares:
        assert "exact least squares from the first pass on, apart from a constant part (" in found.sentence
    else:
        assert CONSTANT in [gate.name for gate in found.failed_gates]
        assert CONSTANT in found.sentence


def test_the_constant_part_is_its_share_of_the_answers_square() -> None:
    # answers with four standard normal weights have variance 4, as much as the square of the constant 2
    found = identified(PlusConstant(least_squares, lambda labels: 2 * labels[:, 0] ** 0))
    gate = next(gate for gate in found.gates if gate.name == CONSTANT)
    assert gate.value == pytest.approx(0.5, abs=0.1)


def test_a_closed_form_without_the_symmetries_is_not_named() -> None:
    def rounded_ridge(features: Tensor, labels: Tensor, steps: int) -> Tensor:
        return (from_filter(filters.ridge, 2.0)(features, labels, steps) / 0.4).round() * 0.4

    found = identified(rounded_ridge)
    assert found.status == "does not iterate"
    assert found.nearest.share > RUNS
    assert found.name is None
    assert "; lacks symmetries of such methods (" in found.sentence
