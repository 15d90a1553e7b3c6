import copy
import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from made_up_results import constructed
from paper.result import Result, read_result, write_result
from paper.summary import all_items

ITEMS = {item.name: item for item in all_items("short")}
RESULT = constructed(ITEMS["representation/algoformer"], 1e-3, growth=1.3)


@pytest.mark.parametrize(
    "name", ["representation/algoformer", "chain/standard", "linear/newton", "chain/oracle"]
)
def test_a_result_survives_storing(name: str, tmp_path: Path) -> None:
    result = constructed(ITEMS[name], 1e-3)
    write_result(tmp_path / "one.json", result)
    again = read_result(tmp_path / "one.json")
    assert again.hash == result.hash
    assert again.error == pytest.approx(result.error, rel=1e-6)
    write_result(tmp_path / "two.json", again)
    assert (tmp_path / "one.json").read_bytes() == (tmp_path / "two.json").read_bytes()


def test_it_is_small_enough_to_be_committed_by_the_hundred(tmp_path: Path) -> None:
    write_result(tmp_path / "one.json", RESULT)
    assert (tmp_path / "one.json").stat().st_size < 20_000


def test_the_numbers_that_one_looks_for_stand_in_front() -> None:
    summary = RESULT.to_data()["summary"]
    assert summary["error"] == pytest.approx(1e-3)
    assert (summary["samples"], summary["iterations"]) == (40, 20)
    assert summary["error at 200 / error at 20"] == pytest.approx(1.3)
    assert RESULT.growth(1000) == pytest.approx(1.3)
    assert constructed(ITEMS["chain/standard"]).growth(200) is None


def test_an_error_that_is_no_number_is_stored_as_such(tmp_path: Path) -> None:
    broken = constructed(ITEMS["representation/algoformer"], 1e-3)
    curve = replace(broken.main.by_step, error=(float("nan"),) * len(broken.main.by_step.x))
    broken = replace(broken, errors={"clean": replace(broken.main, by_step=curve)})
    write_result(tmp_path / "one.json", broken)
    json.loads((tmp_path / "one.json").read_text(), parse_constant=lambda word: pytest.fail(word))
    assert read_result(tmp_path / "one.json").main.by_step.broken == len(curve.x)


def test_errors_of_prompts_are_stored_and_older_files_have_none(tmp_path: Path) -> None:
    plain = constructed(ITEMS["linear/algoformer"])
    assert plain.main.by_prompt == ()
    result = replace(plain, errors={"clean": replace(plain.main, by_prompt=(0.123456789, math.inf))})
    write_result(tmp_path / "a.json", result)
    assert read_result(tmp_path / "a.json").main.by_prompt == (0.1235, math.inf)
    older = plain.to_data()
    del older["errors"]["clean"]["by_prompt"]
    assert Result.from_data(older).main.by_prompt == ()


def test_a_setting_that_did_not_exist_yet_has_its_default() -> None:
    data = json.loads(json.dumps(RESULT.to_data()))
    del data["settings"]["experiment"]["training"]["backprop"]
    default = Result.from_data(data)
    assert default.experiment is not None
    assert default.experiment.training.backprop == "window"
    assert default.hash != RESULT.hash


def spoiled(path: list[str], value: Any) -> Any:
    data = json.loads(json.dumps(RESULT.to_data()))
    place = data
    for key in path[:-1]:
        place = place[key]
    if value is KeyError:
        del place[path[-1]]
    else:
        place[path[-1]] = value
    return data


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (["format"], 2),
        (["format"], KeyError),
        (["name"], ""),
        (["name"], 3),
        (["against"], "noisy"),
        (["against"], "shown"),
        (["trained_depth"], 0),
        (["trained_depth"], True),
        (["trained_depth"], 19),
        (["prompts"], -1),
        (["prompts"], "many"),
        (["parameters"], 1.5),
        (["provenance"], []),
        (["provenance", "command"], {"nested": 1}),
        (["settings"], {}),
        (["settings"], {"experiment": {}}),
        (["settings", "experiment", "width"], 0),
        (["settings", "experiment", "training", "steps"], "all"),
        (["settings", "experiment", "training", "surprise"], 1),
        (["settings", "reference"], {}),
        (["errors"], {}),
        (["errors", "guess"], {}),
        (["errors", "clean", "by_step"], None),
        (["errors", "clean", "by_sample"], {}),
        (["errors", "clean", "by_sample", "-1"], {}),
        (["errors", "clean", "by_sample", "٣"], {}),
        (["errors", "clean", "by_step", "x"], [1, 1]),
        (["errors", "clean", "by_step", "error"], ["low"] * 45),
        (["errors", "clean", "deep"], RESULT.to_data()["errors"]["clean"]["by_sample"]["20"]),
        (["history"], {"loss": "falling"}),
        (["history"], {"loss": [True]}),
        (["extra"], 1),
    ],
)
def test_anything_else_is_refused(path: list[str], value: Any) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        Result.from_data(spoiled(path, value))


@pytest.mark.parametrize("text", ["", "[]", "null", "3", "{", "[" * 100_000, '{"format": 1e999}'])
def test_a_file_that_is_none_is_refused_with_its_name(text: str, tmp_path: Path) -> None:
    path = tmp_path / "what.json"
    path.write_text(text)
    with pytest.raises(ValueError, match=r"what\.json is no result of a run"):
        read_result(path)


def test_a_huge_file_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "huge.json"
    with path.open("wb") as file:
        file.truncate(1 << 30)
    with pytest.raises(ValueError, match="more than"):
        read_result(path)


def test_a_result_without_its_headline_is_none() -> None:
    with pytest.raises(ValueError, match="are missing"):
        replace(RESULT, against="shown")
    with pytest.raises(ValueError, match="nothing was measured at the trained depth 7"):
        replace(copy.deepcopy(RESULT), trained_depth=7)
