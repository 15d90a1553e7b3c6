import math
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from algoformer.algorithms import Averaging, LeastSquares, LinearInX, Ridge, Zero
from algoformer.problems import Problems, pairs
from algoformer.prompt import Prompt
from algoformer.tasks import ChainOfThought, LinearRegression
from algoformer.trace import Unroll

ONCE = Unroll(steps=1)


def sampled(task: LinearRegression, batch: int = 3, seed: int = 0) -> Prompt:
    return task.sample(batch, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@settings(max_examples=15)
@given(dim=st.integers(1, 6), points=st.integers(2, 12), seed=st.integers(0, 99))
def test_least_squares_is_lstsq_on_every_prefix(dim: int, points: int, seed: int) -> None:
    prompt = sampled(LinearRegression(dim=dim, points=points, noise=0.3), seed=seed)
    answers = LeastSquares()(prompt, ONCE).final
    xs, ys = prompt.part(0), prompt.targets
    for point in range(1, points):
        # gelsd: minimum norm, by singular values
        weights = torch.linalg.lstsq(xs[:, :point], ys[:, :point], driver="gelsd").solution
        expected = (xs[:, point, None] @ weights)[:, 0]
        torch.testing.assert_close(answers[:, point], expected, rtol=1e-8, atol=1e-8)


def test_least_squares_stands_coordinates_and_pairs_that_say_nothing() -> None:
    task = LinearRegression(dim=6, points=14)
    prompt = task.sample(4, generator=torch.Generator().manual_seed(0), dtype=torch.float64, active_dims=2)
    xs, ys = prompt.part(0), prompt.targets
    twice = Prompt.of_pairs(torch.cat([xs[:, :1], xs], dim=1), torch.cat([ys[:, :1], ys], dim=1))
    answers = LeastSquares()(twice, ONCE).final
    assert answers.isfinite().all()
    torch.testing.assert_close(answers[:, 3:], twice.targets[:, 3:], rtol=1e-7, atol=1e-9)


def test_least_squares_in_float32_is_solved_in_float64() -> None:
    prompt = sampled(LinearRegression(), batch=50).to(torch.float32)
    answers = LeastSquares()(prompt, ONCE).final
    assert answers.dtype == torch.float32
    exact = LeastSquares()(prompt.to(torch.float64), ONCE).final
    torch.testing.assert_close(answers, exact.float())


def test_ridge_is_the_posterior_mean() -> None:
    noise, dim, points = 0.4, 3, 7
    prompt = sampled(LinearRegression(dim=dim, points=points, noise=noise))
    answers = Ridge(strength=noise**2)(prompt, ONCE).final
    xs, ys = prompt.part(0), prompt.targets
    for point in range(1, points):
        # condition the joint normal of (labels seen, label asked) on the labels: needs no normal equations
        seen, query = xs[:, :point], xs[:, point, None]
        labels = seen @ seen.mT + noise**2 * torch.eye(point, dtype=torch.float64)
        expected = query @ seen.mT @ torch.linalg.solve(labels, ys[:, :point])
        torch.testing.assert_close(answers[:, point], expected[:, 0], rtol=1e-9, atol=1e-10)


def test_averaging_is_the_mean_of_label_times_input() -> None:
    prompt = sampled(LinearRegression(dim=3, points=6))
    xs, ys = prompt.part(0), prompt.targets
    expected = (xs[:, 5] * (xs[:, :5] * ys[:, :5]).mean(dim=1)).sum(dim=-1, keepdim=True)
    torch.testing.assert_close(Averaging()(prompt, ONCE).final[:, 5], expected)


def test_zero_answers_with_the_link_of_zero() -> None:
    def shifted(prompt: Prompt) -> Problems:
        return replace(pairs(prompt), link=lambda values: values + 3)

    assert (Zero(view=shifted)(sampled(LinearRegression(dim=3, points=6)), ONCE).final == 3).all()


def test_without_pairs_every_closed_form_answers_zero() -> None:
    for solver in (LeastSquares(), Ridge(strength=0.1), Averaging(), LinearInX()):
        assert not solver(sampled(LinearRegression(dim=3, points=6)), ONCE).final[:, 0].any()


def test_linear_in_x_is_ridge_with_an_intercept() -> None:
    prompt = sampled(LinearRegression(dim=4, points=10, noise=0.5))
    xs, ys = prompt.part(0), prompt.targets
    design = torch.cat([xs, torch.full((3, 10, 1), 2.0, dtype=torch.float64)], dim=-1)  # √4
    seen = design[:, :9]
    weights = torch.linalg.solve(
        seen.mT @ seen + 4.25 * torch.eye(5, dtype=torch.float64), seen.mT @ ys[:, :9]
    )
    answers = LinearInX(noise=0.5)(prompt, ONCE).final
    torch.testing.assert_close(answers[:, 9], (design[:, 9:] @ weights)[:, 0])


def test_a_long_chain_of_many_prompts_is_solved_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    task = ChainOfThought(dim=4, points=6, layers=2, slope=0.5)
    prompt = task.sample(7, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    whole = LeastSquares(view=task.problems)(prompt, ONCE).final
    monkeypatch.setattr("algoformer.algorithms.prefixes._NUMBERS_AT_ONCE", {"cpu": 1000})
    torch.testing.assert_close(LeastSquares(view=task.problems)(prompt, ONCE).final, whole)


@pytest.mark.parametrize("strength", [0.0, -1.0, math.nan])
def test_ridge_without_strength_is_refused(strength: float) -> None:
    with pytest.raises(ValueError, match=r"strength must be > 0 \(LeastSquares is its limit at 0\)"):
        Ridge(strength=strength)


@pytest.mark.parametrize("noise", [-1.0, math.inf])
def test_noise_of_no_size_is_refused(noise: float) -> None:
    with pytest.raises(ValueError, match="noise must be a finite number >= 0"):
        LinearInX(noise=noise)
