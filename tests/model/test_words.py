"""Every word of the vocabulary of layers and loops: its formula, its cost, its outline."""

from dataclasses import replace
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from algoformer.model import AlgoFormer, Layers, Loop, Program
from algoformer.model.injections import INJECTIONS, STARTS
from algoformer.model.parts import LoopModule, ProgramModule
from algoformer.nn import Attention, AttentionContext, Layer, LayerSizes, sinusoids
from algoformer.trace import Unroll
from tests.model.test_cost import SIZES, measured_flops, measured_memory

LAYER_WORDS: dict[str, dict[str, Any]] = {
    "rms": {"norm": "rms"},
    "plain": {"norm": "plain"},
    "out": {"norm_at": "out"},
    "after": {"norm_at": "after"},
    "in and out": {"norm_at": "in+out", "norm": "rms"},
    "in and after": {"norm_at": "in+after", "norm": "plain"},
    "grouped keys": {"kv_heads": 2},
    "norm of heads": {"qk_norm": "head"},
    "norm of all heads": {"qk_norm": "full"},
    "norm without weights": {"qk_norm": "plain"},
    "norm and rope": {"qk_norm": "head", "positions": "rope"},
    "output gate": {"output_gate": True},
    "silu": {"activation": "silu"},
    "squared relu": {"activation": "relu2"},
    "exact gelu": {"activation": "gelu_exact"},
    "swiglu": {"activation": "silu", "gated": True},
    "gated relu": {"activation": "relu", "gated": True},
    "gated squared relu": {"activation": "relu2", "gated": True},
    "bias of qkv": {"bias": "qkv"},
    "rope": {"positions": "rope"},
    "sinusoid": {"positions": "sinusoid"},
}
LOOP_WORDS: dict[str, dict[str, Any]] = {
    "concat": {"inject": "concat"},
    "decay": {"inject": "decay"},
    "noise": {"inject": "concat", "start": "noise"},
    "vector": {"start": "vector"},
    "from the input": {"start": "input"},
    "damped": {"damp": 0.5},
    "step signal": {"step_signal": "sinusoid"},
}
WORDS = {
    **{
        name: Program(
            Layers(1, heads=2),
            Loop(Layers(2, heads=4, head_width=4, **words), 3),
            Layers(1, heads=4, head_width=4, **words),
        )
        for name, words in LAYER_WORDS.items()
    },
    **{
        name: Program(Layers(1, heads=2), Loop(Layers(1, heads=2), 3, **words), Layers(1, heads=2))
        for name, words in LOOP_WORDS.items()
    },
}


@pytest.mark.parametrize("unroll", [None, Unroll(steps=4, window=2, grad_steps=2)], ids=str)
@pytest.mark.parametrize("name", WORDS)
def test_flops_memory_and_parameters_are_exactly_what_pytorch_does(name: str, unroll: Unroll | None) -> None:
    model = AlgoFormer(WORDS[name], **SIZES)
    bill = model.cost(unroll, batch=3, rows=10, points=5)
    assert bill.parameters == sum(parameter.numel() for parameter in model.parameters())
    assert (bill.forward, bill.training) == measured_flops(model, unroll)
    assert bill.activation_bytes == measured_memory(model, unroll)


@pytest.mark.parametrize("name", WORDS)
def test_a_word_is_written_to_json_and_shown_in_the_outline(name: str) -> None:
    program = WORDS[name]
    assert Program.from_json(program.to_json()) == program
    plain = Program(
        Layers(1, heads=2),
        Loop(Layers(2 if name in LAYER_WORDS else 1, heads=4 if name in LAYER_WORDS else 2), 3),
        Layers(1, heads=4 if name in LAYER_WORDS else 2),
    )
    assert str(program) != str(plain)


def layer(**words: Any) -> Layer:
    torch.manual_seed(0)
    made = Layer(Layers(1, heads=4, head_width=4, hidden=6, **words).sizes(8)).double()
    with torch.no_grad():
        for weight in made.parameters():
            weight.add_(0.3 * torch.randn_like(weight))
    return made


@pytest.mark.parametrize("place", ["in", "out", "after"])
def test_a_norm_stands_where_it_is_put(place: str) -> None:
    made, plain = layer(norm="rms", norm_at=place), layer(norm="none")
    state = made.state_dict()
    plain.load_state_dict({name: value for name, value in state.items() if "norm" not in name})
    stream = again = torch.randn(2, 5, 8, dtype=torch.float64)
    for part, run in (("attention", plain.attention), ("feedforward", plain.feedforward)):
        key = {"in": f"{part}_norm", "out": f"{part}_out_norm", "after": f"{part}_after_norm"}[place]
        weight = state[f"{key}.weight"]
        entered = F.rms_norm(again, (8,), weight, eps=1e-5) if place == "in" else again
        added = run(entered)
        added = F.rms_norm(added, (8,), weight, eps=1e-5) if place == "out" else added
        again = again + added
        again = F.rms_norm(again, (8,), weight, eps=1e-5) if place == "after" else again
    torch.testing.assert_close(made(stream), again, rtol=0, atol=1e-12)


def test_grouped_keys_are_keys_repeated_for_every_head_of_a_group() -> None:
    torch.manual_seed(0)
    layers = Layers(1, heads=4, head_width=4)
    grouped = Attention(replace(layers, kv_heads=2).sizes(8)).double()
    whole = Attention(layers.sizes(8)).double()
    with torch.no_grad():
        query, key, value = grouped.qkv.weight.split([16, 8, 8])
        offset_query, offset_key, offset_value = grouped.qkv.bias.split([16, 8, 8])
        repeated = [each.unflatten(0, (2, 4)).repeat_interleave(2, 0).flatten(0, 1) for each in (key, value)]
        offsets = [each.view(2, 4).repeat_interleave(2, 0).flatten() for each in (offset_key, offset_value)]
        whole.qkv.weight.copy_(torch.cat([query, *repeated]))
        whole.qkv.bias.copy_(torch.cat([offset_query, *offsets]))
        whole.output.load_state_dict(grouped.output.state_dict())
    stream = torch.randn(2, 5, 8, dtype=torch.float64)
    torch.testing.assert_close(grouped(stream), whole(stream), rtol=0, atol=1e-12)
    visited = AttentionContext(visit_weights=lambda weights: weights)
    torch.testing.assert_close(grouped(stream, visited), whole(stream), rtol=0, atol=1e-12)
    rows = torch.tensor([1, 4])
    found = grouped(stream, AttentionContext(query_rows=rows))
    torch.testing.assert_close(found, whole(stream)[:, rows], rtol=0, atol=1e-12)


def test_a_gate_multiplies_what_the_heads_read() -> None:
    gated, stream = layer(output_gate=True).attention, torch.randn(2, 5, 8, dtype=torch.float64)
    heard: list[torch.Tensor] = []
    gated.output.register_forward_pre_hook(lambda _, given: heard.append(given[0]))
    gated(stream)
    with torch.no_grad():
        gate = gated.gate.weight.clone()
        gated.gate.weight.zero_()  # sigmoid(0) = 1/2
    gated(stream)
    torch.testing.assert_close(heard[0], 2 * heard[1] * torch.sigmoid(stream @ gate.T), rtol=0, atol=1e-12)
    rows = torch.tensor([0, 3])
    torch.testing.assert_close(
        gated(stream, AttentionContext(query_rows=rows)), gated(stream)[:, rows], rtol=0, atol=1e-12
    )


def test_a_decayed_state_follows_its_closed_form() -> None:
    injection = INJECTIONS["decay"].build(LayerSizes(width=3)).double()
    state, entry = torch.randn(1, 1, 3, dtype=torch.float64), torch.randn(1, 1, 3, dtype=torch.float64)
    # at the start: decay √(1/5), so Δ = ln(5) / 2, and the identity for the input
    delta = torch.tensor(5.0, dtype=torch.float64).log() / 2
    torch.testing.assert_close(injection(state, entry), 0.2**0.5 * state + delta * entry, rtol=0, atol=1e-6)


def test_noise_starts_training_and_zeros_start_everything_else() -> None:
    start, entry = STARTS["noise"].build(LayerSizes(width=64)), torch.randn(8, 50, 64)
    torch.manual_seed(0)
    noise = start(entry)
    # a normal cut at three deviations has the variance 0.9733
    assert noise.std().item() == pytest.approx((0.4 * 0.9733) ** 0.5, rel=0.02)
    assert noise.abs().max() <= 3 * 0.4**0.5 + 1e-6
    assert not start.eval()(entry).any()


def test_damping_goes_part_of_the_way_and_a_signal_is_added_before_the_body() -> None:
    torch.manual_seed(0)
    words = {"inject": "none", "damp": 0.25, "step_signal": "sinusoid"}
    module = ProgramModule(Program(Loop(Layers(1, heads=2), 3, **words)), width=8, context=6)
    loop = module.parts[0]
    assert isinstance(loop, LoopModule)
    state = stream = torch.randn(2, 5, 8)
    for iteration in (1, 2, 3):
        state = state + sinusoids(torch.tensor([iteration]), 8)
        state = state + 0.25 * (loop.body(state) - state)
    torch.testing.assert_close(module(stream), state, rtol=0, atol=1e-5)
