import copy
import dataclasses
import pickle

import pytest
from hypothesis import given

from algoformer.model import Layers, Loop, Parallel, Program, TwoStates
from algoformer.model.program import as_program, default_steps, has_loop, to_data, traced_part
from tests.random_programs import programs


@given(programs())
def test_a_program_is_a_value(program: Program) -> None:
    again = Program(*program.parts)
    assert again == program
    assert hash(again) == hash(program)
    assert copy.deepcopy(program) == program
    assert pickle.loads(pickle.dumps(program)) == program
    assert len(program) == len(list(program)) == len(program.parts)


def test_a_program_cannot_be_changed() -> None:
    program = Program(Loop(Layers(1), steps=2))
    loop = program.parts[0]
    for item, name in [(program, "parts"), (loop, "steps"), (Layers(1), "count"), (loop, "body")]:
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(item, name, 1)


def test_a_variant_is_made_by_replacing() -> None:
    loop = Loop(Layers(1), steps=2, inject="gate", name="solve")
    assert dataclasses.replace(loop, steps=9) == Loop(Layers(1), steps=9, inject="gate", name="solve")
    with pytest.raises(ValueError, match="steps"):
        dataclasses.replace(loop, steps=0)


def test_a_body_may_be_a_part_or_a_sequence_or_a_program() -> None:
    whole = Program(Layers(1), Layers(2))
    for body in ((Layers(1), Layers(2)), [Layers(1), Layers(2)], whole):
        assert as_program(body) == whole
    assert Loop(Layers(1), 3).body == Program(Layers(1))
    assert Parallel(Layers(1), [Layers(1), Layers(2)]).branches == (Program(Layers(1)), whole)


@given(programs())
def test_the_outline_names_every_part_once(program: Program) -> None:
    def lines(program: Program) -> int:
        return sum(1 + inner(part) for part in program)

    def inner(part: Layers | Loop | Parallel) -> int:
        if isinstance(part, Loop):
            return lines(part.body)
        return sum(1 + lines(branch) for branch in part.branches) if isinstance(part, Parallel) else 0

    outline = str(program)
    assert len(outline.splitlines()) == lines(program)
    assert all(part.name in outline for part in program)


def test_the_outline_shows_structure_and_what_differs_from_the_default() -> None:
    plain = Layers(2, heads=1, head_width=3, hidden=7, causal=False, norm=False, scaled=False)
    program = Program(
        Layers(0, name="start"),
        Loop(Parallel(plain, Loop(Layers(1, activation="relu", bias=False), 1, "none")), 4, name="solve"),
        Layers(1, positions=False, final_norm=False),
    )
    assert str(program).splitlines() == [
        "start  0 layers",
        "solve  ⟲ 4 steps, inject add",
        "  ∥ 2 branches, summed",
        "    branch 1",
        "      2 layers × 1 head, full attention, no norm, unscaled scores, heads 3 wide, hidden 7",
        "    branch 2",
        "      ⟲ 1 step, inject none",
        "        1 layer × 8 heads, no bias, relu",
        "       1 layer × 8 heads, no positions, no final norm",
    ]


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Layers(-1), "count must be at least 0, got -1"),
        (lambda: Layers(1_000_001), "count must be at most 1000000"),
        (lambda: Layers(1, heads=0), "heads must be at least 1"),
        (lambda: Layers(1, head_width=0), "head_width must be at least 1"),
        (lambda: Layers(1, hidden=0), "hidden must be at least 1"),
        (lambda: Layers(True), "count must be a whole number, got True"),
        (lambda: Layers(1.0), "count must be a whole number"),
        (lambda: Layers(1, causal=1), "causal must be true or false, got 1"),
        (
            lambda: Layers(1, activation="tanh"),
            "unknown activation 'tanh'; choose from gelu, .*activation",
        ),
        (lambda: Layers(1, norm_at="before"), "norm_at must be in, out or after, .* got 'before'"),
        (lambda: Layers(1, norm_eps=-1), "norm_eps must be a number of at least 0 and below 1, got -1"),
        (lambda: Layers(1, heads=8, kv_heads=3), "multiple of kv_heads, got heads=8 and kv_heads=3"),
        (lambda: Layers(1, qk_norm="rms"), "unknown qk_norm 'rms'.*; choose from none, head, full, plain"),
        (lambda: Layers(1, bias="q"), "bias must be true, false or 'qkv', got 'q'"),
        (lambda: Layers(1, gated="yes"), "gated must be true or false, got 'yes'"),
        (lambda: Loop(Layers(1), 2, damp=0), "damp must be a number above 0 and at most 1, got 0"),
        (lambda: Loop(Layers(1), 2, step_signal="learned"), "unknown step_signal 'learned'"),
        (lambda: Layers(0, positions=False, final_norm=False), "does nothing"),
        (lambda: Layers(1, name="a/b"), "letters and underscores, got 'a/b'"),
        (lambda: Layers(1, name="loop[1]"), "letters and underscores"),
        (lambda: Layers(1, name="_"), "letters and underscores"),
        (lambda: Layers(1, name="größe"), "ASCII letters"),
        (lambda: Layers(1, name="ﬁ"), "ASCII letters"),
        (lambda: Layers(1, name="class"), "cannot be named 'class', which is a word of Python"),
        (lambda: Layers(1, name="None"), "a word of Python"),
        (lambda: Layers(1, name="__init__"), "a word of Python"),
        (lambda: Layers(1, name="width"), "cannot be named 'width', which is a setting of the model"),
        (lambda: Loop(Layers(1, name="steps"), 2), "cannot be named 'steps', which is a setting of the loop"),
        (lambda: Loop(Layers(1, name="inject"), 2), "a setting of the loop"),
        (lambda: Layers(1, name="x/" * 10**5), "letters and underscores, got .{60}…$"),
        (lambda: Layers(1, norm="batch"), "unknown norm 'batch'; choose from layer, rms, .*register_norm"),
        (lambda: Layers(1, positions="alibi"), r"register_positions"),
        (
            lambda: Loop(Layers(1), 2, start="random"),
            "unknown start 'random'; choose from zeros, .*start",
        ),
        (
            lambda: Loop(Layers(1), 2, "none", start="zeros"),
            "start='zeros' a loop never sees.*use start=\"input\"",
        ),
        (
            lambda: TwoStates(Loop(Layers(1), 2), 2, "none", start="vector"),
            "a loop never sees its input; use",
        ),
        (lambda: Layers(1, name=None), "letters and underscores"),
        (lambda: Loop(Layers(1), 0), "steps must be at least 1"),
        (lambda: Loop(Layers(1), 2.5), "steps must be a whole number"),
        (
            lambda: Loop(Layers(1), 2, "multiply"),
            "unknown inject 'multiply'; choose from add, none, gate",
        ),
        (lambda: Loop(Layers(1), 2, name="a b"), "letters and underscores"),
        (lambda: Loop((), 2), "at least one part"),
        (lambda: Loop("layers", 2), "made of Layers, Loop and Parallel, got str"),
        (lambda: Parallel(Layers(1)), "at least two branches, got 1"),
        (lambda: Parallel(Layers(1), Layers(1), name="1"), "letters and underscores"),
        (lambda: Program(), "at least one part"),
        (lambda: Program(Program(Layers(1))), "got Program"),
        (lambda: Program(Layers(1, name="a"), Loop(Layers(1), 2, name="a")), "both named 'a'"),
    ],
)
@pytest.mark.usefixtures("as_a_user")
def test_a_program_that_makes_no_sense_is_refused(build: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        build()  # type: ignore[operator]


def test_names_repeat_freely_at_different_places() -> None:
    assert Program(Layers(1, name="a"), Loop(Layers(1, name="a"), 2, name="b"))
    assert Parallel(Layers(1, name="a"), Layers(1, name="a"))


def test_the_traced_part_is_the_last_with_a_loop_in_it() -> None:
    loop, plain = Loop(Layers(1), 7), Layers(1)
    hidden = Parallel(plain, (plain, Loop(Layers(1), 9)))
    assert traced_part(Program(plain)) is None
    assert traced_part(Program(loop, plain, loop, plain)) == 2
    assert traced_part(Program(loop, hidden)) == 1
    assert has_loop(loop)
    assert has_loop(hidden)
    assert not has_loop(plain)
    assert not has_loop(Parallel(plain, plain))
    assert default_steps(Program(plain)) == 1
    assert default_steps(Program(Loop(plain, 3), plain, loop)) == 7
    assert default_steps(Program(Parallel(loop, hidden))) == 9


def test_data_is_made_of_plain_values() -> None:
    data = to_data(Program(Loop(Layers(1), 2), Parallel(Layers(1), Layers(2))))
    assert data[0]["part"] == "loop"
    assert data[0]["body"][0]["count"] == 1
    assert [branch[0]["count"] for branch in data[1]["branches"]] == [1, 2]
