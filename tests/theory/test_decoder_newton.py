import math
from itertools import islice

import pytest
import torch
from torch import Tensor

from algoformer.algorithms import Newton
from algoformer.model import AlgoFormer
from algoformer.problems import pairs
from algoformer.prompt import Prompt
from algoformer.theory.blueprint import blueprint_of
from algoformer.theory.checks import alpha_limit, check_alpha
from algoformer.theory.constants import Constants
from algoformer.theory.decoder import FINENESS
from algoformer.theory.decoder_newton import decoder_newton
from algoformer.theory.statement import count_modules
from algoformer.theory.verify_beyond import inverses
from algoformer.trace import Trace, Unroll

from .linearized import linearized, moments_of, regression, slope

POINTS, STEPS = 12, 20

# c/10 leaves (cz)²/6 < 1e-10 of a step, and as much by rounding; directions without data double it per step
CLOSE = 1e-6
SHORT = 2e-8


def case(dim: int, *, noise: float = 0.0) -> tuple[Prompt, float]:
    prompt = regression(dim, POINTS, noise=noise)
    return prompt, alpha_limit(pairs(prompt)) / 2


def traced(model: AlgoFormer, prompt: Prompt, steps: int) -> Trace:
    keep = tuple(f"loop[{step}]" for step in range(1, steps + 1))
    with torch.no_grad():
        return model(prompt, Unroll(steps=steps, keep=("moments", *keep, "post")))


def rows(model: AlgoFormer, state: Tensor, name: str) -> Tensor:
    """The matrix whose rows stand in `name`_0, `name`_1, ..., at every x token."""
    space = blueprint_of(model).space
    runs = [space.run(f"{name}_{row}") for row in range(space.size("x"))]
    return torch.stack([state[..., 1::2, run] for run in runs], dim=-2)


def gap(model: AlgoFormer, prompt: Prompt, alpha: float, steps: int) -> float:
    with torch.no_grad():
        found = model(prompt, Unroll(steps=steps)).predictions
    return (found - Newton(alpha=alpha)(prompt, Unroll(steps=steps)).predictions).abs().max().item()


@pytest.mark.theorem
@pytest.mark.parametrize("dim", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("noise", [0.0, 0.5])
def test_each_pass_is_one_newton_step_at_every_prefix(dim: int, noise: float) -> None:
    prompt, alpha = case(dim, noise=noise)
    check_alpha(alpha, pairs(prompt))
    assert gap(decoder_newton(dim=dim, points=POINTS, alpha=alpha), prompt, alpha, STEPS) < CLOSE


@pytest.mark.theorem
@pytest.mark.parametrize("dim", [3, 5])
def test_each_x_token_holds_m_k_and_w_k_of_its_prefix(dim: int) -> None:
    prompt, alpha = case(dim)
    model = decoder_newton(dim=dim, points=POINTS, alpha=alpha)
    trace, moments = traced(model, prompt, STEPS), moments_of(prompt)
    weights = rows(model, trace.states["post"], "answer")[..., :1]
    for step, inverse in enumerate(islice(inverses(moments.gram, alpha=alpha), STEPS), start=1):
        found = rows(model, trace.states[f"loop[{step}]"], "inverse")
        torch.testing.assert_close(found, inverse, rtol=0, atol=CLOSE)
        torch.testing.assert_close(weights[step - 1], inverse @ moments.cross, rtol=0, atol=CLOSE)


@pytest.mark.theorem
def test_the_pre_transformer_sums_the_moments_of_every_prefix() -> None:
    prompt, alpha = case(4, noise=0.5)
    model = decoder_newton(dim=4, points=POINTS, alpha=alpha)
    found, moments = rows(model, traced(model, prompt, 1).states["moments"], "moments"), moments_of(prompt)
    torch.testing.assert_close(found[..., :4], moments.gram, rtol=0, atol=SHORT)
    torch.testing.assert_close(found[..., 4:], moments.cross, rtol=0, atol=SHORT)


@pytest.mark.theorem
def test_noiseless_labels_stay_consistent_whatever_c_is() -> None:
    """S and b come from the same weights, so b = S w to rounding even where S itself is off by a percent."""
    prompt, alpha = case(3)
    model = decoder_newton(dim=3, points=POINTS, alpha=alpha, constants=Constants(c=1.0))
    found = rows(model, traced(model, prompt, 1).states["moments"], "moments")
    weights = torch.linalg.lstsq(prompt.part(0), prompt.part(1)[..., :1]).solution[:, None]
    assert (found[..., :3] - moments_of(prompt).gram).abs().max() > 1e-2
    torch.testing.assert_close(found[..., :3] @ weights, found[..., 3:], rtol=0, atol=1e-10)


@pytest.mark.theorem
def test_a_pass_multiplies_by_sinh_to_rounding() -> None:
    """For finite c and C the looped layer does just this."""
    constants, dim = Constants(c=0.5, sink=8.0), 3
    prompt, alpha = case(dim)
    model = decoder_newton(dim=dim, points=POINTS, alpha=alpha, constants=constants)
    states = traced(model, prompt, 10).states
    gram = rows(model, states["moments"], "moments")[..., :dim]
    inverse = alpha * gram
    for step in range(1, 11):
        # every product is read at one token only, beside the sink
        factor = linearized((inverse @ gram)[..., None], unit=FINENESS, constants=constants)[..., 0]
        inverse = 2 * inverse - factor @ inverse
        found = rows(model, states[f"loop[{step}]"], "inverse")
        torch.testing.assert_close(found, inverse, rtol=0, atol=1e-10)


@pytest.mark.theorem
def test_rounding_doubles_where_there_are_no_data_and_does_not_reach_the_answers() -> None:
    """What limits the number of steps: 0 is an unstable fixed point of t → 2t - t², in any precision."""
    prompt, alpha = case(4)
    model = decoder_newton(dim=4, points=POINTS, alpha=alpha)
    trace = traced(model, prompt, 24)
    expected = list(islice(inverses(moments_of(prompt).gram, alpha=alpha), 24))
    errors = [
        (rows(model, trace.states[f"loop[{step}]"], "inverse") - expected[step - 1])[:, 1].norm().item()
        for step in range(12, 25)
    ]
    rate = slope(list(range(12, 25)), [math.log2(error) for error in errors])
    assert rate == pytest.approx(1, rel=0.05)
    textbook = Newton(alpha=alpha)(prompt, Unroll(steps=24)).predictions
    assert (trace.predictions - textbook)[:, :, 1].abs().max() < SHORT


def test_y_tokens_and_the_sink_stay_at_zero() -> None:
    """Rounding there must not double at every step."""
    prompt, alpha = case(3)
    model = decoder_newton(dim=3, points=POINTS, alpha=alpha)
    state = traced(model, prompt, STEPS).states[f"loop[{STEPS}]"]
    space = blueprint_of(model).space
    for row in range(3):
        assert state[:, ::2, space.run(f"inverse_{row}")].abs().max() < 1e-15
        assert not state[:, 0, space.run(f"inverse_{row}")].any()
        assert not state[..., space.run(f"product_{row}")].any()


@pytest.mark.parametrize("dim", [2, 3, 5])
def test_heads_and_width_cost_what_the_docs_say(dim: int) -> None:
    model = decoder_newton(dim=dim, points=POINTS, alpha=1e-3)
    assert count_modules(model) == {
        "copy": (1, 1),
        "moments": (1, 2 * dim),
        "loop": (1, 2 * dim**2),
        "post": (1, 2 * dim),
    }
    assert model.width == 3 * dim**2 + 5 * dim + 10


def test_a_longer_prompt_is_refused() -> None:
    with pytest.raises(ValueError, match="built for context=24"):
        decoder_newton(dim=3, points=POINTS, alpha=1e-3)(regression(3, POINTS + 1))
