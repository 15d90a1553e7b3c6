"""The published loop models: shapes of their papers, cost, outline, training."""

import inspect

import pytest
import torch

from algoformer.model import AlgoFormer, Layers, Loop, Program
from algoformer.model.cost import parameters
from algoformer.model.loop_models import LOOP_MODELS
from algoformer.prompt import Prompt
from algoformer.report.diagram import diagram
from algoformer.trace import Unroll
from tests.model.test_cost import SIZES, measured_flops, measured_memory

EVERY = pytest.mark.parametrize("name", LOOP_MODELS)
SMALL = {"heads": 4, "hidden": 12, "head_width": 4}


def small(name: str) -> Program:
    """A preset with few heads, few layers and few steps."""
    preset = LOOP_MODELS[name]
    names = inspect.signature(preset).parameters
    counts = {key: 1 for key in ("layers", "prelude", "core", "coda") if key in names}
    grouped = {"kv_heads": 2} if name in ("nanbeige", "retrofit", "mor_cycle", "mor_sequence") else {}
    return preset(**counts, steps=3, causal=True, **SMALL, **grouped)


def model_of(name: str) -> AlgoFormer:
    torch.manual_seed(0)
    return AlgoFormer(small(name), **SIZES)


def prompt() -> Prompt:
    numbers = torch.Generator().manual_seed(0)
    return Prompt.of_pairs(torch.randn(3, 5, 4, generator=numbers), torch.randn(3, 5, 2, generator=numbers))


@EVERY
def test_a_preset_is_short_and_survives_json(name: str) -> None:
    program = LOOP_MODELS[name]()
    assert Program.from_json(program.to_json()) == program
    body = inspect.getsource(LOOP_MODELS[name]).partition('"""')[2].partition('"""')[2]
    assert len([line for line in body.splitlines() if line.strip()]) <= 15


@EVERY
def test_a_preset_is_printed_and_drawn(name: str) -> None:
    program = small(name)
    assert "⟲ 3 steps" in str(program)
    assert all(len(line) <= 130 for line in str(program).splitlines())
    assert "3" in str(diagram(program))


@EVERY
@pytest.mark.parametrize(
    "unroll", [None, Unroll(steps=4, window=2), Unroll(steps=4, window=2, grad_steps=3)], ids=str
)
def test_flops_and_memory_are_exactly_what_pytorch_does(name: str, unroll: Unroll | None) -> None:
    model = model_of(name)
    bill = model.cost(unroll, batch=3, rows=10, points=5)
    assert bill.parameters == sum(parameter.numel() for parameter in model.parameters())
    assert (bill.forward, bill.training) == measured_flops(model, unroll)
    # an RMS norm of a state without a gradient keeps less: with fewer gradient steps it is an upper bound
    measured = measured_memory(model, unroll)
    partial = unroll is not None and unroll.grad_steps is not None
    assert measured <= bill.activation_bytes if partial else measured == bill.activation_bytes


@EVERY
def test_a_few_training_steps_lower_the_error(name: str) -> None:
    torch.manual_seed(0)
    # without blank rows: a norm of zeros multiplies gradients by the root of 1 / eps at every iteration
    model = AlgoFormer(small(name), **{**SIZES, "blanks": (0, 0)})
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    targets = torch.randn(3, 5, 2, generator=torch.Generator().manual_seed(1))
    errors = []
    for _ in range(20):
        torch.manual_seed(0)  # the same noise at every step
        error = (model(prompt(), Unroll(steps=3, window=1)).predictions[-1] - targets).square().mean()
        optimizer.zero_grad()
        error.backward()
        optimizer.step()
        errors.append(error.item())
    assert errors[-1] < 0.9 * errors[0]
    assert all(weight.grad is not None for weight in model.parameters())


@pytest.mark.parametrize(
    ("name", "width", "hidden", "billions"),
    # four square maps or grouped ones, three of the network, the norms; without embeddings
    [
        ("ouro", 2048, 5632, (24 * (4 * 2048**2 + 3 * 2048 * 5632 + 4 * 2048) + 2048) / 1e9),
        ("nanbeige", 3072, 10752, 22 * (2 * 3072 * (48 + 8) * 128 + 3 * 3072 * 10752 + 2 * 3072) / 1e9),
    ],
)
def test_parameters_at_published_sizes_follow_the_papers_formulas(
    name: str, width: int, hidden: int, billions: float
) -> None:
    program = LOOP_MODELS[name](hidden=hidden)
    counted = sum(parameters(part, width=width, context=1) for part in program)
    assert counted / 1e9 == pytest.approx(billions, rel=1e-5)


def test_huginn_has_three_and_a_half_billion_parameters() -> None:
    program = LOOP_MODELS["huginn"](hidden=17920)
    counted = sum(parameters(part, width=5280, context=1) for part in program)
    embedding = 65536 * 5280
    assert (counted + embedding) / 1e9 == pytest.approx(3.5, abs=0.1)


def test_the_sequence_of_recursions_is_one_loop_for_each_layer() -> None:
    program = LOOP_MODELS["mor_sequence"](core=3, steps=2)
    assert [type(part) for part in program] == [Layers, Loop, Loop, Loop, Layers]
