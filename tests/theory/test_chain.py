import pytest
import torch

from algoformer.algorithms import GradientDescent
from algoformer.model import AlgoFormer
from algoformer.prompt import Prompt
from algoformer.tasks import ChainOfThought
from algoformer.theory import DOUBLE, Constants, blueprint_of, chain
from algoformer.theory.checks import step_size_limit
from algoformer.theory.statement import count_modules
from algoformer.trace import Unroll

from .kernel_descent import KernelDescent

TASK = ChainOfThought(dim=3, points=11, layers=4, slope=0.5)
EXAMPLES = TASK.points - 1
COARSE = Constants(c=1e-2)


def prompts(task: ChainOfThought = TASK) -> Prompt:
    return task.sample(6, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def question(layer: int, sample: int = EXAMPLES, task: ChainOfThought = TASK) -> Prompt:
    return prompts(task).prefix(sample * task.layers + layer)


def built(step_size: float, task: ChainOfThought = TASK, constants: Constants = DOUBLE) -> AlgoFormer:
    return chain(
        dim=3,
        layers=task.layers,
        examples=EXAMPLES,
        step_size=step_size,
        slope=task.slope,
        constants=constants,
    )


@pytest.mark.theorem
@pytest.mark.parametrize("layer", range(TASK.layers))
@pytest.mark.parametrize("sample", [EXAMPLES, 4])
def test_each_pass_is_one_gradient_step_at_the_layer_asked_for(layer: int, sample: int) -> None:
    prompt, unroll = question(layer, sample), Unroll(steps=60)
    step_size = 0.8 * step_size_limit(TASK.problems(prompt))
    expected = GradientDescent(step_size=step_size, view=TASK.problems)(prompt, unroll).predictions
    torch.testing.assert_close(built(step_size)(prompt, unroll).predictions, expected, rtol=0, atol=1e-7)


@pytest.mark.theorem
@pytest.mark.parametrize("layer", range(TASK.layers))
def test_for_finite_constants_it_is_exactly_kernel_gradient_descent(layer: int) -> None:
    prompt, unroll = question(layer), Unroll(steps=60)
    step_size = 0.8 * step_size_limit(TASK.problems(prompt))
    oracle = KernelDescent(step_size=step_size, examples=EXAMPLES, constants=COARSE, view=TASK.problems)
    answers = built(step_size, constants=COARSE)(prompt, unroll).predictions
    torch.testing.assert_close(answers, oracle(prompt, unroll).predictions, rtol=0, atol=1e-10)


@pytest.mark.theorem
def test_small_slopes_are_inverted_too() -> None:
    task = ChainOfThought(dim=3, points=11, layers=2, slope=0.01)
    prompt, unroll = question(0, task=task), Unroll(steps=60)
    step_size = 0.8 * step_size_limit(task.problems(prompt))
    expected = GradientDescent(step_size=step_size, view=task.problems)(prompt, unroll).predictions
    answers = built(step_size, task)(prompt, unroll).predictions
    torch.testing.assert_close(answers, expected, rtol=0, atol=1e-7)


@pytest.mark.theorem
@pytest.mark.parametrize("layer", range(TASK.layers))
def test_the_pre_transformer_filters_the_chain_exactly(layer: int) -> None:
    prompt, model = question(layer), built(0.1)
    space = blueprint_of(model).space
    state = model(prompt, Unroll(steps=1, keep=("pre",))).states["pre"]
    rows = torch.arange(state.shape[1]) - 1
    chosen = (rows >= 0) & (rows % TASK.parts == layer) & (rows < prompt.rows.shape[1])
    feature, residual = state[..., space.run("feature")], state[..., space.run("residual")]
    assert torch.equal(feature[:, chosen], prompt.part(layer))
    assert torch.equal(feature[:, ~chosen], torch.zeros_like(feature[:, ~chosen]))
    labels = TASK.problems(prompt).labels[:, layer, :-1]
    torch.testing.assert_close(residual[:, chosen][:, :-1], -labels, rtol=1e-15, atol=0)
    unlabeled = ~chosen
    unlabeled[-2] = True  # the question itself
    assert torch.equal(residual[:, unlabeled], torch.zeros_like(residual[:, unlabeled]))


@pytest.mark.theorem
@pytest.mark.parametrize("layer", range(TASK.layers))
def test_without_examples_the_answer_is_zero(layer: int) -> None:
    answers = built(0.1)(question(layer, 0), Unroll(steps=5)).predictions
    assert torch.equal(answers, torch.zeros_like(answers))


@pytest.mark.theorem
def test_the_sink_stays_empty() -> None:
    model = built(0.1)
    space = blueprint_of(model).space
    state = model(question(2), Unroll(steps=20, keep=("loop[20]",))).states["loop[20]"]
    for name in ("feature", "residual"):
        assert torch.equal(state[:, 0, space.run(name)], torch.zeros_like(state[:, 0, space.run(name)]))


@pytest.mark.theorem
def test_two_layers_of_the_seven_claimed_are_enough() -> None:
    assert count_modules(built(0.1)) == {"pre": (2, 2), "loop": (1, 2), "post": (1, 0)}


def test_a_prompt_longer_than_the_codes_is_refused() -> None:
    model = chain(dim=3, layers=4, examples=9, step_size=0.1, slope=0.5)
    with pytest.raises(ValueError, match="the prompt has 51 rows, this model was built for context=49"):
        model(question(0))


def test_samples_of_another_length_are_refused() -> None:
    model = chain(dim=3, layers=3, examples=EXAMPLES, step_size=0.1, slope=0.5)
    with pytest.raises(ValueError, match="this model reads samples of 4 rows, the prompt's have 5"):
        model(question(0, 5))
