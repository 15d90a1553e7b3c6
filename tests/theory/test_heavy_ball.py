import math

import pytest
import torch

from algoformer.algorithms import GradientDescent, HeavyBall
from algoformer.model import AlgoFormer
from algoformer.problems import pairs
from algoformer.prompt import Prompt
from algoformer.theory.blueprint import blueprint_of
from algoformer.theory.checks import check_converges, step_size_limit
from algoformer.theory.constants import DOUBLE, Constants
from algoformer.theory.statement import count_modules
from algoformer.theory.variants import heavy_ball
from algoformer.trace import Unroll

from .linearized import linearized, regression

DIM, EXAMPLES, STEPS, STEP_SIZE, MOMENTUM = 3, 8, 100, 0.4, 0.5

# (cz)²/6 < 2e-9 of a step at c = 1e-4; momentum repeats a step's error 1/(1 - β) times
CLOSE = 4e-8


def built(constants: Constants = DOUBLE, **changed: float) -> AlgoFormer:
    numbers = {"step_size": STEP_SIZE, "momentum": MOMENTUM, **changed}
    return heavy_ball(dim=DIM, examples=EXAMPLES, constants=constants, **numbers)


def gap(model: AlgoFormer, prompt: Prompt, steps: int = STEPS, **textbook: float) -> float:
    solver = HeavyBall(**{"step_size": STEP_SIZE, "momentum": MOMENTUM, **textbook})
    with torch.no_grad():
        found = model(prompt, Unroll(steps=steps)).predictions
    return (found - solver(prompt, Unroll(steps=steps)).predictions).abs().max().item()


@pytest.fixture(scope="module")
def prompt() -> Prompt:
    return regression(DIM, EXAMPLES + 1, noise=0.5).prefix()


@pytest.mark.theorem
def test_each_pass_is_one_heavy_ball_step(prompt: Prompt) -> None:
    check_converges(STEP_SIZE, pairs(prompt), momentum=MOMENTUM)
    assert gap(built(), prompt) < CLOSE


@pytest.mark.theorem
def test_the_paper_s_size_is_followed_step_by_step() -> None:
    prompt = regression(20, 41, batch=2).prefix()
    model = heavy_ball(dim=20, examples=40, step_size=0.5, momentum=0.6)
    assert gap(model, prompt, steps=40, step_size=0.5, momentum=0.6) < CLOSE


@pytest.mark.theorem
def test_the_velocity_is_the_last_move(prompt: Prompt) -> None:
    model = built()
    keep = tuple(f"loop[{step}]" for step in range(1, 21))
    with torch.no_grad():
        states = model(prompt, Unroll(steps=20, keep=keep)).states
    space = blueprint_of(model).space
    before = torch.zeros_like(prompt.targets[:, 0])
    for address in keep:
        question = states[address][:, -2]
        answer = question[:, space.run("residual")]
        torch.testing.assert_close(question[:, space.run("velocity")], answer - before, rtol=0, atol=1e-12)
        assert not states[address][..., space.run("change")].any()
        before = answer


@pytest.mark.theorem
def test_a_pass_is_a_step_with_a_sinh_kernel(prompt: Prompt) -> None:
    """For finite c and C the loop does just this, to rounding."""
    constants = Constants(c=0.1, sink=8.0)
    xs, ys = prompt.part(0), prompt.part(1)[:, :-1, :1]
    kernel = linearized(
        xs @ xs[:, :-1].mT, unit=EXAMPLES, constants=constants, count=torch.tensor(float(EXAMPLES))
    )
    values = velocity = torch.zeros_like(xs[..., :1])
    with torch.no_grad():
        found = built(constants)(prompt, Unroll(steps=STEPS)).predictions
    for answer in found:
        velocity = MOMENTUM * velocity - STEP_SIZE / EXAMPLES * kernel @ (values[:, :-1] - ys)
        values = values + velocity
        torch.testing.assert_close(answer[:, 0], values[:, -1], rtol=0, atol=1e-10)


def test_without_momentum_it_is_gradient_descent(prompt: Prompt) -> None:
    with torch.no_grad():
        found = built(momentum=0.0)(prompt, Unroll(steps=STEPS)).predictions
    expected = GradientDescent(step_size=STEP_SIZE)(prompt, Unroll(steps=STEPS)).predictions
    torch.testing.assert_close(found, expected, rtol=0, atol=CLOSE)


@pytest.mark.parametrize("point", range(EXAMPLES + 1))
def test_every_prefix_has_the_mean_over_its_own_examples(point: int) -> None:
    model = built(step_size=0.1)
    prompt = regression(DIM, EXAMPLES + 1).prefix(point)
    assert gap(model, prompt, steps=30, step_size=0.1) < 5 * CLOSE  # fewer examples, larger residuals


def test_momentum_costs_one_coordinate_and_no_head() -> None:
    assert count_modules(built()) == {"pre": (1, 2), "loop": (1, 2), "post": (1, 1)}
    assert blueprint_of(built()).space.size("velocity") == 1


def test_momentum_widens_the_interval_of_step_sizes(prompt: Prompt) -> None:
    limit = (1 + MOMENTUM) * step_size_limit(pairs(prompt))
    check_converges(0.999 * limit, pairs(prompt), momentum=MOMENTUM)
    with pytest.raises(ValueError, match=r"step_size must lie below 2\(1 \+ momentum\)/λ_max = .*got"):
        check_converges(limit, pairs(prompt), momentum=MOMENTUM)


@pytest.mark.parametrize("momentum", [-0.1, 1.0, math.nan])
def test_momentum_must_lie_below_one(momentum: float, prompt: Prompt) -> None:
    with pytest.raises(ValueError, match=r"momentum must lie in \[0, 1\)"):
        check_converges(STEP_SIZE, pairs(prompt), momentum=momentum)


def test_a_longer_prompt_is_refused() -> None:
    with pytest.raises(ValueError, match="built for context=17"):
        built()(regression(DIM, EXAMPLES + 2).prefix())
