from itertools import pairwise

import pytest
import torch
from torch import Tensor

from algoformer.algorithms import GradientDescent
from algoformer.model import AlgoFormer
from algoformer.problems import Problems, pairs
from algoformer.prompt import Prompt
from algoformer.tasks import RegressionWithRepresentation
from algoformer.theory import (
    Constants,
    Network,
    blueprint_of,
    gradient_descent,
    network_of,
    representation,
)
from algoformer.theory.checks import step_size_limit
from algoformer.theory.statement import count_modules
from algoformer.trace import Unroll

from .kernel_descent import KernelDescent
from .written import normal

DIM, OUT, EXAMPLES = 4, 2, 10
COARSE = Constants(c=1e-2)
WIDTHS = {0: (), 1: (5,), 2: (3, 6), 3: (5, 2, 4)}


def network(layers: int, *, biases: bool = True) -> Network:
    widths = (DIM, *WIDTHS[layers])
    weights = tuple(
        normal(after, before, seed=number) / before**0.5
        for number, (before, after) in enumerate(pairwise(widths))
    )
    drawn = tuple(normal(after, seed=10 + number) for number, after in enumerate(widths[1:]))
    return Network(dim=DIM, weights=weights, biases=drawn if biases else None, slope=0.1)


def prompts(phi: Network, *, examples: int = EXAMPLES, batch: int = 8) -> Prompt:
    xs = normal(batch, examples + 1, DIM)
    return Prompt.of_pairs(xs, phi(xs) @ normal(batch, phi.out, OUT, seed=1))


def view(phi: Network, prompt: Prompt) -> Problems:
    raw = pairs(prompt)
    return Problems(features=phi(raw.features), labels=raw.labels, questions=raw.questions)


def built(phi: Network, prompt: Prompt) -> tuple[AlgoFormer, float]:
    step_size = 0.8 * step_size_limit(view(phi, prompt.prefix()))
    return representation(network=phi, out=OUT, examples=EXAMPLES, step_size=step_size), step_size


def part(model: AlgoFormer, state: Tensor, name: str) -> Tensor:
    return state[..., blueprint_of(model).space.run(name)]


@pytest.mark.theorem
@pytest.mark.parametrize("layers", WIDTHS)
@pytest.mark.parametrize("biases", [False, True])
def test_each_pass_is_one_gradient_step_on_the_representation(layers: int, biases: bool) -> None:
    phi, unroll = network(layers, biases=biases), Unroll(steps=100)
    prompt = prompts(phi)
    model, step_size = built(phi, prompt)
    textbook = GradientDescent(step_size=step_size, view=lambda shown: view(phi, shown))
    expected = textbook(prompt.prefix(), unroll).predictions
    torch.testing.assert_close(model(prompt.prefix(), unroll).predictions, expected, rtol=0, atol=1e-6)


@pytest.mark.theorem
def test_for_finite_constants_it_is_exactly_kernel_gradient_descent() -> None:
    phi, unroll = network(3), Unroll(steps=100)
    prompt = prompts(phi)
    _, step_size = built(phi, prompt)
    arguments = {"step_size": step_size, "examples": EXAMPLES, "constants": COARSE}
    model = representation(network=phi, out=OUT, **arguments)
    oracle = KernelDescent(view=lambda shown: view(phi, shown), **arguments)
    expected = oracle(prompt.prefix(), unroll).predictions
    torch.testing.assert_close(model(prompt.prefix(), unroll).predictions, expected, rtol=0, atol=1e-10)


@pytest.mark.theorem
def test_it_solves_the_task_of_the_library() -> None:
    task = RegressionWithRepresentation(dim=5, points=13, slope=0.3)
    drawn = task.sample(8, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    prompt, unroll = drawn.prefix(), Unroll(steps=100)
    step_size = 0.8 * step_size_limit(task.problems(prompt))
    model = representation(network=network_of(task.phi), examples=12, step_size=step_size)
    expected = GradientDescent(step_size=step_size, view=task.problems)(prompt, unroll).predictions
    torch.testing.assert_close(model(prompt, unroll).predictions, expected, rtol=0, atol=1e-6)


@pytest.mark.theorem
def test_the_pre_transformer_prepares_the_token_matrix_of_the_lemma() -> None:
    phi = network(3)
    prompt = prompts(phi)
    model, _ = built(phi, prompt)
    shown = prompt.prefix()
    state = model(shown, Unroll(steps=1, keep=("pre",))).states["pre"]
    at_x, at_y, empty = state[:, 0:-1:2], state[:, 1:-1:2], state[:, -1]
    features = phi(shown.part(0))
    torch.testing.assert_close(part(model, at_x, "phi")[..., : phi.out], features, rtol=0, atol=1e-14)
    assert torch.equal(part(model, at_x, "residual")[:, :-1], -shown.part(1)[:, :-1, :OUT])
    known = torch.ones(shown.batch, EXAMPLES + 1, 1, dtype=torch.float64)
    known[:, -1] = 0
    assert torch.equal(part(model, at_x, "known"), known)
    for rows in (at_y, empty):
        for name in ("phi", "residual", "known"):
            assert torch.equal(part(model, rows, name), torch.zeros_like(part(model, rows, name)))
    count = part(model, state, "log_count").exp()
    torch.testing.assert_close(count, torch.full_like(count, EXAMPLES), rtol=1e-15, atol=0)


@pytest.mark.theorem
def test_the_answer_stands_at_the_question_and_at_the_empty_token() -> None:
    phi = network(1)
    prompt = prompts(phi)
    model, _ = built(phi, prompt)
    trace = model(prompt.prefix(), Unroll(steps=5, keep=("post",)))
    y = part(model, trace.states["post"], "y")
    assert torch.equal(y[:, :, -2:-1], trace.predictions)
    assert torch.equal(y[:, :, -1:], trace.predictions)


@pytest.mark.theorem
@pytest.mark.parametrize("point", [0, 1, 5, 9])
def test_the_same_weights_answer_shorter_prompts(point: int) -> None:
    phi, unroll = network(2), Unroll(steps=40)
    prompt = prompts(phi).prefix(point)
    step_size = min(0.5, 0.8 * step_size_limit(view(phi, prompt)))
    model = representation(network=phi, out=OUT, examples=EXAMPLES, step_size=step_size)
    expected = GradientDescent(step_size=step_size, view=lambda shown: view(phi, shown))(prompt, unroll)
    torch.testing.assert_close(model(prompt, unroll).predictions, expected.predictions, rtol=0, atol=1e-6)


@pytest.mark.theorem
@pytest.mark.parametrize("layers", WIDTHS)
def test_layers_and_heads_are_as_claimed(layers: int) -> None:
    model, _ = built(network(layers), prompts(network(layers)))
    assert count_modules(model) == {"pre": (layers + 1, 2), "loop": (1, 2), "post": (1, 1)}


@pytest.mark.theorem
def test_gradient_descent_on_pairs_is_the_theorem_without_a_representation() -> None:
    xs = normal(8, 13, 3)
    prompt, unroll = Prompt.of_pairs(xs, xs @ normal(8, 3, 1, seed=1)).prefix(), Unroll(steps=200)
    step_size = 0.8 * step_size_limit(pairs(prompt))
    model = gradient_descent(dim=3, examples=12, step_size=step_size)
    expected = GradientDescent(step_size=step_size)(prompt, unroll).predictions
    torch.testing.assert_close(model(prompt, unroll).predictions, expected, rtol=0, atol=1e-7)


def test_prompts_that_do_not_fit_are_refused() -> None:
    phi = network(1)
    model, _ = built(phi, prompts(phi))
    with pytest.raises(ValueError, match=r"the prompt has 23 rows, this model was built for context=21"):
        model(prompts(phi, examples=11).prefix())
    with pytest.raises(ValueError, match=r"full attention would see rows that come after a question"):
        model(prompts(phi, examples=9))


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"dim": 0}, "dim must be at least 1, got 0"),
        ({"weights": (torch.ones(2, 3),)}, "weight 0 must have 4 columns"),
        ({"biases": (torch.ones(5), torch.ones(5))}, "1 weights need as many biases, got 2"),
    ],
)
def test_networks_that_do_not_fit_together_are_refused(fields: dict[str, object], words: str) -> None:
    good = {"dim": 4, "weights": (torch.ones(5, 4),)}
    with pytest.raises(ValueError, match=words):
        Network(**(good | fields))  # type: ignore[arg-type]
