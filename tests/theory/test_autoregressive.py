import pytest
import torch

from algoformer.algorithms import GradientDescent
from algoformer.model import AlgoFormer
from algoformer.prompt import Prompt
from algoformer.tasks import AutoregressiveWithRepresentation
from algoformer.theory import (
    DOUBLE,
    Constants,
    Network,
    autoregressive,
    blueprint_of,
    network_of,
)
from algoformer.theory.checks import step_size_limit
from algoformer.theory.statement import count_modules
from algoformer.trace import Unroll

from .kernel_descent import KernelDescent
from .written import normal

TASK = AutoregressiveWithRepresentation(dim=3, points=16, order=3, slope=0.2)
LENGTH = TASK.points - 1
COARSE = Constants(c=1e-2)


def prompts() -> Prompt:
    return TASK.sample(8, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def built(step_size: float, *, phi: Network | None = None, constants: Constants = DOUBLE) -> AlgoFormer:
    return autoregressive(
        network=phi or network_of(TASK.phi),
        order=TASK.order,
        length=LENGTH,
        step_size=step_size,
        constants=constants,
    )


@pytest.mark.theorem
@pytest.mark.parametrize("point", [-1, 2, 6])
def test_each_pass_is_one_gradient_step_on_the_series(point: int) -> None:
    prompt, unroll = prompts().prefix(point), Unroll(steps=100)
    step_size = 0.8 * step_size_limit(TASK.problems(prompt))
    expected = GradientDescent(step_size=step_size, view=TASK.problems)(prompt, unroll).predictions
    answers = built(step_size)(prompt, unroll).predictions
    torch.testing.assert_close(answers, expected, rtol=0, atol=1e-7)


@pytest.mark.theorem
def test_for_finite_constants_it_is_exactly_kernel_gradient_descent() -> None:
    prompt, unroll = prompts().prefix(), Unroll(steps=100)
    step_size = 0.8 * step_size_limit(TASK.problems(prompt))
    oracle = KernelDescent(
        step_size=step_size, examples=LENGTH - TASK.order, constants=COARSE, view=TASK.problems
    )
    answers = built(step_size, constants=COARSE)(prompt, unroll).predictions
    torch.testing.assert_close(answers, oracle(prompt, unroll).predictions, rtol=0, atol=1e-10)


@pytest.mark.theorem
def test_without_a_whole_history_the_answer_is_zero() -> None:
    answers = built(1.0)(prompts().prefix(0), Unroll(steps=5)).predictions
    assert answers.abs().max() < 1e-30  # masked tokens enter with a factor e^(-80)


@pytest.mark.theorem
def test_features_and_label_of_an_example_stand_in_one_column() -> None:
    prompt = prompts().prefix()
    model = built(1.0)
    space = blueprint_of(model).space
    state = model(prompt, Unroll(steps=1, keep=("pre",))).states["pre"]
    problems = TASK.problems(prompt)
    # place t holds Φ*(x_{t-q..t-1}) and x_t; the empty token before the rows is place 0
    columns = state[:, TASK.order + 1 :]
    torch.testing.assert_close(columns[..., space.run("phi")], problems.features[:, 0], rtol=0, atol=1e-14)
    assert torch.equal(columns[..., space.run("residual")], -problems.labels[:, 0])


@pytest.mark.theorem
def test_the_sink_stays_empty() -> None:
    model = built(1.0, phi=biased())
    space = blueprint_of(model).space
    trace = model(prompts().prefix(), Unroll(steps=20, keep=("loop[20]",)))
    state = trace.states["loop[20]"]
    for name in ("phi", "residual"):
        assert torch.equal(state[:, 0, space.run(name)], torch.zeros_like(state[:, 0, space.run(name)]))


def biased() -> Network:
    return Network(dim=9, weights=(0.1 * normal(4, 9),), biases=(0.1 * normal(4, seed=1),), slope=0.5)


@pytest.mark.theorem
def test_a_plain_series_needs_no_representation() -> None:
    prompt, unroll = prompts().prefix(), Unroll(steps=50)
    model = built(0.05, phi=Network(dim=9))
    plain = AutoregressiveWithRepresentation(dim=3, points=16, order=3)
    problems = plain.problems(prompt)
    history = prompt.rows.unfold(1, 3, 1).transpose(-1, -2).flatten(-2)[:, None]
    raw = type(problems)(features=history, labels=problems.labels, questions=problems.questions)
    assert step_size_limit(raw) > 0.05
    expected = GradientDescent(step_size=0.05, view=lambda _: raw)(prompt, unroll).predictions
    torch.testing.assert_close(model(prompt, unroll).predictions, expected, rtol=0, atol=1e-6)


@pytest.mark.theorem
def test_layers_and_heads_are_as_claimed() -> None:
    claimed = {"copy": (1, 3), "pre": (4, 1), "loop": (1, 2), "post": (1, 1)}
    assert count_modules(built(1.0)) == claimed


def test_a_prompt_longer_than_the_codes_is_refused() -> None:
    model = autoregressive(network=network_of(TASK.phi), order=3, length=LENGTH - 1, step_size=1.0)
    with pytest.raises(ValueError, match="the prompt has 15 rows, this model was built for context=14"):
        model(prompts().prefix())
