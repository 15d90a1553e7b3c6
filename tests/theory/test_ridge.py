import math

import pytest
import torch

from algoformer.algorithms import GradientDescent, Ridge
from algoformer.model import AlgoFormer
from algoformer.problems import pairs
from algoformer.prompt import Prompt
from algoformer.theory.blueprint import blueprint_of
from algoformer.theory.checks import check_converges, step_size_limit
from algoformer.theory.constants import DOUBLE, Constants
from algoformer.theory.representation import gradient_descent
from algoformer.theory.statement import count_modules
from algoformer.theory.variants import ridge
from algoformer.trace import Unroll

from .linearized import linearized, regression

DIM, EXAMPLES, STEPS, STEP_SIZE, PENALTY = 3, 8, 100, 0.3, 0.2

# (cz)²/6 < 2e-9 of a step at c = 1e-4; the decay keeps the steps' errors from adding up
CLOSE = 2e-8


def built(constants: Constants = DOUBLE) -> AlgoFormer:
    return ridge(dim=DIM, examples=EXAMPLES, step_size=STEP_SIZE, penalty=PENALTY, constants=constants)


def gap(model: AlgoFormer, prompt: Prompt, steps: int = STEPS, **textbook: float) -> float:
    solver = GradientDescent(**{"step_size": STEP_SIZE, "penalty": PENALTY, **textbook})
    with torch.no_grad():
        found = model(prompt, Unroll(steps=steps)).predictions
    return (found - solver(prompt, Unroll(steps=steps)).predictions).abs().max().item()


@pytest.fixture(scope="module")
def prompt() -> Prompt:
    return regression(DIM, EXAMPLES + 1, noise=0.5).prefix()


@pytest.mark.theorem
def test_each_pass_is_one_gradient_step_on_the_ridge_loss(prompt: Prompt) -> None:
    check_converges(STEP_SIZE, pairs(prompt), penalty=PENALTY)
    assert gap(built(), prompt) < CLOSE


@pytest.mark.theorem
def test_the_paper_s_size_is_followed_step_by_step() -> None:
    prompt = regression(20, 41, batch=2).prefix()
    model = ridge(dim=20, examples=40, step_size=0.5, penalty=0.1)
    assert gap(model, prompt, steps=40, step_size=0.5, penalty=0.1) < CLOSE


@pytest.mark.theorem
def test_the_loop_tends_to_ridge_regression(prompt: Prompt) -> None:
    with torch.no_grad():
        found = built()(prompt, Unroll(steps=400, window=1)).final
    expected = Ridge(strength=EXAMPLES * PENALTY)(prompt, Unroll(steps=1)).final
    torch.testing.assert_close(found, expected, rtol=0, atol=CLOSE)


@pytest.mark.theorem
def test_a_pass_is_a_step_with_a_sinh_kernel(prompt: Prompt) -> None:
    """For finite c and C the loop does just this, to rounding."""
    constants = Constants(c=0.1, sink=8.0)
    xs, ys = prompt.part(0), prompt.part(1)[:, :-1, :1]
    kernel = linearized(
        xs @ xs[:, :-1].mT, unit=EXAMPLES, constants=constants, count=torch.tensor(float(EXAMPLES))
    )
    values = torch.zeros_like(xs[..., :1])
    with torch.no_grad():
        found = built(constants)(prompt, Unroll(steps=STEPS)).predictions
    for answer in found:
        pull = kernel @ (values[:, :-1] - ys) / EXAMPLES
        values = values - STEP_SIZE * (pull + PENALTY * values)
        torch.testing.assert_close(answer[:, 0], values[:, -1], rtol=0, atol=1e-10)


def test_without_a_penalty_it_is_gradient_descent(prompt: Prompt) -> None:
    plain = gradient_descent(dim=DIM, examples=EXAMPLES, step_size=STEP_SIZE)
    unpenalized = ridge(dim=DIM, examples=EXAMPLES, step_size=STEP_SIZE, penalty=0.0)
    with torch.no_grad():
        one, other = (model(prompt, Unroll(steps=STEPS)).predictions for model in (plain, unpenalized))
    torch.testing.assert_close(one, other, rtol=0, atol=1e-9)


def test_a_decay_that_forgets_everything_is_no_special_case() -> None:
    """ηλ = 1: a rule that divided the gradient by 1 - ηλ would break down."""
    prompt = regression(DIM, EXAMPLES + 1).prefix()
    model = ridge(dim=DIM, examples=EXAMPLES, step_size=0.25, penalty=4.0)
    assert gap(model, prompt, steps=20, step_size=0.25, penalty=4.0) < CLOSE


@pytest.mark.parametrize("point", range(EXAMPLES + 1))
def test_every_prefix_has_the_mean_over_its_own_examples(point: int) -> None:
    prompt = regression(DIM, EXAMPLES + 1).prefix(point)
    model = ridge(dim=DIM, examples=EXAMPLES, step_size=0.1, penalty=PENALTY)
    assert gap(model, prompt, steps=30, step_size=0.1) < 5 * CLOSE  # fewer examples, larger residuals


def test_the_gradient_s_own_coordinates_are_cleared_at_every_pass(prompt: Prompt) -> None:
    model = built()
    with torch.no_grad():
        state = model(prompt, Unroll(steps=3, keep=("loop[3]",))).states["loop[3]"]
    space = blueprint_of(model).space
    assert not state[..., space.run("change")].any()
    assert torch.equal(state[:, 0:-2:2, space.run("target")], prompt.part(1)[:, :-1, :1])
    assert not state[:, 1::2, space.run("target")].any()


def test_labels_may_have_several_numbers() -> None:
    generator = torch.Generator().manual_seed(1)
    xs, ys = (torch.randn(3, EXAMPLES + 1, 3, generator=generator, dtype=torch.float64) for _ in range(2))
    model = ridge(dim=DIM, examples=EXAMPLES, step_size=STEP_SIZE, penalty=PENALTY, out=2)
    with torch.no_grad():
        found = model(Prompt.of_pairs(xs, ys[..., :2]).prefix(), Unroll(steps=300, window=1)).final
    expected = Ridge(strength=EXAMPLES * PENALTY)(Prompt.of_pairs(xs, ys[..., :2]).prefix(), Unroll(steps=1))
    torch.testing.assert_close(found, expected.final, rtol=0, atol=CLOSE)


def test_layers_and_heads_are_those_of_theorem_three_one() -> None:
    assert count_modules(built()) == {"pre": (1, 2), "loop": (1, 2), "post": (1, 1)}


def test_the_penalty_narrows_the_interval_of_step_sizes(prompt: Prompt) -> None:
    limit = 2 / (2 / step_size_limit(pairs(prompt)) + PENALTY)
    check_converges(0.999 * limit, pairs(prompt), penalty=PENALTY)
    with pytest.raises(ValueError, match=r"step_size must lie below 2/\(λ_max \+ penalty\) = .*got"):
        check_converges(limit, pairs(prompt), penalty=PENALTY)


@pytest.mark.parametrize("penalty", [-0.1, math.inf, math.nan])
def test_the_penalty_must_not_be_negative(penalty: float, prompt: Prompt) -> None:
    with pytest.raises(ValueError, match="penalty must be a number ≥ 0"):
        check_converges(STEP_SIZE, pairs(prompt), penalty=penalty)


def test_a_longer_prompt_is_refused() -> None:
    with pytest.raises(ValueError, match="built for context=17"):
        built()(regression(DIM, EXAMPLES + 2).prefix())
