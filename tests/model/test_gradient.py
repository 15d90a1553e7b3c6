"""Which gradients flow where: the window, the truncation, and the pitfall of protocol 5.1."""

import pytest
import torch
from torch import Tensor

from algoformer.model import AlgoFormer, Layers, Loop, Parallel, Program
from algoformer.model import presets as programs
from algoformer.prompt import Prompt
from algoformer.trace import Unroll

PARALLEL = Program(
    Layers(1, heads=2, name="pre"),
    Parallel(Loop(Layers(1, heads=2), 4), (Layers(1, heads=2), Loop(Layers(1, heads=2), 4, "gate"))),
    Layers(1, heads=2, name="post"),
)
PROGRAMS = {
    "standard": programs.standard(2, heads=2),
    "looped": programs.looped(heads=2),
    "add": programs.algoformer(heads=2),
    "gate": programs.algoformer(heads=2, inject="gate"),
    "nested": programs.nested(heads=2, inject="gate", inner_steps=2),
    "two_loops": programs.two_loops(heads=2),
    "parallel": PARALLEL,
}


def prompt() -> Prompt:
    numbers = torch.Generator().manual_seed(0)
    xs = torch.randn(3, 4, 4, generator=numbers, dtype=torch.float64)
    return Prompt.of_pairs(xs, torch.randn(3, 4, 1, generator=numbers, dtype=torch.float64))


def model(program: Program) -> AlgoFormer:
    torch.manual_seed(0)
    return AlgoFormer(program, dim=4, out=1, context=8, width=8).double()


def gradients(built: AlgoFormer, predictions: Tensor) -> dict[str, Tensor | None]:
    built.zero_grad()
    (predictions - prompt().targets).square().mean().backward()
    return {name: parameter.grad for name, parameter in built.named_parameters()}


@pytest.mark.parametrize("name", PROGRAMS)
def test_every_parameter_learns_when_the_window_is_differentiated(name: str) -> None:
    built = model(PROGRAMS[name])
    found = gradients(built, built(prompt(), Unroll(steps=6, window=3, grad_steps=3)).predictions)
    for parameter, gradient in found.items():
        assert gradient is not None, parameter
        assert gradient.abs().max() > 1e-12, parameter


def test_without_injection_a_truncated_gradient_never_reaches_what_stands_before_the_loop() -> None:
    """Protocol 5.1: with z_0 = pre(P) and no injection, d loss / d pre is exactly nothing if T > ΔT."""
    built = model(programs.algoformer(heads=2, inject="none"))
    found = gradients(built, built(prompt(), Unroll(steps=6, window=3, grad_steps=3)).predictions)
    silent = {name for name, gradient in found.items() if gradient is None or not gradient.any()}
    before = {name for name in found if name.startswith(("read_in", "body.parts.0."))}
    assert silent == before


def test_without_injection_the_full_gradient_reaches_everything() -> None:
    built = model(programs.algoformer(heads=2, inject="none"))
    found = gradients(built, built(prompt(), Unroll(steps=6, window=3)).predictions)
    assert all(gradient is not None and gradient.any() for gradient in found.values())


def by_hand(built: AlgoFormer, *, steps: int, window: int, grad_steps: int) -> Tensor:
    """pre, loop and post called one by one; the state is cut off before the tracked iterations."""
    pre, loop, post = built.body.parts

    def whole(module: torch.nn.Module, stream: Tensor) -> Tensor:
        stream = stream + module.positions.table[: stream.shape[1]]
        return module.final_norm(module.layers[0](stream))

    entry = whole(pre, built.read_in(prompt().rows))
    state, states = torch.zeros_like(entry), []
    for iteration in range(1, steps + 1):
        state = whole(loop.body.parts[0], state + entry)
        if iteration <= steps - grad_steps:
            state = state.detach()
        states.append(state)
    answers = [built.read_out(whole(post, state))[:, ::2] for state in states[-window:]]
    return torch.stack(answers)


@pytest.mark.parametrize(("window", "grad_steps"), [(3, 3), (3, 5), (5, 2), (1, 6), (6, 1)])
def test_a_truncated_gradient_is_the_one_computed_with_a_detach(window: int, grad_steps: int) -> None:
    built = model(programs.algoformer(heads=2))
    expected = gradients(built, by_hand(built, steps=6, window=window, grad_steps=grad_steps))
    expected = {name: None if one is None else one.clone() for name, one in expected.items()}
    unroll = Unroll(steps=6, window=window, grad_steps=grad_steps)
    found = gradients(built, built(prompt(), unroll).predictions)
    for name, gradient in found.items():
        torch.testing.assert_close(gradient, expected[name], rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", PROGRAMS)
def test_no_limit_on_the_gradient_is_the_full_gradient(name: str) -> None:
    built = model(PROGRAMS[name])
    free = gradients(built, built(prompt(), Unroll(steps=4, window=2)).predictions)
    free = {name: gradient.clone() for name, gradient in free.items()}
    limited = gradients(built, built(prompt(), Unroll(steps=4, window=2, grad_steps=4)).predictions)
    for parameter, gradient in limited.items():
        torch.testing.assert_close(gradient, free[parameter], rtol=0, atol=0)


def test_predictions_do_not_depend_on_how_much_is_differentiated() -> None:
    built = model(PROGRAMS["nested"])
    traces = [built(prompt(), Unroll(steps=4, grad_steps=limit)).predictions for limit in (None, 0, 2, 4)]
    with torch.no_grad():
        traces.append(built(prompt(), Unroll(steps=4)).predictions)
    for predictions in traces[1:]:
        torch.testing.assert_close(predictions, traces[0], rtol=0, atol=0)


def test_with_no_tracked_step_only_what_follows_the_loop_learns() -> None:
    built = model(PROGRAMS["add"])
    found = gradients(built, built(prompt(), Unroll(steps=4, window=2, grad_steps=0)).predictions)
    learning = {name for name, gradient in found.items() if gradient is not None and gradient.any()}
    assert learning == {name for name in found if name.startswith(("read_out", "body.parts.2."))}


@pytest.mark.parametrize("name", PROGRAMS)
def test_without_gradient_mode_nothing_is_tracked(name: str) -> None:
    with torch.no_grad():
        assert not model(PROGRAMS[name])(prompt(), Unroll(steps=3, grad_steps=2)).predictions.requires_grad
