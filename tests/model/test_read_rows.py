"""Only the rows to read are computed to the end, and nothing else changes: answers, gradients, states."""

from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from algoformer.model import AlgoFormer, Layers, Loop, Parallel, Program, addresses
from algoformer.model.driver import DEFAULT, ForwardContext
from algoformer.model.parts import ProgramModule
from algoformer.nn import Layer
from algoformer.prompt import Prompt
from algoformer.trace import Unroll
from tests.model.test_cost import PROGRAMS, SIZES
from tests.model.test_parts import model, prompt
from tests.random_programs import programs

EXACT = {"rtol": 1e-12, "atol": 1e-12}


def whole(body: ProgramModule, entry: Tensor, unroll: Unroll, context: ForwardContext = DEFAULT) -> Tensor:
    """The program on all tokens."""
    return body.unroll(entry, unroll, context)[0]


def stream() -> Tensor:
    return torch.randn(2, 6, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(1))


@settings(max_examples=40)
@given(programs(causal=None), st.integers(1, 4), st.data())
def test_the_stream_at_asked_tokens_is_the_whole_stream_there(
    program: Program, steps: int, data: st.DataObject
) -> None:
    unroll, body = Unroll(steps=steps, window=data.draw(st.integers(1, steps))), model(program).body
    rows = torch.tensor(sorted(data.draw(st.sets(st.integers(0, 5), min_size=1))))
    with torch.no_grad():
        expected = whole(body, stream(), unroll).index_select(2, rows)
        found, _ = body.unroll(stream(), unroll, ForwardContext(read_rows=rows))
    torch.testing.assert_close(found, expected, **EXACT)


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("recompute", [False, True])
@pytest.mark.parametrize("tracked", [1, 2, 4])
def test_gradients_are_those_of_the_whole_stream(name: str, recompute: bool, tracked: int) -> None:
    body = AlgoFormer(PROGRAMS[name], **SIZES).double().body
    unroll = Unroll(steps=4, window=3, grad_steps=tracked, gradient_checkpointing=recompute)
    rows = torch.tensor([0, 3, 4])
    states = [
        whole(body, stream(), unroll).index_select(2, rows),
        body.unroll(stream(), unroll, ForwardContext(read_rows=rows))[0],
    ]
    first, second = (flat_gradient(body, each) for each in states)
    assert (second - first).norm() <= 1e-12 * first.norm()


def flat_gradient(body: ProgramModule, states: Tensor) -> Tensor:
    """The gradient of a sum of the states, unevenly weighted, by all weights."""
    weights = torch.linspace(-1, 2, states.numel(), dtype=states.dtype).reshape(states.shape)
    found = torch.autograd.grad((weights * states).sum(), list(body.parameters()), allow_unused=True)
    return torch.cat([each.flatten() for each in found if each is not None])


@settings(max_examples=25)
@given(programs(causal=True), st.integers(1, 3), st.data())
def test_who_keeps_states_gets_them_whole_and_the_same_answers(
    program: Program, steps: int, data: st.DataObject
) -> None:
    kept = data.draw(st.sampled_from(list(addresses(program, steps))))
    built, shown = model(program, blanks=(1, 0)), prompt()
    trace = built(shown, Unroll(steps=steps, keep=(kept,)))
    assert trace.states[kept].shape[-2] == 7
    torch.testing.assert_close(built(shown, Unroll(steps=steps)).predictions, trace.predictions, **EXACT)


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("tokens", [1, 6])
def test_a_mask_holds_for_the_tokens_that_are_asked(causal: bool, tokens: int) -> None:
    program = Program(Loop(Layers(1, heads=2, causal=causal), 2), Layers(2, heads=2, causal=causal))
    body = model(program).body
    mask = torch.rand(2, 1, tokens, 6, generator=torch.Generator().manual_seed(0)) < 0.5
    mask[..., 0] = True
    context = ForwardContext(causal_mask=mask, full_mask=mask, positions=torch.tensor([[0, 0, 1, 2, 3, 4]]))
    unroll, rows = Unroll(steps=3, window=2), torch.tensor([1, 4, 5])
    expected = whole(body, stream(), unroll, context)[:, :, rows]
    found, _ = body.unroll(stream(), unroll, replace(context, read_rows=rows))
    torch.testing.assert_close(found, expected, **EXACT)


@pytest.mark.parametrize(
    ("program", "narrow"),
    [
        (Program(Layers(3, heads=2)), 1),
        (Program(Layers(1, heads=2), Loop(Layers(1, heads=2), 4), Layers(2, heads=2)), 1),
        (Program(Loop(Layers(2, heads=2), 4)), 1),
        (Program(Loop((Layers(1, heads=2), Loop(Layers(1, heads=2), 3)), 4)), 1),
        (Program(Parallel(Layers(2, heads=2), Loop(Layers(1, heads=2), 2))), 2),
        (Program(Loop(Layers(1, heads=2), 4), Layers(0)), 0),
    ],
    ids=str,
)
def test_the_last_evaluation_of_a_layer_leaves_tokens_out_and_no_other(program: Program, narrow: int) -> None:
    built, rows = model(program), []
    for part in built.modules():
        if isinstance(part, Layer):
            part.feedforward.register_forward_hook(lambda module, given, result: rows.append(len(result[0])))
    built(prompt(), Unroll(steps=4, window=2))
    assert rows.count(3) == narrow
    assert set(rows) <= {3, 6}


def test_a_prompt_that_asks_everywhere_is_run_as_a_whole() -> None:
    built = model(Program(Layers(1, heads=2)))
    rows = torch.randn(2, 3, 4, dtype=torch.float64)
    everywhere = Prompt(rows=rows, targets=rows[..., :1], reads=(0, 1, 2))
    assert built.read_rows(everywhere) is None
    expected = [built(everywhere.prefix(point)).final[:, 0] for point in range(3)]
    torch.testing.assert_close(built(everywhere).final, torch.stack(expected, dim=1), **EXACT)
