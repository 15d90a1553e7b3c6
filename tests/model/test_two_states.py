"""A loop with two states is the recursion of its docstring, written out."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from algoformer import AlgoFormer, Layers, Loop, Program, TwoStates, Unroll
from algoformer.model.driver import ForwardContext
from algoformer.model.parts import ProgramModule
from algoformer.model.two_states import TwoStatesModule
from algoformer.tasks import LinearRegression

WORDS = {"heads": 2, "positions": "rope"}
LOW = Loop(Layers(1, **WORDS), steps=3, name="low")
HIGH = Layers(2, name="high", **WORDS)
ENTRY = torch.randn(2, 5, 8, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


def module_of(part: TwoStates) -> TwoStatesModule:
    torch.manual_seed(0)
    module = ProgramModule(Program(part), width=8, context=5).double().parts[0]
    assert isinstance(module, TwoStatesModule)
    return module


def written_out(module: TwoStatesModule, entry: Tensor, *, steps: int, low_steps: int) -> list[Tensor]:
    network = module.body.parts[0].body.parts[0]
    last = network if module.settings.shared else module.body.parts[1]
    if module.settings.start_kind == "vector":
        high, low = module.start.vector.expand_as(entry), module.low_start.vector.expand_as(entry)
    else:
        high, low = entry, torch.zeros_like(entry)
    found = []
    for _ in range(steps):
        for _ in range(low_steps):
            low = network(low + high + (entry if module.settings.inject == "add" else 0))
        high = last(high + low)
        found.append(high)
    return found


@pytest.mark.parametrize(
    ("part", "low_steps"),
    [
        (TwoStates((LOW, HIGH), steps=2), 3),
        (TwoStates((LOW, HIGH), steps=2, inject="none"), 3),
        (TwoStates((LOW, HIGH), steps=2, start="input"), 3),
        (TwoStates(LOW, steps=2), 2),
        (TwoStates(LOW, steps=2, inject="none"), 2),
    ],
    ids=["hrm", "hrm_text", "from the input", "trm", "one network, no input"],
)
def test_every_iteration_is_the_recursion(part: TwoStates, low_steps: int) -> None:
    module = module_of(part)
    states, _ = module.unroll(ENTRY, Unroll(steps=4))
    expected = written_out(module, ENTRY, steps=4, low_steps=low_steps)
    torch.testing.assert_close(states, torch.stack(expected), rtol=0, atol=1e-12)
    torch.testing.assert_close(module(ENTRY), expected[1], rtol=0, atol=1e-12)


@pytest.mark.parametrize("body", [(LOW, HIGH), (LOW,)], ids=["two networks", "one network"])
def test_states_have_addresses_and_can_be_changed(body: tuple[Loop | Layers, ...]) -> None:
    task = LinearRegression(dim=3, points=4)
    torch.manual_seed(0)
    model = AlgoFormer(
        Program(TwoStates(body, steps=2, name="loop")), dim=3, out=1, context=task.context, width=8
    )
    prompt = task.sample(2, generator=torch.Generator().manual_seed(0))
    names = ("loop[1]", "loop[1]/low[2]", "loop[2]/low[3]/0", "loop[2]")
    plain = model(prompt, Unroll(steps=2, keep=names))
    assert set(plain.states) == set(names)
    assert all(state.shape == (2, task.context, 8) for state in plain.states.values())
    with model.edit({"loop[1]/low[2]": torch.zeros_like}):
        assert not torch.equal(model(prompt, Unroll(steps=2)).final, plain.final)
    before = model(prompt, Unroll(steps=1)).final
    with model.edit({"loop[2]": lambda state: plain.states["loop[1]"]}):
        assert torch.equal(model(prompt, Unroll(steps=2)).final, before)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"body": Layers(1)}, "the first part of a body with two states is the low network"),
        ({"body": Loop(Layers(1), steps=2, inject="none")}, "the low network"),
        ({"body": Loop(Layers(1), steps=2, step_signal="sinusoid")}, "no start, step_signal or halt"),
        ({"body": Loop(Layers(1), steps=1)}, "at least 2 steps, got 1"),
        ({"body": LOW, "inject": "concat"}, "unknown inject 'concat'; choose from add, none"),
        ({"body": LOW, "start": "noise"}, "unknown start 'noise'; choose from auto, vector, input"),
        ({"body": LOW, "damp": 0.5}, "no damp, step_signal or halt"),
        ({"body": LOW, "steps": 0}, "steps"),
    ],
)
def test_what_has_no_two_states_is_refused(settings: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        TwoStates(**({"steps": 2} | settings))  # type: ignore[arg-type]


def test_one_network_needs_two_inner_steps_at_test_time_too() -> None:
    module = module_of(TwoStates(LOW, steps=2))
    context = ForwardContext(loop_steps={"/low": 1})
    with pytest.raises(ValueError, match="at least 2 steps, got 1"):
        module(ENTRY, context)
