import json
from dataclasses import dataclass, fields
from typing import Any

import pytest

from algoformer.tasks import TASKS, LinearRegression, from_json, to_json

STORED = {"name": "linear", "dim": 3, "points": 5, "noise": 0.0}


@pytest.mark.parametrize("name", TASKS)
def test_every_task_survives_the_way_through_json(name: str) -> None:
    task = TASKS[name]()
    assert from_json(json.loads(json.dumps(to_json(task)))) == task


@pytest.mark.parametrize("name", TASKS)
def test_every_constant_is_stored(name: str) -> None:
    assert set(to_json(TASKS[name]())) == {"name"} | {field.name for field in fields(TASKS[name])}


def test_a_whole_number_is_taken_for_a_float() -> None:
    task = from_json(STORED | {"noise": 1})
    assert task == LinearRegression(dim=3, points=5, noise=1.0)
    assert isinstance(task.noise, float)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"name": "linaer"}, r"unknown task 'linaer' \(did you mean 'linear'\?\); choose from linear, "),
        ({"name": None}, "unknown task None"),
        ({"name": ["linear"]}, "unknown task"),
        ({"noize": 0.0}, r"no field 'noize' \(did you mean 'noise'\?\)"),
        ({"__class__": 1}, "no field '__class__'"),
        ({"dim": "3"}, "dim must be of type int, got '3' of type str"),
        ({"dim": 3.0}, "dim must be of type int, got 3.0"),
        ({"dim": True}, "dim must be of type int, got True of type bool"),
        ({"noise": False}, "noise must be of type float, got False"),
        ({"noise": None}, "noise must be of type float, got None"),
        ({"noise": float("inf")}, "noise is a standard deviation"),
        ({"dim": -1}, "dim must be at least 1, got -1"),
    ],
)
def test_anything_else_is_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        from_json(STORED | change)


def test_a_missing_field_is_refused_rather_than_guessed() -> None:
    with pytest.raises(ValueError, match="needs every field, missing: points, noise"):
        from_json({"name": "linear", "dim": 3})


def test_a_nameless_task_cannot_be_stored() -> None:
    @dataclass(frozen=True, kw_only=True)
    class Mine(LinearRegression):
        pass

    with pytest.raises(ValueError, match="can be stored, got Mine"):
        to_json(Mine())
