"""Data of any scale: what the linearized heads can take, and what the checks say about the rest."""

import pytest
import torch

from algoformer.algorithms import GradientDescent
from algoformer.problems import pairs
from algoformer.prompt import Prompt
from algoformer.theory import (
    SINGLE,
    check_alpha,
    check_converges,
    check_scale,
    gradient_descent,
    gradient_descent_step,
    prepared,
    step_size_limit,
)
from algoformer.trace import Unroll

from .written import normal

STEPS = 20


def regression(dim: int, examples: int, *, scale: float = 1.0) -> Prompt:
    xs, weights = scale * normal(8, examples + 1, dim), normal(8, dim, 1, seed=1)
    return Prompt.of_pairs(xs, xs @ weights).prefix()


@torch.no_grad()
def relative_gap(prompt: Prompt, step_size: float, *, dtype: torch.dtype, examples: int) -> float:
    """The largest deviation of the weights from the textbook, relative to the largest answer."""
    textbook = GradientDescent(step_size=step_size)(prompt, Unroll(steps=STEPS)).predictions
    options = {"constants": SINGLE} if dtype == torch.float32 else {}
    model = gradient_descent(dim=prompt.dim, examples=examples, step_size=step_size, dtype=dtype, **options)
    found = model(prompt.to(dtype), Unroll(steps=STEPS)).predictions.double()
    return float((found - textbook).abs().nan_to_num(nan=torch.inf).max() / textbook.abs().max())


@pytest.mark.theorem
def test_large_features_are_refused_and_the_remedy_is_exact() -> None:
    prompt = regression(7, 8, scale=10.0)
    step_size = 0.5 * step_size_limit(pairs(prompt))
    assert relative_gap(prompt, step_size, dtype=torch.float32, examples=8) > 1
    with pytest.raises(
        ValueError, match=r"features are too large .* divide the features by .* 9\.\d"
    ) as caught:
        check_converges(step_size, pairs(prompt.to(torch.float32)))
    words = str(caught.value).split()
    scale, factor = float(words[words.index("square") + 1]), float(words[words.index("step_size") + 2])
    rows = prompt.rows.clone()
    rows[:, ::2] /= scale
    smaller = Prompt(rows=rows, targets=prompt.targets, reads=prompt.reads, parts=2)
    check_converges(step_size * factor, pairs(smaller.to(torch.float32)))
    assert relative_gap(smaller, step_size * factor, dtype=torch.float32, examples=8) < 1e-2
    answers, before = (
        GradientDescent(step_size=eta)(shown, Unroll(steps=STEPS)).predictions
        for eta, shown in ((step_size * scale**2, smaller), (step_size, prompt))
    )
    torch.testing.assert_close(answers, before, rtol=1e-10, atol=1e-10)


def test_double_precision_has_room_for_larger_features() -> None:
    prompt = regression(7, 8, scale=10.0)
    step_size = 0.5 * step_size_limit(pairs(prompt))
    check_converges(step_size, pairs(prompt))
    with pytest.raises(ValueError, match="features are too large"):
        check_converges(step_size, pairs(prompt), constants=SINGLE)


@pytest.mark.parametrize("scale", [100.0, 1000.0])
def test_every_check_looks_at_the_scale(scale: float) -> None:
    problems = pairs(regression(3, 8, scale=scale))
    tiny = 1e-30
    for check in (
        lambda: check_converges(tiny, problems, constants=SINGLE),
        lambda: check_converges(tiny, problems, penalty=0.1, constants=SINGLE),
        lambda: check_converges(tiny, problems, momentum=0.5, constants=SINGLE),
        lambda: check_alpha(tiny, problems, constants=SINGLE),
    ):
        with pytest.raises(ValueError, match="features are too large"):
            check()


def test_small_features_give_a_warning_in_single_precision() -> None:
    with pytest.warns(UserWarning, match="features are small"):
        check_scale(pairs(regression(7, 8, scale=0.05).to(torch.float32)))


@pytest.mark.parametrize(("dim", "examples"), [(1, 1), (3, 8), (7, 1), (20, 40), (33, 2)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_standard_normal_features_pass_without_a_warning(dim: int, examples: int, dtype: torch.dtype) -> None:
    check_scale(pairs(regression(dim, examples).to(dtype)))


@pytest.mark.theorem
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_single_example_is_solved_as_precisely_as_many(dtype: torch.dtype) -> None:
    prompt = regression(7, 1)
    step_size = 0.5 * step_size_limit(pairs(prompt))
    # (cz)²/6 with z up to 3 is 4e-3 for c = 0.05 and 2e-8 for c = 1e-4
    close = 1e-2 if dtype == torch.float32 else 5e-8
    assert relative_gap(prompt, step_size, dtype=dtype, examples=1) < close


@pytest.mark.theorem
def test_one_coordinate_is_enough() -> None:
    xs = normal(4, 5, 1)
    prompt = Prompt.of_pairs(xs, 2 * xs)
    answers = gradient_descent_step(dim=1, examples=4, step_size=0.3)(prepared(prompt), Unroll(steps=9))
    textbook = GradientDescent(step_size=0.3)(prompt.prefix(), Unroll(steps=9))
    torch.testing.assert_close(answers.predictions, textbook.predictions, rtol=0, atol=1e-7)
