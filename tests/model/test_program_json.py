import contextlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from algoformer.model import Layers, Loop, Parallel, Program
from algoformer.model.program import to_data
from algoformer.model.read_program import from_data
from tests.random_programs import programs

ONE = Program(Layers(1, name="pre"), Loop(Parallel(Layers(1), Layers(2)), 3, name="loop"))
PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["part", "body", "steps", "branches", "count", "name", "x"]), inner)
    ),
    max_leaves=8,
)


@given(programs())
def test_a_program_is_read_back_as_it_was_written(program: Program) -> None:
    assert Program.from_json(program.to_json()) == program
    assert from_data(json.loads(json.dumps(to_data(program)))) == program


def test_fields_that_are_not_given_take_their_defaults() -> None:
    text = '[{"part": "loop", "steps": 3, "body": [{"part": "layers", "count": 1}]}]'
    assert Program.from_json(text) == Program(Loop(Layers(1), 3))


@given(PLAIN)
def test_whatever_else_is_in_the_file_is_refused_with_a_value_error(data: object) -> None:
    with pytest.raises(ValueError, match=r".+"):
        Program.from_json(json.dumps(data))


@given(st.text(max_size=30))
def test_text_that_is_not_json_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        Program.from_json(text)


@given(st.data())
def test_a_program_with_one_value_spoiled_is_a_program_or_refused(data: st.DataObject) -> None:
    parts = to_data(ONE)
    place = data.draw(st.sampled_from([parts[0], parts[1], parts[1]["body"][0]]))
    key = data.draw(st.sampled_from(sorted(place)))
    place[key] = data.draw(PLAIN)
    with contextlib.suppress(ValueError):
        program = Program.from_json(json.dumps(parts))
        assert Program.from_json(program.to_json()) == program


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[" * 100_000, "must be JSON"),
        ("{}", "list of parts, got dict"),
        ("[]", "at least one part"),
        ("null", "list of parts, got NoneType"),
        ("[[]]", "object with the key 'part', got list"),
        ('[{"count": 1}]', "one of layers, loop, twostates, parallel, got None"),
        ('[{"part": "block"}]', "one of layers, loop, twostates, parallel, got 'block'"),
        ('[{"part": []}]', r"got \[\]"),
        ('[{"part": {}}]', r"got \{\}"),
        ('[{"part": "layers"}]', "layers cannot be read"),
        ('[{"part": "layers", "count": 1, "depth": 2}]', "layers has no field 'depth'"),
        ('[{"part": "layers", "count": 1, "__class__": 2}]', "no field '__class__'"),
        ('[{"part": "layers", "count": 1e400}]', "count|cannot be read"),
        ('[{"part": "layers", "count": NaN}]', "count|cannot be read"),
        ('[{"part": "layers", "count": "12"}]', "count|cannot be read"),
        ('[{"part": "layers", "count": 1000000000000}]', "count must be at most 1000000"),
        ('[{"part": "layers", "count": ' + "9" * 10_000 + "}]", "must be JSON"),
        ('[{"part": "loop", "steps": 1}]', "loop cannot be read: 'body'"),
        ('[{"part": "loop", "body": [{"part": "layers", "count": 1}]}]', "steps"),
        ('[{"part": "loop", "steps": 1, "body": {"part": "layers"}}]', "list of parts, got dict"),
        ('[{"part": "parallel"}]', "parallel cannot be read: 'branches'"),
        ('[{"part": "parallel", "branches": 3}]', "parallel cannot be read"),
        ('[{"part": "parallel", "branches": "ab"}]', "list of parts, got str"),
        ('[{"part": "parallel", "branches": []}]', "at least two branches, got 0"),
    ],
)
def test_a_hostile_file_is_refused_in_one_line(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Program.from_json(text)


@pytest.mark.parametrize("deep", [60, 300])
def test_a_program_nested_beyond_reason_is_refused(deep: int) -> None:
    text = '[{"part": "layers", "count": 1}]'
    for _ in range(deep):
        text = '[{"part": "loop", "steps": 1, "body": ' + text + "}]"
    with pytest.raises(ValueError, match=r"nested more than 50 deep|must be JSON"):
        Program.from_json(text)
