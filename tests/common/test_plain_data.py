"""Plain data from anywhere: types are checked, objects are objects."""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import pytest

from algoformer.common.plain_data import read_dataclass, read_object
from algoformer.model.program import Program


@dataclass(frozen=True)
class Inner:
    name: str


@dataclass(frozen=True)
class Outer:
    kind: Literal["a", "b"] = "a"
    count: int = 1
    share: float = 0.5
    pair: tuple[int, float] = (1, 2.0)
    many: tuple[str, ...] = ("x",)
    table: dict[str, tuple[float, ...]] | None = None
    inner: Inner | None = None
    rest: Any = None


@pytest.mark.parametrize(
    "change",
    [
        {"kind": "c"},
        {"count": 1.0},
        {"count": True},
        {"share": "0.5"},
        {"share": 10**400},
        {"pair": [1, 2.0, 3]},
        {"pair": {"0": 1, "1": 2.0}},
        {"many": ["x", 1]},
        {"table": {"x": ["y"]}},
        {"table": {1: [0.5]}},
        {"inner": {"name": 3}},
        {"inner": "x"},
    ],
)
def test_a_field_of_another_type_is_refused_with_its_name(change: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=rf"\.({next(iter(change))}|name).* (must be|is too large)"):
        read_dataclass(Outer, change)


def test_right_types_are_read() -> None:
    assert read_dataclass(Outer, {}) == Outer()
    given = {"kind": "b", "share": 1, "table": {"x": [0.5, 1, "inf"]}, "inner": {"name": "x"}, "rest": [1]}
    known = Outer(kind="b", share=1.0, table={"x": (0.5, 1.0, math.inf)}, inner=Inner("x"), rest=[1])
    assert read_dataclass(Outer, given) == known


@pytest.mark.parametrize("text", ["", "[]", "3", "{", "[" * 100_000, '"x"'])
def test_only_an_object_is_read_as_one(text: str) -> None:
    with pytest.raises(ValueError, match="JSON"):
        read_object(text)
    assert read_object('{"a": [1]}') == {"a": [1]}


@dataclass(frozen=True)
class Files:
    files: str | Sequence[str] = ()


@pytest.mark.parametrize("value", [3, None, {"a": 1}, [1]])
def test_a_sequence_of_another_kind_is_refused(value: object) -> None:
    with pytest.raises(ValueError, match=r"Files\.files must be"):
        read_dataclass(Files, {"files": value})
    assert read_dataclass(Files, {"files": ["a", "b"]}) == Files(files=("a", "b"))


@pytest.mark.usefixtures("as_a_user")
def test_a_message_about_a_long_value_is_short() -> None:
    with pytest.raises(ValueError, match=r"^.{0,300}$"):
        read_dataclass(Files, {"files": {"A" * 9000: 1}})
    for part in ({"heads": "A" * 9000}, {"rope_base": "A" * 9000}, {"qk_norm": "A" * 9000}, {"A" * 9000: 1}):
        with pytest.raises(ValueError, match=r"^.{0,600}$"):
            Program.from_json(json.dumps([{"part": "layers", "count": 1, **part}]))
