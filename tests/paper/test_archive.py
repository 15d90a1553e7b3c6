import json
from dataclasses import replace
from pathlib import Path

import pytest

from made_up_results import constructed
from paper.archive import Archive
from paper.runs import RunSpec
from paper.summary import all_items

ITEMS = {item.name: item for item in all_items("short")}
RUN = ITEMS["representation/algoformer"]


def run_of(steps: int) -> RunSpec:
    assert isinstance(RUN, RunSpec)
    return RUN.with_steps(steps)


def test_a_result_is_found_by_what_was_run_and_not_by_its_name(tmp_path: Path) -> None:
    archive = Archive(tmp_path)
    path = archive.add(constructed(RUN))
    assert path == tmp_path / "representation" / "algoformer.json"
    renamed = replace(RUN, name="elsewhere/renamed")
    for now in (archive, Archive(tmp_path)):
        found = now.find(renamed)
        assert found is not None
        assert found.name == "representation/algoformer"
        assert now.find(ITEMS["representation/looped"]) is None


def test_other_steps_are_another_run_but_the_nearest_is_known(tmp_path: Path) -> None:
    archive = Archive(tmp_path)
    for steps in (1_000, 30_000):
        archive.add(constructed(run_of(steps)))
    assert archive.find(RUN) is None
    nearest = archive.nearest(RUN)
    assert nearest is not None
    assert nearest.steps == 30_000
    assert archive.by_name([RUN]) == {RUN.name: nearest}


def test_what_was_there_under_the_name_is_kept(tmp_path: Path) -> None:
    archive = Archive(tmp_path)
    first, second = constructed(run_of(1_000)), constructed(run_of(2_000))
    for result in (first, second, second):
        archive.add(result)
    names = sorted(path.name for path in (tmp_path / "representation").iterdir())
    assert names == [f"algoformer.{first.hash}.json", "algoformer.json"]
    again = Archive(tmp_path)
    assert {result.steps for result in again.results} == {1_000, 2_000}


def test_a_measurement_on_fewer_prompts_is_not_the_result(tmp_path: Path) -> None:
    archive = Archive(tmp_path)
    archive.add(constructed(replace(RUN, prompts=64)))
    assert archive.find(RUN) is None
    assert archive.nearest(RUN) is None


def test_other_files_are_left_alone_and_mangled_results_are_named(tmp_path: Path) -> None:
    (tmp_path / "theory.json").write_text("[1, 2]")
    (tmp_path / "folder.json").mkdir()
    good = constructed(RUN).to_data()
    (tmp_path / "bad.json").write_text(json.dumps(good | {"prompts": "all"}))
    archive = Archive(tmp_path)
    assert archive.results == []
    assert len(archive.refused) == 1
    assert "bad.json is no result of a run: prompts" in archive.refused[0]


@pytest.mark.parametrize("left", [b"{\n", b"", b'{"format": "\xff\xfe'], ids=["begun", "empty", "no text"])
def test_a_file_that_was_cut_off_is_named(tmp_path: Path, left: bytes) -> None:
    path = Archive(tmp_path).add(constructed(RUN))
    path.write_bytes(left)
    archive = Archive(tmp_path)
    assert archive.results == []
    assert len(archive.refused) == 1
    assert archive.refused[0].startswith(f"{path} is not readable as JSON: ")
    archive.add(constructed(RUN))
    assert len(Archive(tmp_path).results) == 1, "its place is free for a result"


def test_a_file_that_may_not_be_read_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = Archive(tmp_path).add(constructed(RUN))

    def refuse(*_: object, **__: object) -> str:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "open", refuse)
    assert Archive(tmp_path).refused == [f"{path} cannot be read: Permission denied"]


def test_an_empty_place_is_an_empty_archive(tmp_path: Path) -> None:
    assert Archive(tmp_path / "nowhere").results == []
