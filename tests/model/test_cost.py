"""Every formula against a measurement: the built module, PyTorch's FLOP counter, autograd's saved tensors."""

import math
import weakref
from collections.abc import Iterator

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode, sdpa_backward_flop_count

from algoformer.model import AlgoFormer, Layers, Loop, Parallel, Program, TwoStates
from algoformer.model import presets as programs
from algoformer.model.cost import cost
from algoformer.model.program import Part
from algoformer.prompt import Prompt
from algoformer.trace import Unroll
from tests.random_programs import programs as random_programs

SIZES = {"dim": 4, "out": 2, "context": 12, "width": 8, "row_maps": 2, "blanks": (1, 2)}
PLAIN = {"heads": 2, "norm": False, "positions": False, "final_norm": False}
PROGRAMS = {
    **{name: preset(heads=2) for name, preset in programs.PRESETS.items()},
    "gate": programs.algoformer(heads=2, inject="gate"),
    "none": programs.algoformer(heads=2, inject="none"),
    "step signal": Program(Loop(Layers(1, heads=2), 3, step_signal="sinusoid"), Layers(1, heads=2)),
    "two states": Program(
        TwoStates((Loop(Layers(1, heads=2), 2, name="low"), Layers(1, heads=2, name="high")), 3),
        Layers(1, heads=2),
    ),
    "two states, one network": Program(TwoStates(Loop(Layers(1, heads=2), 3, name="low"), 2, "none")),
    "plain loop": Program(Layers(1, heads=2), Loop(Layers(2, **PLAIN), 3, "none"), Layers(1, **PLAIN)),
    "two states in a loop": Program(
        Loop(TwoStates((Loop(Layers(1, **PLAIN), 2, name="low"), Layers(1, **PLAIN, name="high")), 2), 3)
    ),
    "maps that no gradient enters": Program(
        Loop((Loop(Layers(1, **PLAIN), 2, "concat"), Loop(Layers(1, **PLAIN), 2, "decay")), 3, "none"),
        Layers(1, heads=2),
    ),
    "start without a gradient": Program(
        Loop(Loop(Layers(1, **PLAIN), 2, start="vector"), 3, "none"), Layers(1, heads=2)
    ),
    "signal into the first state": Program(
        Loop(Layers(1, heads=2), 3, "none", step_signal="sinusoid"), Layers(1, heads=2)
    ),
    "sinusoids": Program(
        Loop(Layers(1, **PLAIN | {"positions": "sinusoid"}), 3, "none"),
        Layers(1, **PLAIN | {"positions": "sinusoid"}),
    ),
    "narrow heads that rotate": Program(
        Layers(2, heads=4, positions="rope", qk_norm="plain"),
        Loop(Layers(1, heads=1, head_width=2, positions="rope"), 3),
        Layers(1, heads=2, positions="rope", head_width=2),
    ),
    "parallel": Program(
        Layers(1, heads=2, activation="relu", head_width=3, hidden=5, bias=False),
        Parallel(Loop(Layers(1, heads=2), 3), (Layers(1, heads=2), Loop(Layers(1, heads=1), 2, "none"))),
        Layers(1, heads=2),
    ),
}
UNROLLS = [
    None,
    Unroll(steps=6, window=4),
    Unroll(steps=6, window=4, grad_steps=4),
    Unroll(steps=6, window=2, grad_steps=3),
    Unroll(steps=6, window=6, grad_steps=0),
]


def prompt() -> Prompt:
    numbers = torch.Generator().manual_seed(0)
    return Prompt.of_pairs(torch.randn(3, 5, 4, generator=numbers), torch.randn(3, 5, 2, generator=numbers))


def measured_flops(model: AlgoFormer, unroll: Unroll | None) -> tuple[int, int]:
    """Forward, and forward with backward; in the one kernel whose products the counter sees on a CPU."""
    with sdpa_kernel([SDPBackend.MATH]), FlopCounterMode(display=False) as counter:
        trace = model(prompt(), unroll)
        forward = counter.get_total_flops()
        loss = trace.predictions.square().mean()
        (loss if trace.halting is None else loss + trace.halting.mean()).backward()
    return forward, counter.get_total_flops()


class Kept:
    """A saved tensor that can be watched: it dies with the graph that holds it."""

    def __init__(self, tensor: Tensor) -> None:
        self.tensor = tensor.detach()  # or an output that is saved would keep itself alive


def measured_memory(model: AlgoFormer, unroll: Unroll | None) -> int:
    """Bytes of the distinct storages that the graph of a trace holds, parameters left out."""
    alive: weakref.WeakSet[Kept] = weakref.WeakSet()

    def pack(tensor: Tensor) -> Kept:
        kept = Kept(tensor)
        alive.add(kept)
        return kept

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda kept: kept.tensor):
        trace = model(prompt(), unroll)
    own = {parameter.untyped_storage().data_ptr() for parameter in model.parameters()}
    tensors = [kept.tensor for kept in alive if kept.tensor.is_floating_point()]
    storages = {tensor.untyped_storage().data_ptr(): tensor.untyped_storage().nbytes() for tensor in tensors}
    assert trace.predictions.requires_grad
    return sum(size for place, size in storages.items() if place not in own)


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("unroll", UNROLLS, ids=str)
def test_flops_and_memory_are_exactly_what_pytorch_does(name: str, unroll: Unroll | None) -> None:
    model = AlgoFormer(PROGRAMS[name], **SIZES)
    bill = model.cost(unroll, batch=3, rows=10, points=5)
    assert (bill.forward, bill.training) == measured_flops(model, unroll)
    assert bill.activation_bytes == measured_memory(model, unroll)


@pytest.mark.parametrize("again", [False, True])
@pytest.mark.parametrize("name", ["plain loop", "signal into the first state", "step signal", "two states"])
def test_sequences_with_depths_of_their_own_carry_a_gradient_to_the_input(name: str, again: bool) -> None:
    depths = torch.tensor([1, 4, 2])
    unroll = Unroll(steps=4, window=1, grad_steps=2, gradient_checkpointing=again, depths=depths)
    model = AlgoFormer(PROGRAMS[name], **SIZES)
    bill = model.cost(unroll, batch=3, rows=10, points=5)
    if not again:
        assert (bill.forward, bill.training) == measured_flops(model, unroll)
    assert bill.activation_bytes == measured_memory(model, unroll)


@settings(max_examples=25)
@given(
    st.booleans().flatmap(lambda words: random_programs(causal=True, words=words)),
    st.integers(1, 4),
    st.data(),
)
def test_the_formulas_hold_for_random_programs(program: Program, steps: int, data: st.DataObject) -> None:
    window, tracked = data.draw(st.integers(1, steps)), data.draw(st.integers(0, steps))
    unroll = Unroll(steps=steps, window=window, grad_steps=tracked)
    model = AlgoFormer(program, **SIZES)
    bill = model.cost(unroll, batch=3, rows=10, points=5)
    assert bill.parameters == sum(parameter.numel() for parameter in model.parameters())
    assert (bill.forward, bill.training) == measured_flops(model, unroll)
    check_memory(model, unroll, bill.activation_bytes)


def check_memory(model: AlgoFormer, unroll: Unroll, predicted: int) -> None:
    """The estimate is exact, but an upper bound where one tensor may be kept twice."""
    measured = measured_memory(model, unroll)
    assert measured <= predicted
    if not any(may_share(part) for part in every_part(model.program)):
        assert measured == predicted


def may_share(part: Part) -> bool:
    """Branches share their input, a first state is the loop's input, and products without norms one state."""
    if isinstance(part, Layers):
        return part.norm == "none"
    return isinstance(part, Parallel) or (isinstance(part, Loop) and part.start == "input")


def every_part(program: Program) -> Iterator[Part]:
    for part in program:
        yield part
        for body in part.bodies:
            yield from every_part(body)


@given(random_programs())
def test_parameters_are_counted_part_by_part(program: Program) -> None:
    model = AlgoFormer(program, **SIZES)
    parts = cost(program, **SIZES).parts
    modules = [model.read_in, *model.body.parts, model.read_out]
    for part, module in zip(parts, modules, strict=True):
        named = dict(module.named_parameters())
        assert part.parameters == sum(parameter.numel() for parameter in named.values())
        places = [parameter.numel() for name, parameter in named.items() if name.endswith("positions.table")]
        assert part.positions == sum(places)


def test_parts_go_by_their_names() -> None:
    names = [part.name for part in cost(programs.algoformer(), dim=20, out=1, context=80).parts]
    assert names == ["read_in", "pre", "loop", "post", "read_out"]
    assert [part.name for part in cost(Layers(1), dim=2, out=1, context=8).parts][1] == "0"


def test_a_fused_kernel_computes_the_scores_once_more() -> None:
    """PyTorch counts five products on the way back through fused attention, not four: one more is ours."""
    layers = Layers(2, heads=2, head_width=5)
    bill = cost(layers, dim=4, out=1, context=6, width=8, batch=3)
    shape = (3, 2, 6, 5)
    fused = sdpa_backward_flop_count(shape, shape, shape, shape)
    four_products = 2 * (2 * 2 * math.prod(shape) * 6)
    assert bill.work.recomputed == layers.count * (fused - four_products)


def test_a_batch_costs_in_proportion_and_windows_cost_what_follows_the_loop() -> None:
    sizes = {"dim": 4, "out": 1, "context": 12, "width": 8}
    program = programs.algoformer(heads=2)
    one, many = (cost(program, **sizes, batch=batch) for batch in (1, 7))
    assert (many.forward, many.activation_bytes) == (7 * one.forward, 7 * one.activation_bytes)
    narrow, wide = (cost(program, **sizes, unroll=Unroll(steps=9, window=window)) for window in (1, 9))
    post = [bill.parts[3].work.forward for bill in (narrow, wide)]
    assert post[1] == 9 * post[0]
    assert [part.work for part in narrow.parts[:3]] == [part.work for part in wide.parts[:3]]
    assert cost(program, **sizes, number_bytes=2).activation_bytes * 2 == one.activation_bytes


def test_a_program_of_any_size_is_costed_at_once() -> None:
    huge = Program(Loop(Loop(Layers(1_000_000), 1_000_000), 1_000_000))
    bill = cost(huge, dim=20, out=1, context=80, unroll=Unroll(steps=10**6))
    assert bill.work.layers == 10**18


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"rows": 9}, r"rows must lie in 1\.\.8 \(the context\), got 9"),
        ({"rows": 4, "points": 5}, r"points must lie in 1\.\.4 \(the rows\), got 5"),
        ({"batch": 0}, "batch must be at least 1, got 0"),
        ({"number_bytes": 0}, "number_bytes must be at least 1"),
        ({"width": 9}, "2 heads do not divide"),
    ],
)
def test_impossible_batches_are_refused(wrong: dict[str, int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        cost(programs.looped(heads=2), **{"dim": 4, "out": 1, "context": 8, "width": 8, **wrong})
