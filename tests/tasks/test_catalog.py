import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass, fields
from importlib import metadata
from pathlib import Path
from typing import Any, Literal

import pytest

from algoformer.cli import main
from algoformer.common import names
from algoformer.common.plain_data import check_count
from algoformer.common.terminal import short
from algoformer.tasks import TASKS, LinearRegression, find, from_data, register, to_data
from algoformer.tasks.task import check_positive, check_spread
from algoformer.training import Experiment
from algoformer.training.presets import named_recipe

STORED = {"name": "linear", "dim": 3, "points": 5, "noise": 0.0}


@pytest.mark.parametrize("name", TASKS)
def test_every_task_survives_the_way_through_json(name: str) -> None:
    task = TASKS[name]()
    assert from_data(json.loads(json.dumps(to_data(task)))) == task


@pytest.mark.parametrize("name", TASKS)
def test_every_constant_is_stored(name: str) -> None:
    assert set(to_data(TASKS[name]())) == {"name"} | {field.name for field in fields(TASKS[name])}


def test_a_whole_number_is_taken_for_a_float() -> None:
    task = from_data(STORED | {"noise": 1})
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
        from_data(STORED | change)


def test_a_missing_field_is_refused_rather_than_guessed() -> None:
    with pytest.raises(ValueError, match="needs every field, missing: points, noise"):
        from_data({"name": "linear", "dim": 3})


def test_a_nameless_task_cannot_be_stored() -> None:
    @dataclass(frozen=True, kw_only=True)
    class Mine(LinearRegression):
        pass

    with pytest.raises(ValueError, match=r"Mine is not a registered task.*call tasks.register\(Mine\)"):
        to_data(Mine())


@dataclass(frozen=True, kw_only=True)
class Odd(LinearRegression):
    """A task with a field of every kind that can be stored."""

    sign: bool = False
    kind: str = "a"
    mode: Literal["low", "high"] = "low"
    widths: tuple[int, ...] = (1, 2)
    pair: tuple[float, str] = (0.5, "x")
    limit: float | None = None
    nested: tuple[tuple[int, int], ...] = ((1, 2), (3, 4))


@pytest.fixture
def registry() -> Iterator[dict[str, type]]:
    before = dict(TASKS)
    yield TASKS
    TASKS.clear()
    TASKS.update(before)


@pytest.mark.parametrize("limit", [None, 2.0])
def test_a_task_with_fields_of_every_kind_comes_back_from_json(
    registry: dict[str, type], limit: float | None
) -> None:
    register(Odd)
    task = Odd(sign=True, kind="b", mode="high", widths=(3,), pair=(1.0, "y"), limit=limit)
    data = json.loads(json.dumps(to_data(task)))
    assert data["name"] == "odd"
    assert from_data(data) == task


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"sign": 1}, "sign must be of type bool, got 1 of type int"),
        ({"kind": 3}, "kind must be of type str, got 3 of type int"),
        ({"mode": "middle"}, "mode must be one of low, high, got 'middle'"),
        ({"widths": 3}, r"widths must be of type tuple\[int, ...\], got 3"),
        ({"widths": [1, "2"]}, r"widths\[1\] must be of type int, got '2'"),
        ({"pair": [1.0]}, r"pair must be of type tuple\[float, str\], got \[1.0\]"),
        ({"limit": "x"}, r"limit must be of type float \| None, got 'x'"),
        ({"limit": True}, r"limit must be of type float \| None, got True"),
    ],
)
def test_a_field_of_another_type_is_refused(
    registry: dict[str, type], change: dict[str, Any], message: str
) -> None:
    register(Odd)
    with pytest.raises(ValueError, match=message):
        from_data(to_data(Odd()) | change)


def test_an_unregistered_task_in_a_file_is_refused_with_the_way_out(registry: dict[str, type]) -> None:
    register(Odd, name="mine")
    data = to_data(Odd())
    del registry["mine"]
    with pytest.raises(ValueError, match=r"unknown task 'mine'.*add your own with tasks\.register"):
        from_data(data)


def test_a_name_belongs_to_one_class(registry: dict[str, type]) -> None:
    with pytest.raises(ValueError, match="'linear' is registered already, it belongs to LinearRegression"):
        register(Odd, name="linear")
    assert register(Odd) is register(Odd) is registry["odd"]


def test_a_class_that_could_not_be_loaded_is_refused_when_it_is_registered(registry: dict[str, type]) -> None:
    @dataclass(frozen=True, kw_only=True)
    class Holding(LinearRegression):
        table: dict[str, int]

    with pytest.raises(ValueError, match=r"Holding.table has type dict\[str, int\], which cannot be stored"):
        register(Holding)
    with pytest.raises(ValueError, match="a task is a dataclass"):
        register(int)


SOURCE = """
from dataclasses import dataclass
from algoformer.tasks import LinearRegression

@dataclass(frozen=True, kw_only=True)
class Mine(LinearRegression):
    sign: bool = True
"""


@pytest.fixture
def importable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    (tmp_path / "a_module_of_tasks.py").write_text(SOURCE, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    yield "a_module_of_tasks"
    sys.modules.pop("a_module_of_tasks", None)


def test_a_task_is_found_by_its_import_path(registry: dict[str, type], importable: str) -> None:
    kind = find(f"{importable}:Mine")
    task = kind(dim=3, points=5)
    assert to_data(task)["name"] == f"{importable}:Mine"
    assert from_data(to_data(task)) == task


def test_a_file_never_decides_what_is_imported(registry: dict[str, type], importable: str) -> None:
    stored = {"name": f"{importable}:Mine", "dim": 3, "points": 5, "noise": 0.0, "sign": True}
    with pytest.raises(ValueError, match="unknown task"):
        from_data(stored)
    assert importable not in sys.modules


@pytest.mark.parametrize(
    "path", ["no_such_module_anywhere:Mine", "a_module_of_tasks:Other", "a_module_of_tasks:dataclass", ":"]
)
def test_an_import_path_that_leads_nowhere_is_refused(
    registry: dict[str, type], importable: str, path: str
) -> None:
    with pytest.raises(ValueError, match=r"cannot import the task|a task must be one"):
        find(path)


def test_an_installed_package_offers_tasks_by_entry_point(
    registry: dict[str, type], importable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    offered = metadata.EntryPoint(name="mine", value=f"{importable}:Mine", group="algoformer.tasks")
    monkeypatch.setattr(names, "entry_points", lambda group: [offered] if group == "algoformer.tasks" else [])
    stored = {"name": "mine", "dim": 3, "points": 5, "noise": 0.0, "sign": True}
    assert type(from_data(stored)).__name__ == "Mine"


def test_a_task_of_an_installed_package_is_named_on_the_command_line(
    registry: dict[str, type],
    importable: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    offered = metadata.EntryPoint(name="mine", value=f"{importable}:Mine", group="algoformer.tasks")
    monkeypatch.setattr(names, "entry_points", lambda group: [offered] if group == "algoformer.tasks" else [])
    assert type(Experiment(*named_recipe("mine", "looped")).task).__name__ == "Mine"
    del registry["mine"]  # offered again
    assert main(["tasks", "mine"]) == 0
    assert "sign=True" in capsys.readouterr().out


HUGE = 10**400


@pytest.mark.parametrize("name", TASKS)
@pytest.mark.parametrize("value", [HUGE, -HUGE, 10**39, 10**9, float("nan"), 1e308], ids=short)
def test_no_constant_is_accepted_that_cannot_be_drawn(name: str, value: float) -> None:
    plain = to_data(TASKS[name]())
    for field in plain:
        if field == "name" or (field == "phi_seed" and value == 10**9):
            continue
        if value == 10**9 and isinstance(plain[field], float):
            continue
        with pytest.raises(ValueError, match=field.removeprefix("phi_")) as caught:
            from_data(plain | {field: value})
        assert len(str(caught.value)) < 300


@pytest.mark.parametrize("check", [check_spread, check_positive, check_count])
def test_integers_too_large_for_a_float_are_refused_in_a_short_message(check: Any) -> None:
    with pytest.raises(ValueError, match="got an integer of about 400 digits"):
        check("noise", HUGE)
