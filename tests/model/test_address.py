import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from algoformer.model import AlgoFormer, Layers, Loop, Parallel, Program, addresses
from algoformer.model.presets import algoformer, nested
from algoformer.prompt import Prompt
from algoformer.trace import Unroll
from tests.random_programs import programs


def prompt() -> Prompt:
    numbers = torch.Generator().manual_seed(0)
    return Prompt.of_pairs(torch.randn(2, 3, 4, generator=numbers), torch.randn(2, 3, 1, generator=numbers))


def model(program: Program) -> AlgoFormer:
    torch.manual_seed(0)
    return AlgoFormer(program, dim=4, out=1, context=6, width=8)


@settings(max_examples=40)
@given(programs(causal=True), st.integers(1, 4))
def test_every_address_holds_a_state_and_nothing_else_does(program: Program, steps: int) -> None:
    known = list(addresses(program, steps))
    assert len(known) == len(set(known))
    kept = model(program)(prompt(), Unroll(steps=steps, keep=tuple(known))).states
    assert set(kept) == set(known)
    assert all(state.shape[-2:] == (6, 8) for state in kept.values())


def test_addresses_are_paths() -> None:
    assert list(addresses(nested(steps=1, inner_steps=2))) == [
        *("pre", "pre/0", "loop[1]", "loop[1]/outer", "loop[1]/outer/0"),
        *("loop[1]/inner[1]", "loop[1]/inner[1]/0", "loop[1]/inner[2]", "loop[1]/inner[2]/0"),
        *("post", "post/0"),
    ]
    assert list(addresses(Program(Parallel(Layers(1), Loop(Layers(1), 1))))) == [
        *("0", "0/branch0/0", "0/branch1/0[1]", "0/branch1/0[1]/0"),
    ]
    assert list(addresses(Program(Layers(1)))) == ["0", "0/0"]


def test_an_unroll_makes_the_traced_loop_longer_and_no_other() -> None:
    program = Program(Loop(Layers(0), 2, name="first"), Loop(Layers(0), 2, name="second"))
    assert list(addresses(program, 3)) == ["first[1]", "first[2]", "second[1]", "second[2]", "second[3]"]


def test_states_are_what_their_address_says() -> None:
    built = model(algoformer(heads=2))
    asked = ("pre", "loop[2]", "loop[3]", "loop[3]/0", "post", "post/0")
    trace = built(prompt(), Unroll(steps=3, window=2, keep=asked))
    states = trace.states
    loop = built.body.parts[1].body.parts[0]
    entered = states["loop[2]"] + states["pre"] + loop.positions.table
    torch.testing.assert_close(states["loop[3]/0"], loop.layers[0](entered))
    torch.testing.assert_close(states["loop[3]"], loop.final_norm(states["loop[3]/0"]))
    # what comes after the loop has run on the whole window
    assert states["post"].shape == (2, 2, 6, 8)
    torch.testing.assert_close(built.read_out(states["post"][:, :, ::2]), trace.predictions)


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("loop[4]", r"'loop\[4\]' when the loop runs 3 step\(s\); did you mean 'loop\["),
        ("pree", "did you mean 'pre'"),
        ("loop[0]", "no state at address"),
        ("loop", "no state at address"),
        ("Ω", "there are 10 addresses, e.g. 'pre'"),
    ],
)
def test_an_unknown_address_raises_with_the_nearest_match(address: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        model(algoformer(heads=2))(prompt(), Unroll(steps=3, keep=("pre", address)))


def test_states_are_kept_only_on_request() -> None:
    assert not model(algoformer(heads=2))(prompt(), Unroll(steps=3)).states
