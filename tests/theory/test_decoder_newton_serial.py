import pytest
import torch
from torch import Tensor

from algoformer.model import AlgoFormer
from algoformer.problems import pairs
from algoformer.prompt import Prompt
from algoformer.theory.blueprint import blueprint_of
from algoformer.theory.checks import alpha_limit
from algoformer.theory.constants import DOUBLE
from algoformer.theory.decoder_newton import decoder_newton
from algoformer.theory.decoder_newton_serial import decoder_newton_serial, passes_per_step
from algoformer.theory.statement import count_modules
from algoformer.theory.verify_beyond import inverses
from algoformer.trace import Unroll

from .linearized import moments_of, regression

POINTS, STEPS = 7, 12

# as in the parallel construction, and the operands' rounding on top; no more steps than M itself allows
CLOSE = 1e-7


def case(dim: int) -> tuple[Prompt, float]:
    prompt = regression(dim, POINTS, batch=3, noise=0.3)
    return prompt, alpha_limit(pairs(prompt)) / 2


def states(model: AlgoFormer, prompt: Prompt, passes: list[int]) -> dict[int, Tensor]:
    keep = {count: f"loop[{count}]" for count in passes}
    with torch.no_grad():
        trace = model(prompt, Unroll(steps=max(passes), window=1, keep=tuple(keep.values())))
    return {count: trace.states[address][:, 1::2] for count, address in keep.items()}


def inverse_in(model: AlgoFormer, state: Tensor) -> Tensor:
    space = blueprint_of(model).space
    return torch.stack([state[..., space.run(f"inverse_{row}")] for row in range(space.size("x"))], dim=-2)


@pytest.mark.theorem
@pytest.mark.parametrize("dim", [1, 2, 3, 4])
def test_d_times_d_plus_one_passes_are_one_newton_step_at_every_prefix(dim: int) -> None:
    prompt, alpha = case(dim)
    model = decoder_newton_serial(dim=dim, points=POINTS, alpha=alpha)
    ends = [step * passes_per_step(dim) for step in range(1, STEPS + 1)]
    found, moments = states(model, prompt, ends), moments_of(prompt)
    weights = blueprint_of(model).space.run("weights")
    before = alpha * moments.gram
    for end, inverse in zip(ends, inverses(moments.gram, alpha=alpha), strict=False):
        torch.testing.assert_close(inverse_in(model, found[end]), inverse, rtol=0, atol=CLOSE)
        expected = (before @ moments.cross)[..., 0]
        torch.testing.assert_close(found[end][..., weights], expected, rtol=0, atol=CLOSE)
        before = inverse


@pytest.mark.theorem
def test_it_is_the_parallel_construction_spread_over_time() -> None:
    prompt, alpha = case(3)
    serial = decoder_newton_serial(dim=3, points=POINTS, alpha=alpha)
    parallel = decoder_newton(dim=3, points=POINTS, alpha=alpha)
    unroll = Unroll(steps=(STEPS + 1) * 12)
    with torch.no_grad():
        late = serial(prompt, unroll).predictions[23::12]
        steps = parallel(prompt, Unroll(steps=STEPS)).predictions
    torch.testing.assert_close(late, steps, rtol=0, atol=CLOSE)


def test_the_inverse_changes_only_at_the_end_of_a_round() -> None:
    prompt, alpha = case(2)
    model = decoder_newton_serial(dim=2, points=POINTS, alpha=alpha)
    found = states(model, prompt, list(range(1, 13)))
    for count in range(1, 12):
        same = torch.equal(inverse_in(model, found[count]), inverse_in(model, found[count + 1]))
        assert same is ((count + 1) % 6 != 0)


def test_the_clocks_meet_every_term_once() -> None:
    prompt, alpha = case(3)
    model = decoder_newton_serial(dim=3, points=POINTS, alpha=alpha)
    space = blueprint_of(model).space
    found = states(model, prompt, list(range(1, 13)))
    met = {
        tuple((found[count][0, 0, space.run(clock)] == 0).nonzero().item() for clock in ("row", "column"))
        for count in found
    }
    assert met == {(row, column) for row in range(3) for column in range(4)}
    assert torch.equal(found[12][0, 0, space.run("row")], torch.tensor([0.0, 1, 1], dtype=torch.float64))


@pytest.mark.parametrize("dim", [2, 3, 5])
def test_two_heads_are_enough_in_every_layer(dim: int) -> None:
    model = decoder_newton_serial(dim=dim, points=POINTS, alpha=1e-3)
    assert count_modules(model) == {"pre": (dim + 1, 2), "loop": (1, 2), "post": (1, 2)}
    assert model.width == 3 * dim**2 + 10 * dim + 9 + 3


def test_without_an_unroll_it_runs_whole_steps() -> None:
    prompt, alpha = case(2)
    model = decoder_newton_serial(dim=2, points=POINTS, alpha=alpha, steps=4, constants=DOUBLE)
    with torch.no_grad():
        by_itself, asked = model(prompt).final, model(prompt, Unroll(steps=24, window=1)).final
    assert torch.equal(by_itself, asked)
