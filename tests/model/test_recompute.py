"""Iterations that are run again on the way back change the memory and nothing else."""

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from algoformer.model import AlgoFormer, Layers, Loop, Program
from algoformer.model.parts import LoopModule
from algoformer.model.recompute import weights_in_place
from algoformer.trace import Unroll
from tests.model.test_cost import PROGRAMS, SIZES, check_memory, measured_flops, measured_memory, prompt
from tests.random_programs import programs as random_programs

UNROLLS = [
    Unroll(steps=6, window=4),
    Unroll(steps=6, window=4, grad_steps=4),
    Unroll(steps=6, window=2, grad_steps=3),
    Unroll(steps=6, window=6, grad_steps=0),
]


def gradients(model: AlgoFormer, unroll: Unroll) -> list[Tensor | None]:
    model.zero_grad()
    model(prompt(), unroll).predictions.square().mean().backward()
    return [None if weight.grad is None else weight.grad.clone() for weight in model.parameters()]


def same(one: list[Tensor | None], other: list[Tensor | None]) -> bool:
    return all(
        left is right if left is None or right is None else torch.equal(left, right)
        for left, right in zip(one, other, strict=True)
    )


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("unroll", UNROLLS, ids=str)
def test_gradients_are_the_same_to_the_last_bit(name: str, unroll: Unroll) -> None:
    model = AlgoFormer(PROGRAMS[name], **SIZES)
    expected = gradients(model, unroll)
    assert any(gradient is not None for gradient in expected)
    assert same(gradients(model, replace(unroll, gradient_checkpointing=True)), expected)


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("unroll", UNROLLS, ids=str)
def test_memory_and_flops_are_what_the_formulas_say(name: str, unroll: Unroll) -> None:
    model = AlgoFormer(PROGRAMS[name], **SIZES)
    unroll = replace(unroll, gradient_checkpointing=True)
    bill = model.cost(unroll, batch=3, rows=10, points=5)
    forward, training = measured_flops(model, unroll)
    assert bill.activation_bytes == measured_memory(model, unroll)
    assert bill.forward == forward
    if name in ("plain loop", "sinusoids") or "gradient" in name or "two states in" in name:
        # no norm at the end of an iteration: PyTorch stops before its last product
        assert training <= bill.training
    else:
        assert training == bill.training


@settings(max_examples=8)
@given(
    st.booleans().flatmap(lambda words: random_programs(causal=True, words=words)),
    st.integers(1, 3),
    st.data(),
)
def test_it_holds_for_random_programs(program: Program, steps: int, data: st.DataObject) -> None:
    window, tracked = data.draw(st.integers(1, steps)), data.draw(st.integers(0, steps))
    plain = Unroll(steps=steps, window=window, grad_steps=tracked)
    again = replace(plain, gradient_checkpointing=True)
    model = AlgoFormer(program, **SIZES)
    assert same(gradients(model, again), gradients(model, plain))
    check_memory(model, again, model.cost(again, batch=3, rows=10, points=5).activation_bytes)


def test_memory_grows_by_one_state_an_iteration() -> None:
    """Without it an iteration of a layer keeps 16 states and some statistics; with it exactly one."""
    model = AlgoFormer(PROGRAMS["algoformer"], **SIZES)
    state = 3 * 13 * SIZES["width"] * 4  # prompts × tokens (10 rows, 3 blanks) × width × bytes
    few, many = (
        measured_memory(model, Unroll(steps=steps, window=2, gradient_checkpointing=True))
        for steps in (5, 45)
    )
    assert many - few == 40 * state
    few, many = (measured_memory(model, Unroll(steps=steps, window=2)) for steps in (5, 45))
    assert many - few > 16 * 40 * state


@pytest.mark.parametrize("recompute", [False, True])
def test_iterations_are_run_again_with_the_weights_they_had(recompute: bool) -> None:
    """Other weights are in place only while the model runs forward; the gradient is that of those."""
    model = AlgoFormer(Program(Loop(Layers(1, heads=2), 3)), **SIZES)
    unroll = Unroll(steps=3, window=3, gradient_checkpointing=recompute)
    doubled = {name: 2 * weight for name, weight in model.named_parameters()}
    answers = torch.func.functional_call(model, doubled, (prompt(), unroll)).predictions
    answers.square().mean().backward()
    found = [weight.grad for weight in model.parameters()]
    own = list(model.parameters())
    other = AlgoFormer(model.program, **SIZES)
    with torch.no_grad():
        for weight, value in zip(other.parameters(), own, strict=True):
            weight.copy_(2 * value)
    for left, right in zip(found, gradients(other, Unroll(steps=3, window=3)), strict=True):
        assert left is not None
        assert right is not None
        assert torch.equal(left, 2 * right)


def test_weights_are_put_back_after_an_error() -> None:
    loop = AlgoFormer(Program(Loop(Layers(1, heads=2), 3)), **SIZES).body.parts[0]
    assert isinstance(loop, LoopModule)
    before = list(loop.parameters())
    others = {name: torch.zeros_like(weight) for name, weight in loop.named_parameters()}
    with weights_in_place(loop, others):
        assert not any(weight.any() for weight in loop.parameters())
    with pytest.raises(RuntimeError, match="stop"), weights_in_place(loop, others):
        raise RuntimeError("stop")
    assert all(one is other for one, other in zip(before, loop.parameters(), strict=True))


def test_hidden_states_cannot_be_kept_and_dropped() -> None:
    with pytest.raises(
        ValueError, match=r"gradient_checkpointing drops the hidden states that keep=\('loop\[1\]',\)"
    ):
        Unroll(steps=2, keep=("loop[1]",), gradient_checkpointing=True)


class DropsInputs(nn.Module):
    def forward(self, state: Tensor, entry: Tensor) -> Tensor:
        return state + torch.nn.functional.dropout(entry, 0.3)


def with_noise() -> AlgoFormer:
    inner = Loop(Layers(1, heads=2), steps=2, start="noise", inject="concat", name="inner")
    return AlgoFormer(Program(Loop(inner, steps=3)), **SIZES)


def with_random_injection() -> AlgoFormer:
    model = AlgoFormer(Program(Loop(Layers(1, heads=2), 3)), **SIZES)
    model.body.parts[0].injection = DropsInputs()
    return model


def with_dropout_of_ones_own() -> AlgoFormer:
    model = AlgoFormer(Program(Loop(Layers(1, heads=2), 3)), **SIZES)
    layer = model.body.parts[0].body.parts[0].layers[0]
    layer.feedforward = nn.Sequential(layer.feedforward, nn.Dropout(0.3))
    return model


@pytest.mark.parametrize("build", [with_noise, with_random_injection, with_dropout_of_ones_own])
def test_the_second_run_draws_the_same_random_numbers(build: Callable[[], AlgoFormer]) -> None:
    torch.manual_seed(0)
    model, unroll = build().train(), Unroll(steps=3, window=2)
    torch.manual_seed(1)
    expected = gradients(model, unroll)
    torch.manual_seed(1)
    assert same(gradients(model, replace(unroll, gradient_checkpointing=True)), expected)


@pytest.mark.usefixtures("as_a_user")
def test_the_compiler_drops_activations_too() -> None:
    model, unroll = AlgoFormer(PROGRAMS["algoformer"], **SIZES), Unroll(steps=3, gradient_checkpointing=True)
    expected = gradients(model, unroll)
    model.zero_grad()
    torch.compile(model, backend="aot_eager")(prompt(), unroll).predictions.square().mean().backward()
    torch.testing.assert_close([weight.grad for weight in model.parameters()], expected)
