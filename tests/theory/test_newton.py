import math

import pytest
import torch
from torch import Tensor

from algoformer.algorithms import Newton
from algoformer.model import AlgoFormer, Converged
from algoformer.problems import pairs
from algoformer.prompt import Prompt
from algoformer.theory.blueprint import blueprint_of
from algoformer.theory.checks import alpha_limit, check_alpha
from algoformer.theory.constants import Constants
from algoformer.theory.newton import newton, padded
from algoformer.theory.statement import count_modules
from algoformer.theory.verify_beyond import inverses
from algoformer.trace import Unroll

from .linearized import linearized, regression

DIM, EXAMPLES, STEPS = 4, 10, 16
ALPHA = 1 / 40**2

# one step leaves (cz)²/6 < 2e-9 of its numbers at c = 1e-4, and the method passes it on without amplifying
CLOSE = 2e-8


def images(model: AlgoFormer, prompt: Prompt, steps: int) -> list[Tensor]:
    """M_k x at every x token, the question's last, for k = 1..steps."""
    keep = tuple(f"loop[{step}]" for step in range(1, steps + 1))
    with torch.no_grad():
        states = model(prompt, Unroll(steps=steps, keep=keep)).states
    return [states[address][:, ::2, blueprint_of(model).space.run("image")] for address in keep]


def gap(model: AlgoFormer, prompt: Prompt, steps: int = STEPS, alpha: float = ALPHA) -> float:
    with torch.no_grad():
        found = model(prompt, Unroll(steps=steps)).predictions
    return (found - Newton(alpha=alpha)(prompt, Unroll(steps=steps)).predictions).abs().max().item()


@pytest.fixture(scope="module")
def prompt() -> Prompt:
    return regression(DIM, EXAMPLES + 1).prefix()


@pytest.mark.theorem
def test_each_pass_is_one_newton_step(prompt: Prompt) -> None:
    assert gap(newton(dim=DIM, examples=EXAMPLES, alpha=ALPHA), prompt) < CLOSE


@pytest.mark.theorem
def test_each_x_token_holds_its_image_under_m_k(prompt: Prompt) -> None:
    xs = prompt.part(0)
    known = xs[:, :-1]
    found = images(newton(dim=DIM, examples=EXAMPLES, alpha=ALPHA), prompt, STEPS)
    for image, inverse in zip(found, inverses(known.mT @ known, alpha=ALPHA), strict=False):
        torch.testing.assert_close(image, xs @ inverse.mT, rtol=0, atol=CLOSE)
        recovered = torch.linalg.lstsq(known, image[:, :-1]).solution.mT
        torch.testing.assert_close(recovered, inverse, rtol=0, atol=CLOSE)


@pytest.mark.theorem
def test_labels_and_images_make_the_weights_w_k(prompt: Prompt) -> None:
    known, labels = prompt.part(0)[:, :-1], prompt.part(1)[:, :-1, :1]
    found = images(newton(dim=DIM, examples=EXAMPLES, alpha=ALPHA), prompt, STEPS)
    for image, inverse in zip(found, inverses(known.mT @ known, alpha=ALPHA), strict=False):
        weights = (image[:, :-1] * labels).sum(dim=1)
        torch.testing.assert_close(weights, (inverse @ known.mT @ labels)[..., 0], rtol=0, atol=CLOSE)


@pytest.mark.theorem
def test_the_paper_s_size_is_followed_until_the_residual_vanishes() -> None:
    prompt, alpha = regression(20, 41, batch=2).prefix(), 1 / 150**2
    known = prompt.part(0)[:, :-1]
    *_, last = (pair[0] for pair in zip(inverses(known.mT @ known, alpha=alpha), range(18), strict=False))
    assert (torch.eye(20, dtype=last.dtype) - last @ known.mT @ known).abs().max() < 1e-7
    assert gap(newton(dim=20, examples=40, alpha=alpha), prompt, steps=18, alpha=alpha) < CLOSE


@pytest.mark.theorem
def test_a_pass_is_the_newton_step_of_a_sinh_kernel(prompt: Prompt) -> None:
    """For finite c and C the layers do just this, to rounding."""
    constants = Constants(c=0.1, sink=8.0)
    xs = prompt.part(0)
    known = xs[:, :-1]
    image = ALPHA * linearized(xs @ known.mT, unit=EXAMPLES, constants=constants) @ known
    found = images(newton(dim=DIM, examples=EXAMPLES, alpha=ALPHA, constants=constants), prompt, STEPS)
    for step in found:
        weights = linearized(image @ known.mT, unit=1.0, constants=constants)
        image = 2 * image - weights @ image[:, :-1]
        torch.testing.assert_close(step, image, rtol=0, atol=1e-10)


def test_y_tokens_and_the_sink_stay_at_zero(prompt: Prompt) -> None:
    """Rounding there must not double at every step."""
    model = newton(dim=DIM, examples=EXAMPLES, alpha=ALPHA)
    with torch.no_grad():
        state = model(prompt, Unroll(steps=STEPS, keep=(f"loop[{STEPS}]",))).states[f"loop[{STEPS}]"]
    space = blueprint_of(model).space
    assert state[:, 1::2, space.run("image")].abs().max() < 1e-15
    assert not state[..., space.run("product")].any()


def test_a_hundred_passes_stay_where_the_method_converged(prompt: Prompt) -> None:
    assert gap(newton(dim=DIM, examples=EXAMPLES, alpha=ALPHA), prompt, steps=100) < CLOSE


def test_layers_and_heads_are_those_of_the_theorem() -> None:
    counted = count_modules(newton(dim=20, examples=40, alpha=1 / 150**2))
    assert counted == {"pre": (1, 2), "loop": (1, 2), "post": (2, 2)}


def test_labels_may_have_several_numbers() -> None:
    generator = torch.Generator().manual_seed(1)
    xs, weights = (
        torch.randn(3, size, DIM, generator=generator, dtype=torch.float64) for size in (EXAMPLES + 1, 2)
    )
    prompt = Prompt.of_pairs(xs, xs @ weights.mT).prefix()
    assert gap(newton(dim=DIM, examples=EXAMPLES, alpha=ALPHA, out=2), prompt) < CLOSE


def test_zero_pairs_in_front_change_nothing() -> None:
    prompt = regression(DIM, 7).prefix()
    model = newton(dim=DIM, examples=EXAMPLES, alpha=ALPHA)
    with torch.no_grad():
        found = model(padded(prompt, examples=EXAMPLES), Unroll(steps=STEPS)).predictions
    expected = Newton(alpha=ALPHA)(prompt, Unroll(steps=STEPS)).predictions
    torch.testing.assert_close(found, expected, rtol=0, atol=CLOSE)


def test_a_c_that_single_precision_cannot_carry_warns() -> None:
    with pytest.warns(UserWarning, match="use float64, or SINGLE"):
        newton(dim=DIM, examples=EXAMPLES, alpha=ALPHA, dtype=torch.float32)


def test_at_the_closed_end_of_the_paper_s_interval_the_method_stalls() -> None:
    prompt = regression(DIM, EXAMPLES + 1, batch=1).prefix()
    limit = alpha_limit(pairs(prompt))
    within, at_end = (newton(dim=DIM, examples=EXAMPLES, alpha=alpha) for alpha in (limit / 2, limit))
    with torch.no_grad():
        errors = [
            (model(prompt, Unroll(steps=20)).final - prompt.targets).abs().item()
            for model in (within, at_end)
        ]
    assert errors[0] < 1e-7
    assert errors[1] > 1e-2


@pytest.mark.parametrize("factor", [1.0, 1.5])
def test_alpha_must_lie_inside_the_open_interval(prompt: Prompt, factor: float) -> None:
    limit = alpha_limit(pairs(prompt))
    check_alpha(0.999 * limit, pairs(prompt))
    with pytest.raises(
        ValueError, match=r"alpha must lie strictly below 2/λ_max\(S\)² = .*, got .*converges"
    ):
        check_alpha(factor * limit, pairs(prompt))


@pytest.mark.parametrize("alpha", [0.0, -1e-3, math.inf, math.nan])
def test_alpha_must_be_positive(alpha: float, prompt: Prompt) -> None:
    with pytest.raises(ValueError, match="alpha must be a positive number"):
        check_alpha(alpha, pairs(prompt))


@pytest.mark.parametrize(
    ("dim", "points", "message"),
    [
        (DIM, EXAMPLES, "exactly 21 rows, got 19; pad the prompt"),
        (DIM, EXAMPLES + 2, "rows, this model was built for context=21"),
        (DIM + 1, EXAMPLES + 1, "this model reads rows of dim=4"),
    ],
)
def test_a_prompt_of_another_shape_is_refused(dim: int, points: int, message: str) -> None:
    model = newton(dim=DIM, examples=EXAMPLES, alpha=ALPHA)
    with pytest.raises(ValueError, match=message):
        model(regression(dim, points).prefix())
    with pytest.raises(ValueError, match=message):
        model(regression(dim, points).prefix(), stop=Converged(1e-9, 2))


def test_padding_does_not_shorten() -> None:
    with pytest.raises(ValueError, match="10 examples before it, more than examples=3"):
        padded(regression(DIM, EXAMPLES + 1), examples=3)
    series = Prompt(rows=torch.ones(1, 3, 2), targets=torch.ones(1, 1, 2), reads=(2,))
    with pytest.raises(ValueError, match="samples of 2 rows"):
        padded(series, examples=3)
