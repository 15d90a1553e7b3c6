import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from algoformer.algorithms import GradientDescent, HeavyBall, LeastSquares, Ridge
from algoformer.problems import pairs
from algoformer.prompt import Prompt
from algoformer.tasks import LinearRegression, RegressionWithRepresentation
from algoformer.trace import Unroll


def sampled(task: LinearRegression, batch: int = 3, seed: int = 0) -> Prompt:
    return task.sample(batch, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@given(dim=st.integers(1, 5), points=st.integers(2, 9), seed=st.integers(0, 99))
def test_after_k_steps_the_weights_are_the_matrix_power_formula(dim: int, points: int, seed: int) -> None:
    prompt = sampled(LinearRegression(dim=dim, points=points, noise=0.2), seed=seed)
    eta, steps = 0.1 / dim, 7
    trace = GradientDescent(step_size=eta)(prompt, Unroll(steps=steps))
    xs, ys = prompt.part(0), prompt.targets
    for point in range(1, points):
        seen, labels = xs[:, :point], ys[:, :point]
        contraction = torch.eye(dim, dtype=torch.float64) - eta * seen.mT @ seen / point
        # w_k = Σ_{j<k} (I - ηH)^j η g, with g the gradient's constant part
        powers = sum((torch.linalg.matrix_power(contraction, j) for j in range(steps)), torch.zeros(dim, dim))
        weights = powers @ (eta * seen.mT @ labels / point)
        expected = (xs[:, point, None] @ weights)[:, 0]
        torch.testing.assert_close(trace.final[:, point], expected, rtol=1e-10, atol=1e-12)


def test_without_pairs_the_answer_is_zero() -> None:
    for solver in (GradientDescent(), GradientDescent(step_size=0.3), HeavyBall()):
        trace = solver(sampled(LinearRegression(dim=3, points=5)), Unroll(steps=4))
        assert not trace.predictions[:, :, 0].any()


def test_the_optimal_step_contracts_by_the_textbook_rate() -> None:
    prompt = sampled(LinearRegression(dim=4, points=13), batch=40).prefix(-1)
    seen = pairs(prompt).features[:, 0, :-1]
    values = torch.linalg.eigvalsh(seen.mT @ seen)
    rate = (values[:, -1] - values[:, 0]) / (values[:, -1] + values[:, 0])
    error = (GradientDescent()(prompt, Unroll(steps=60)).predictions - prompt.targets).abs()[:, :, 0, 0]
    # two eigen-directions shrink at exactly this rate and all others faster; prompts that are so well
    # conditioned that they reach rounding within 60 steps say nothing about it
    slow = rate > 0.7
    assert slow.sum() > 10
    torch.testing.assert_close((error[-1] / error[-3]).sqrt()[slow], rate[slow], rtol=0.02, atol=0)


@pytest.mark.parametrize(("name", "multiple"), [("lipschitz", 1.0), ("practical", 1.8)])
def test_a_named_step_is_its_multiple_of_one_over_the_largest_eigenvalue(name, multiple) -> None:
    prompt = sampled(LinearRegression(dim=3, points=9), batch=1).prefix(-1)
    seen = pairs(prompt).features[:, 0, :-1]
    largest = torch.linalg.eigvalsh(seen.mT @ seen / 8)[0, -1].item()
    automatic = GradientDescent(step_size=name)(prompt, Unroll(steps=5)).predictions
    by_hand = GradientDescent(step_size=multiple / largest)(prompt, Unroll(steps=5)).predictions
    torch.testing.assert_close(automatic, by_hand)


@pytest.mark.parametrize("task", [LinearRegression(), RegressionWithRepresentation()])
def test_the_practical_step_is_the_best_of_the_named_ones_after_twenty_steps(task) -> None:
    prompt = sampled(task, batch=256).prefix(-1)
    errors = {
        name: (
            GradientDescent(step_size=name, view=task.problems)(prompt, Unroll(steps=20)).final
            - prompt.targets
        )
        .square()
        .mean()
        for name in ("practical", "lipschitz", "optimal")
    }
    assert errors["practical"] < min(errors["lipschitz"], errors["optimal"])


@pytest.mark.parametrize("solver", [GradientDescent(), HeavyBall()], ids=["plain", "heavy ball"])
def test_it_tends_to_least_squares_on_every_prefix(
    solver: GradientDescent | HeavyBall,
) -> None:
    prompt = sampled(LinearRegression(dim=4, points=12, noise=0.1), batch=5)
    limit = LeastSquares()(prompt, Unroll(steps=1)).final
    reached = solver(prompt, Unroll(steps=4000, window=1)).final
    apart = (reached - limit).abs().amax(dim=(0, 2))
    # just as many pairs as coordinates can be very badly conditioned; there 4000 steps may not be enough
    well_posed = [0, 1, 2, *range(7, 12)]
    assert apart[well_posed].max().item() < 1e-6


def test_with_a_penalty_it_tends_to_ridge_regression() -> None:
    prompt = sampled(LinearRegression(dim=3, points=9, noise=0.5)).prefix()
    found = GradientDescent(step_size="optimal", penalty=0.2)(prompt, Unroll(steps=300, window=1))
    expected = Ridge(strength=8 * 0.2)(prompt, Unroll(steps=1))
    torch.testing.assert_close(found.final, expected.final, rtol=0, atol=1e-10)


@pytest.mark.parametrize("penalty", [-0.1, math.inf, math.nan])
def test_a_penalty_that_is_negative_or_infinite_is_refused(penalty: float) -> None:
    with pytest.raises(ValueError, match="penalty must be a finite number ≥ 0"):
        GradientDescent(penalty=penalty)


def test_heavy_ball_repeats_its_recurrence() -> None:
    prompt = sampled(LinearRegression(dim=3, points=8, noise=0.2)).prefix(-1)
    trace = HeavyBall(step_size=0.2, momentum=0.6)(prompt, Unroll(steps=9))
    problems = pairs(prompt)
    features, labels = problems.features[:, 0], problems.labels[:, 0, :-1]
    seen, query = features[:, :-1], features[:, -1:]
    weights = before = torch.zeros(3, 3, 1, dtype=torch.float64)
    for step in range(9):
        gradient = seen.mT @ (seen @ weights - labels) / 7
        weights, before = weights - 0.2 * gradient + 0.6 * (weights - before), weights
        torch.testing.assert_close(trace.predictions[step], query @ weights)


def test_momentum_pays() -> None:
    prompt = sampled(LinearRegression(), batch=200).prefix(-1)
    errors = [
        (solver(prompt, Unroll(steps=20, window=1)).final - prompt.targets).square().mean().item()
        for solver in (GradientDescent(), HeavyBall())
    ]
    # at condition 23 the rates are 0.92 and 0.65 for each step: after 20 of them far more than tenfold
    assert errors[1] < errors[0] / 10


@pytest.mark.parametrize("step_size", [0.0, -1.0, math.inf, math.nan])
def test_a_step_must_lead_somewhere(step_size: float) -> None:
    with pytest.raises(ValueError, match="step_size must be a finite number > 0"):
        GradientDescent(step_size=step_size)


@pytest.mark.usefixtures("as_a_user")
def test_unknown_rules_are_refused() -> None:
    with pytest.raises(ValueError, match="a number or one of optimal, lipschitz, practical, got 'best'"):
        GradientDescent(step_size="best")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="momentum must be a number or 'optimal', got 'best'"):
        HeavyBall(momentum="best")  # type: ignore[arg-type]


def test_step_and_momentum_are_chosen_together() -> None:
    with pytest.raises(ValueError, match="step_size and momentum are chosen together"):
        HeavyBall(step_size=0.1)
    with pytest.raises(ValueError, match="step_size and momentum are chosen together"):
        HeavyBall(momentum=0.1)


@pytest.mark.parametrize("momentum", [1.0, -0.1])
def test_momentum_that_never_fades_is_refused(momentum: float) -> None:
    with pytest.raises(ValueError, match=r"momentum must lie in \[0, 1\)"):
        HeavyBall(step_size=0.1, momentum=momentum)
