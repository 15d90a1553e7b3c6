import math
from itertools import islice

import pytest
import torch
from torch import Tensor

from algoformer.algorithms import GradientDescent
from algoformer.model import AlgoFormer
from algoformer.model.presets import equation_one
from algoformer.nn import Layer
from algoformer.problems import pairs
from algoformer.prompt import Prompt
from algoformer.theory.blueprint import blueprint_of
from algoformer.theory.checks import check_converges, step_size_limit
from algoformer.theory.constants import DOUBLE, Constants
from algoformer.theory.decoder import FINENESS, decoder_gradient_descent, decoder_space, own_sample
from algoformer.theory.statement import count_modules
from algoformer.theory.subspace import Subspaces
from algoformer.theory.writer import Head, LayerWriter, layer_sizes
from algoformer.trace import Unroll

from .linearized import linearized, moments_of, regression

DIM, POINTS, STEPS, STEP_SIZE = 3, 8, 100, 0.1

# residuals z of up to one unit leave (cz)²/6 < 2e-9 of a step at c = 1e-4
CLOSE = 2e-8


def built(constants: Constants = DOUBLE) -> AlgoFormer:
    return decoder_gradient_descent(dim=DIM, points=POINTS, step_size=STEP_SIZE, constants=constants)


def states(model: AlgoFormer, prompt: Prompt, steps: int, name: str) -> list[Tensor]:
    """Subspace `name` at every token of the prompt, after each pass."""
    keep = tuple(f"loop[{step}]" for step in range(1, steps + 1))
    with torch.no_grad():
        kept = model(prompt, Unroll(steps=steps, keep=keep)).states
    return [kept[address][:, 1:, blueprint_of(model).space.run(name)] for address in keep]


def gap(model: AlgoFormer, prompt: Prompt, steps: int = STEPS) -> float:
    with torch.no_grad():
        found = model(prompt, Unroll(steps=steps)).predictions
    expected = GradientDescent(step_size=STEP_SIZE)(prompt, Unroll(steps=steps)).predictions
    return (found - expected).abs().max().item()


@pytest.fixture(scope="module")
def prompt() -> Prompt:
    return regression(DIM, POINTS, noise=0.1)


@pytest.mark.theorem
def test_each_pass_is_one_gradient_step_at_every_prefix(prompt: Prompt) -> None:
    check_converges(STEP_SIZE, pairs(prompt))
    assert gap(built(), prompt) < CLOSE


@pytest.mark.theorem
def test_each_x_token_holds_the_weights_of_its_prefix(prompt: Prompt) -> None:
    expected = islice(GradientDescent(step_size=STEP_SIZE).iterates(moments_of(prompt)), STEPS)
    for found, weights in zip(states(built(), prompt, STEPS, "weights"), expected, strict=True):
        torch.testing.assert_close(found[:, ::2], weights[..., 0], rtol=0, atol=CLOSE)
        assert not found[:, 1::2].any()
        assert not found[:, 0].any()


@pytest.mark.theorem
def test_the_paper_s_size_is_followed_at_every_prefix() -> None:
    prompt = regression(20, 41, batch=2)
    model = decoder_gradient_descent(dim=20, points=41, step_size=0.03)
    with torch.no_grad():
        found = model(prompt, Unroll(steps=20)).predictions
    expected = GradientDescent(step_size=0.03)(prompt, Unroll(steps=20)).predictions
    torch.testing.assert_close(found, expected, rtol=0, atol=CLOSE)


@pytest.mark.theorem
def test_a_pass_is_a_step_with_sinh_of_the_residual(prompt: Prompt) -> None:
    """For finite c and C the looped layer does just this, to rounding."""
    constants = Constants(c=0.1, sink=8.0)
    xs, ys = prompt.part(0), prompt.part(1)[..., 0]
    numbers = torch.arange(POINTS)
    count = numbers.clamp(min=1).double()[:, None]
    seen = torch.where(numbers < numbers[:, None], 0.0, -math.inf)
    weights = torch.zeros_like(xs)
    for found in states(built(constants), prompt, STEPS, "weights"):
        residuals = weights @ xs.mT - ys[:, None, :]
        pull = linearized(
            residuals + seen,
            unit=FINENESS,
            constants=constants,
            count=count,
            silent=numbers.double()[:, None] + 1,  # x_1, ..., x_i
        )
        weights = weights - STEP_SIZE / count * (pull @ xs)
        torch.testing.assert_close(found[:, ::2], weights, rtol=0, atol=1e-10)


def printed_layer(space: Subspaces, c: float) -> Layer:
    """The paper's two heads to the letter: the first has keys and values at x tokens; both add to weights."""
    one, feature, sink = space.read("one"), space.read("feature"), DOUBLE.sink * space.read("blank")
    gain = math.exp(DOUBLE.sink) / c
    writer = LayerWriter(space)
    weights = space.write("weights")
    query, key = torch.cat([space.read("weights"), one]), torch.cat([c * space.read("x"), sink])
    writer.heads.append(Head(query=query, key=key, value=gain * space.read("x"), output=weights))
    query, key = torch.cat([feature, one]), torch.cat([c * space.read("y"), sink])
    writer.heads.append(Head(query=query, key=key, value=-gain * space.read("example"), output=weights))
    layers = equation_one(1, causal=True, activation="gelu", bias=False, **layer_sizes([writer]))
    layer = Layer(layers.sizes(space.width)).double()
    writer.load(layer)
    return layer


@pytest.mark.theorem
def test_the_printed_heads_diverge_as_c_is_refined(prompt: Prompt) -> None:
    """Why keys stand at y tokens: at x tokens j = i adds x_i/c, which the second head does not take away."""
    model = built()
    space = blueprint_of(model).space
    with torch.no_grad():
        state = model(prompt, Unroll(steps=1, keep=("loop[1]",))).states["loop[1]"]
        weights = state[:, 1::2, space.run("weights")]
        moments = moments_of(prompt)
        gradient = (moments.gram @ weights[..., None] - moments.cross)[..., 0]
        errors = []
        for c in (1e-2, 1e-3, 1e-4):
            found = printed_layer(space, c)(state)[:, 1::2, space.run("weights")] - weights
            errors.append((found - gradient).norm().item())
    assert errors[1] / errors[0] == pytest.approx(10, rel=0.05)
    assert errors[2] / errors[1] == pytest.approx(10, rel=0.05)


def test_the_pre_transformer_copies_each_x_to_its_y_token_exactly(prompt: Prompt) -> None:
    model = built()
    with torch.no_grad():
        state = model(prompt, Unroll(steps=1, keep=("pre",))).states["pre"]
    example = state[..., blueprint_of(model).space.run("example")]
    assert torch.equal(example[:, 2::2], prompt.part(0))
    assert not example[:, 0].any()
    assert not example[:, 1::2].any()


def test_scores_of_other_samples_are_masked_and_of_one_s_own_exactly_zero() -> None:
    points = 6
    space = decoder_space(dim=1, points=points, state={})
    stream = space.positions
    stream[1::2, space.run("feature")] = 1
    stream[2::2, space.run("label")] = 1
    query, key = own_sample(LayerWriter(space))[-1]
    scores = (stream @ query.mT) @ (stream @ key.mT).mT
    sample = torch.cat([torch.tensor([-1]), torch.arange(2 * points) // 2])
    same = (sample[:, None] == sample) | (sample == -1) | (sample[:, None] == -1)
    assert not scores[same].any()
    assert scores[~same].max() == -DOUBLE.mask


def test_shorter_prompts_are_answered_too() -> None:
    assert gap(built(), regression(DIM, 5)) < CLOSE


def test_layers_and_heads_are_within_the_theorem() -> None:
    model = decoder_gradient_descent(dim=20, points=41, step_size=0.03)
    assert count_modules(model) == {"pre": (1, 1), "loop": (1, 2), "post": (1, 2)}
    assert model.causal


def test_a_step_size_must_suit_the_shortest_prefix(prompt: Prompt) -> None:
    """A single example x_1 needs η < 2/|x_1|², far less than all examples together."""
    limit = step_size_limit(pairs(prompt))
    assert limit <= 2 / prompt.part(0)[:, 0].square().sum(dim=-1).max() + 1e-12
    with pytest.raises(ValueError, match="step_size must lie below 2/λ_max"):
        check_converges(limit, pairs(prompt))


@pytest.mark.parametrize(
    ("dim", "points", "message"),
    [(DIM, POINTS + 1, "built for context=16"), (DIM + 1, POINTS, "rows of dim=3")],
)
def test_a_prompt_of_another_shape_is_refused(dim: int, points: int, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        built()(regression(dim, points))
