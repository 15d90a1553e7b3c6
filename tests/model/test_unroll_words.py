"""`Unroll.inner`, `Unroll.depths` and `Unroll.carry`, each against the same computation done another way."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from algoformer.language.token_model import TokenModel
from algoformer.model import AlgoFormer, Layers, Loop, Parallel, Program
from algoformer.model import presets as programs
from algoformer.model.address import inner_loops, with_inner_steps
from algoformer.model.cost import cost
from algoformer.model.two_states import TwoStates
from algoformer.prompt import Prompt
from algoformer.trace import Carry, Unroll

LAYER: dict[str, Any] = {"heads": 2}


def branches() -> Program:
    """Two traced loops side by side, the first with a loop inside; and a loop before both."""
    inside = Loop(Layers(1, heads=2), steps=2, name="inner")
    return Program(
        Loop(Layers(1, heads=2), steps=3, name="before"),
        Parallel(
            Loop(inside, steps=2, name="one"), Loop(Layers(1, heads=2), steps=2, name="two"), name="both"
        ),
    )


def prompt(batch: int = 5) -> Prompt:
    numbers = torch.Generator().manual_seed(0)
    xs, ys = (torch.randn(batch, 3, size, generator=numbers, dtype=torch.float64) for size in (4, 2))
    return Prompt.of_pairs(xs, ys)


def model(program: Program) -> AlgoFormer:
    torch.manual_seed(0)
    built = AlgoFormer(program, dim=4, out=2, context=8, width=8).double()
    for weight in built.parameters():  # fresh weights hardly move the stream
        weight.data.add_(0.2 * torch.randn_like(weight))
    return built


def two_states() -> Program:
    low, high = Loop(Layers(1, heads=2), steps=3, name="low"), Layers(1, heads=2, name="high")
    return Program(TwoStates((low, high), steps=2, name="loop"))


def one_network() -> Program:
    return Program(TwoStates(Loop(Layers(1, heads=2), steps=3, name="low"), steps=2, name="loop"))


def gated() -> Program:
    inside = Layers(1, heads=2, name="first"), Loop(Layers(1, heads=2), steps=2, name="inner")
    return Program(Loop(inside, steps=2, name="loop", halt="gate"), Layers(1, heads=2, name="post"))


def clocked() -> Program:
    return Program(Loop(Layers(1, heads=2), steps=4, step_signal="sinusoid", name="loop"))


@pytest.mark.parametrize(
    ("program", "name", "address"),
    [
        (programs.nested(**LAYER), "inner", "loop/inner"),
        (programs.two_loops(**LAYER), "features", "features"),
        (branches(), "inner", "both/branch0/one/inner"),
        (branches(), "before", "before"),
        (two_states(), "low", "loop/low"),
        (one_network(), "low", "loop/low"),
        (gated(), "inner", "loop/inner"),
    ],
)
def test_inner_loops_run_as_if_the_program_said_so(program: Program, name: str, address: str) -> None:
    assert address in inner_loops(program)
    built = model(program)
    other = model(with_inner_steps(program, {address: 7}))
    other.load_state_dict(built.state_dict())
    wanted = other(prompt(), Unroll(steps=3)).predictions
    for word in (name, address):
        torch.testing.assert_close(built(prompt(), Unroll(steps=3, inner={word: 7})).predictions, wanted)
    assert not torch.allclose(built(prompt(), Unroll(steps=3)).predictions, wanted)
    sizes = {"dim": 4, "out": 2, "context": 8, "width": 8}
    longer = cost(program, unroll=Unroll(steps=3, inner={name: 7}), **sizes)
    assert longer == cost(other.program, unroll=Unroll(steps=3), **sizes)


def test_inner_steps_reach_text_recorded_states_and_recomputed_iterations() -> None:
    torch.manual_seed(0)
    text = TokenModel(programs.nested(**LAYER), vocabulary=11, context=6, width=8)
    ids = torch.randint(11, (2, 6))
    changed = TokenModel(with_inner_steps(text.program, {"inner": 6}), vocabulary=11, context=6, width=8)
    changed.load_state_dict(text.state_dict())
    unroll = Unroll(steps=3, inner={"inner": 6})
    torch.testing.assert_close(text(ids, unroll), changed(ids, Unroll(steps=3)))
    built = model(programs.nested(**LAYER))
    kept = built(prompt(), Unroll(steps=3, inner={"inner": 6}, keep=("loop[3]/inner[6]", "loop[3]"))).states
    torch.testing.assert_close(kept["loop[3]/inner[6]"], kept["loop[3]"])
    gradients = []
    for recompute in (False, True):
        built.zero_grad()
        built(
            prompt(), Unroll(steps=3, inner={"inner": 6}, gradient_checkpointing=recompute)
        ).final.square().sum().backward()
        gradients.append([weight.grad for weight in built.parameters()])
    torch.testing.assert_close(*gradients)


@pytest.mark.parametrize(
    ("inner", "message"),
    [
        ({"iner": 3}, "did you mean 'loop/inner'"),
        ({"loop": 3}, "no inner loop is named 'loop'"),
        ({"inner": 0}, "must run a whole number of times, got 0"),
        ({"inner": True}, "must run a whole number of times"),
    ],
)
def test_wrong_inner_loops_are_refused(inner: dict[str, int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        model(programs.nested(**LAYER))(prompt(), Unroll(steps=2, inner=inner))


def test_a_name_that_two_loops_have_is_refused() -> None:
    inside = Loop(Layers(1, heads=2), steps=2, name="inner")
    program = Program(Loop(inside, steps=2, name="a"), Loop(inside, steps=2, name="b"))
    with pytest.raises(ValueError, match="2 loops are named 'inner'; give one of a/inner, b/inner"):
        model(program)(prompt(), Unroll(steps=2, inner={"inner": 3}))
    inside = Loop(Layers(1, heads=2), steps=2, name="a")
    twice = Program(inside, Loop(Program(inside, Layers(1, heads=2, name="x")), steps=2, name="b"))
    for name in ("a", "b/a"):  # a full address names one loop, also if another one's ends alike
        assert inner_loops(with_inner_steps(twice, {name: 3}))[name].steps == 3
    with pytest.raises(ValueError, match="no loop besides the traced one"):
        model(programs.looped(**LAYER))(prompt(), Unroll(steps=2, inner={"inner": 3}))


DEPTHS = torch.tensor([1, 2, 4, 6, 3])


@pytest.mark.parametrize("build", [lambda: programs.algoformer(**LAYER), clocked, branches, two_states])
@pytest.mark.parametrize("tracked", [None, 2])
def test_sequences_with_depths_of_their_own_equal_sequences_alone(
    build: Callable[[], Program], tracked: int | None
) -> None:
    built, given = model(build()), prompt()

    def loss(answers: Tensor) -> Tensor:
        return (answers - given.targets[:, : answers.shape[2]].mean()).square().sum()

    together = built(given, Unroll(steps=6, window=1, grad_steps=tracked, depths=DEPTHS)).predictions
    loss(together).backward()
    gradients = [weight.grad for weight in built.parameters()]
    built.zero_grad()
    mean = given.targets.mean()
    for number, depth in enumerate(DEPTHS.tolist()):
        cut = None if tracked is None else min(tracked, depth)
        unroll = Unroll(steps=depth, window=1, grad_steps=cut)
        alone = built(given.select(slice(number, number + 1)), unroll).predictions
        torch.testing.assert_close(alone[:, 0], together[:, number])
        (alone - mean).square().sum().backward()
    torch.testing.assert_close([weight.grad for weight in built.parameters()], gradients)


def test_the_window_shows_the_last_iterations_of_every_sequence() -> None:
    built, given = model(programs.algoformer(**LAYER)), prompt()
    window = built(given, Unroll(steps=6, window=2, depths=DEPTHS.clamp(min=2))).predictions
    full = built(given, Unroll(steps=6)).predictions
    for number, depth in enumerate(DEPTHS.clamp(min=2).tolist()):
        torch.testing.assert_close(window[:, number], full[depth - 2 : depth, number])


@pytest.mark.parametrize(
    ("depths", "message"),
    [
        (torch.tensor([9, 9, 9, 9, 9]), r"depths must lie in 1\.\.6 \(the steps\), got \[9, 9"),
        (torch.tensor([0, 1, 1, 1, 1]), r"depths must lie in 1\.\.6"),
        (torch.tensor([1, 2]), r"one whole number for each of 5 sequences, got \[1, 2\]"),
        (torch.tensor([1.5] * 5), "one whole number for each of 5 sequences"),
    ],
)
@pytest.mark.usefixtures("as_a_user")
def test_depths_that_do_not_fit_are_refused(depths: Tensor, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        model(programs.looped(**LAYER))(prompt(), Unroll(steps=6, window=1, depths=depths))


@pytest.mark.parametrize(
    "build", [lambda: programs.algoformer(**LAYER), lambda: programs.nested(**LAYER), two_states, clocked]
)
def test_a_carried_state_continues_the_loop(build: Callable[[], Program]) -> None:
    built, given, carry = model(build()), prompt(), Carry()
    full = built(given, Unroll(steps=9)).predictions
    parts = [built(given, Unroll(steps=3, carry=carry)).predictions for _ in range(3)]
    torch.testing.assert_close(torch.cat(parts), full)


def test_the_gradient_ends_at_a_carried_state() -> None:
    built, given, carry = model(programs.looped(**LAYER)), prompt(), Carry()
    built(given, Unroll(steps=3, carry=carry))
    assert carry.state is not None
    assert not carry.state.requires_grad
    loop: Any = built.body.parts[0]
    state = carry.state.clone()
    built(given, Unroll(steps=2, carry=carry, window=1)).final.sum().backward()
    gradients = [weight.grad for weight in built.parameters()]
    built.zero_grad()
    entry = built.read_in(given.rows)
    for _ in range(2):
        state = loop.body(loop.injection(state, entry))
    built.read_out(state[:, list(given.reads)]).sum().backward()
    torch.testing.assert_close([weight.grad for weight in built.parameters()], gradients)


def test_a_carry_is_for_one_loop_and_the_same_sequences() -> None:
    carry = Carry()
    built = model(programs.looped(**LAYER))
    built(prompt(5), Unroll(steps=2, carry=carry))
    with pytest.raises(ValueError, match="use a new Carry"):
        built(prompt(4), Unroll(steps=2, carry=carry))
    with pytest.raises(ValueError, match="branches side by side"):
        model(branches())(prompt(), Unroll(steps=2, carry=Carry()))


def test_one_tracked_round_differentiates_the_whole_inner_recursion() -> None:
    """TRM's gradient: rounds without gradient, then one through all of its inner iterations."""
    built, given = model(programs.nested(pre=0, post=0, **LAYER)), prompt()
    built(given, Unroll(steps=3, window=1, grad_steps=1)).final.sum().backward()
    gradients = [weight.grad for weight in built.parameters()]
    built.zero_grad()
    loop: Any = built.body.parts[0]
    outer, inner = loop.body.parts
    entry = built.read_in(given.rows)
    with torch.no_grad():
        state = loop.unroll(entry, Unroll(steps=2, window=1))[0][0]
    middle = outer(loop.injection(state, entry))
    state = torch.zeros_like(middle)
    for _ in range(inner.steps):
        state = inner.body(inner.injection(state, middle))
    built.read_out(state[:, list(given.reads)]).sum().backward()
    torch.testing.assert_close([weight.grad for weight in built.parameters()], gradients)
