import pytest
import torch

from algoformer.algorithms import IterativelyReweighted, LeastSquares
from algoformer.prompt import Prompt
from algoformer.tasks import LinearRegression, RobustRegression
from algoformer.trace import Unroll


def sampled(task: LinearRegression | RobustRegression, batch: int) -> Prompt:
    return task.sample(batch, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def test_the_first_outer_step_is_least_squares() -> None:
    prompt = sampled(RobustRegression(dim=4, points=12), 5)
    trace = IterativelyReweighted()(prompt, Unroll(steps=3))
    # IRLS solves by normal equations, without the refinement that LeastSquares adds
    expected = LeastSquares()(prompt, Unroll(steps=1)).final
    torch.testing.assert_close(trace.predictions[0], expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(("power", "bound"), [(0.0, 1e-8), (0.5, 1e-8), (1.0, 1e-2)])
def test_it_sees_through_eight_outliers_in_forty_pairs(power: float, bound: float) -> None:
    task = RobustRegression(dim=10)
    prompt = sampled(task, 200).prefix(-1)
    trace = IterativelyReweighted(power=power)(prompt, Unroll(steps=20))
    errors = (trace.predictions - prompt.targets).square().mean(dim=(1, 2, 3)) / task.scale
    # least squares is off by half the variance of a label; power 1 is convex but gives up on a few prompts
    assert errors[0].item() > 0.4
    assert errors[-1].item() < bound


def test_without_outliers_it_stays_at_the_truth() -> None:
    prompt = sampled(LinearRegression(dim=4, points=12), 5).prefix(-1)
    trace = IterativelyReweighted()(prompt, Unroll(steps=10))
    torch.testing.assert_close(trace.predictions, prompt.targets.expand(10, -1, -1, -1), rtol=1e-8, atol=1e-8)


def test_power_one_is_least_absolute_deviations() -> None:
    prompt = sampled(RobustRegression(dim=1, points=10, outliers=0.4, noise=0.5), 6).prefix(-1)
    xs, ys = prompt.part(0)[:, :-1, 0], prompt.part(1)[:, :-1, 0]
    # in one dimension the best slope is one of the y/x: try them all
    slopes = ys / xs
    losses = (ys[:, None] - slopes[..., None] * xs[:, None]).abs().sum(dim=-1)
    best = slopes.gather(1, losses.argmin(dim=1, keepdim=True))
    solver = IterativelyReweighted(power=1.0, floor=1e-7, shrink=0.7)
    answer = solver(prompt, Unroll(steps=200, window=1)).final[:, 0]
    torch.testing.assert_close(answer, best * prompt.rows[:, -1], rtol=1e-3, atol=1e-3)


def test_many_inner_steps_are_the_exact_inner_solution() -> None:
    prompt = sampled(RobustRegression(dim=3, points=30), 4).prefix(-1)
    exact = IterativelyReweighted(power=1.0, floor=0.1)(prompt, Unroll(steps=6)).final
    inner = IterativelyReweighted(power=1.0, floor=0.1, inner_steps=500)(prompt, Unroll(steps=6)).final
    torch.testing.assert_close(inner, exact, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        ({"power": 2.0}, r"power must lie in \[0, 2\)"),
        ({"shrink": 0.0}, r"shrink must lie in \(0, 1\]"),
        ({"floor": 0.0}, r"floor must lie in \(0, 1\]"),
        ({"inner_steps": 0}, "inner_steps must be at least 1, or None"),
    ],
)
def test_impossible_settings_are_refused(broken: dict[str, float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        IterativelyReweighted(**broken)  # type: ignore[arg-type]
