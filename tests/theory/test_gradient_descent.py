import dataclasses
from itertools import pairwise

import pytest
import torch
from torch import Tensor

from algoformer.algorithms import GradientDescent
from algoformer.model import AlgoFormer
from algoformer.problems import Problems, pairs
from algoformer.prompt import Prompt
from algoformer.theory import DOUBLE, Constants, blueprint_of, gradient_descent_step, prepared
from algoformer.theory.checks import check_converges, step_size_limit
from algoformer.theory.statement import count_modules
from algoformer.trace import Unroll

from .kernel_descent import KernelDescent
from .written import normal

DIM, OUT, EXAMPLES, STEP_SIZE = 4, 3, 12, 0.4


def regression(examples: int = EXAMPLES, *, batch: int = 16) -> Prompt:
    xs, weights = normal(batch, examples + 1, DIM), normal(batch, DIM, OUT, seed=1)
    noise = 0.1 * normal(batch, examples + 1, OUT, seed=2)
    return Prompt.of_pairs(xs, xs @ weights + noise)


def built(constants: Constants = DOUBLE, step_size: float = STEP_SIZE) -> AlgoFormer:
    return gradient_descent_step(
        dim=DIM, out=OUT, examples=EXAMPLES, step_size=step_size, constants=constants
    )


def weights_after(problems: Problems, steps: int) -> list[Tensor]:
    """A_1, A_2, ... by the formula of the lemma, for the last question's examples."""
    features, labels = problems.features[:, 0, :-1], problems.labels[:, 0, :-1]
    matrix = torch.zeros(len(features), OUT, DIM, dtype=torch.float64)
    found = []
    for _ in range(steps):
        gradient = (features @ matrix.mT - labels).mT @ features / features.shape[1]
        matrix = matrix - STEP_SIZE * gradient
        found.append(matrix)
    return found


@pytest.mark.theorem
def test_each_pass_is_one_gradient_step() -> None:
    prompt, unroll = regression(), Unroll(steps=200)
    textbook = GradientDescent(step_size=STEP_SIZE)(prompt.prefix(), unroll)
    answers = built()(prepared(prompt), unroll)
    torch.testing.assert_close(answers.predictions, textbook.predictions, rtol=0, atol=1e-7)


@pytest.mark.theorem
def test_the_stream_holds_every_residual_of_the_iterate() -> None:
    prompt = regression()
    problems, model = pairs(prompt.prefix()), built()
    residual = blueprint_of(model).space.run("residual")
    keep = tuple(f"loop[{step}]" for step in range(1, 31))
    states = model(prepared(prompt), Unroll(steps=30, keep=keep)).states
    for address, matrix in zip(keep, weights_after(problems, 30), strict=True):
        expected = problems.features[:, 0] @ matrix.mT
        expected[:, :-1] -= problems.labels[:, 0, :-1]
        torch.testing.assert_close(states[address][:, :-1, residual], expected, rtol=0, atol=1e-7)


@pytest.mark.theorem
@pytest.mark.parametrize("sink", [8.0, 25.0])
@pytest.mark.parametrize("c", [1e-1, 1e-2, 1e-3])
def test_for_finite_constants_it_is_exactly_kernel_gradient_descent(c: float, sink: float) -> None:
    prompt, unroll = regression(), Unroll(steps=200)
    constants = dataclasses.replace(DOUBLE, c=c, sink=sink)
    oracle = KernelDescent(step_size=STEP_SIZE, examples=EXAMPLES, constants=constants)
    expected = oracle(prompt.prefix(), unroll).predictions
    answers = built(constants)(prepared(prompt), unroll).predictions
    torch.testing.assert_close(answers, expected, rtol=0, atol=1e-10)


@pytest.mark.theorem
def test_each_pass_is_one_step_of_kernel_gradient_descent() -> None:
    # at c = 1e-4 a score of size C has room for 11 digits of cz: a pass is exact to 1e-10, 200 are not
    prompt, model = regression(), built()
    oracle = KernelDescent(step_size=STEP_SIZE, examples=EXAMPLES)
    kernel = oracle.kernel(pairs(prompt.prefix()).features[:, 0], EXAMPLES)
    keep = tuple(f"loop[{step}]" for step in range(1, 101))
    residual = blueprint_of(model).space.run("residual")
    states = model(prepared(prompt), Unroll(steps=100, keep=keep)).states
    residuals = [states[address][:, :-1, residual] for address in keep]
    for before, after in pairwise(residuals):
        expected = before - STEP_SIZE / EXAMPLES * kernel @ before[:, :EXAMPLES]
        torch.testing.assert_close(after, expected, rtol=0, atol=1e-10)


@pytest.mark.theorem
@pytest.mark.parametrize("examples", [6, 9])
def test_the_mean_is_over_the_examples_that_are_there(examples: int) -> None:
    prompt, unroll = regression(examples), Unroll(steps=50)
    step_size = 0.5 * step_size_limit(pairs(prompt.prefix()))
    textbook = GradientDescent(step_size=step_size)(prompt.prefix(), unroll)
    answers = built(step_size=step_size)(prepared(prompt), unroll)
    torch.testing.assert_close(answers.predictions, textbook.predictions, rtol=0, atol=1e-7)


@pytest.mark.theorem
def test_without_examples_the_answer_is_zero() -> None:
    answers = built()(prepared(regression(0)), Unroll(steps=5)).predictions
    assert torch.equal(answers, torch.zeros_like(answers))


@pytest.mark.theorem
def test_the_sink_stays_empty() -> None:
    model = built()
    space = blueprint_of(model).space
    state = model(prepared(regression()), Unroll(steps=50, keep=("loop[50]",))).states["loop[50]"]
    for name in ("x", "residual"):
        assert torch.equal(state[:, -1, space.run(name)], torch.zeros_like(state[:, -1, space.run(name)]))


@pytest.mark.theorem
def test_it_is_one_layer_with_two_heads() -> None:
    assert count_modules(built()) == {"loop": (1, 2)}


@pytest.mark.theorem
@pytest.mark.parametrize("factor", [0.95, 1.05])
def test_it_converges_just_below_the_limit_and_not_above(factor: float) -> None:
    prompt = regression(batch=1)
    limit = step_size_limit(pairs(prompt.prefix()))
    model = built(step_size=factor * limit)
    early, late = model(prepared(prompt), Unroll(steps=300)).predictions[[149, 299]]
    assert ((late - early).abs().max() < 1) == (factor < 1)


def test_a_step_size_is_held_against_prompts() -> None:
    problems = pairs(regression().prefix())
    limit = step_size_limit(problems)
    check_converges(0.99 * limit, problems)
    with pytest.raises(ValueError, match=r"step_size must lie below 2/λ_max = .* for these prompts, got"):
        check_converges(1.01 * limit, problems)


def test_prompts_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ValueError, match=r"the prompt has 14 rows, this model was built for context=13"):
        built()(prepared(regression(EXAMPLES + 1)))
    with pytest.raises(ValueError, match="this model reads rows of dim=9"):
        built()(regression().prefix())
