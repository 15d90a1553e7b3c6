"""`python -m paper table1|table2` and `algoformer export` as a user types them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from algoformer.cli import main as algoformer
from algoformer.training import load_checkpoint
from made_up_scores import scored
from paper.archive import Archive
from paper.command import main
from paper.manager import RunManager, choose
from paper.runs import SMALL
from paper.text_archive import TextArchive
from paper.text_items import table_items

pytest.importorskip("tokenizers", reason="the extra `text` is not installed")


@pytest.fixture
def places(tmp_path: Path) -> list[str]:
    return ["--folder", str(tmp_path / "runs"), "--results", str(tmp_path / "results")]


def test_a_model_is_prepared_trained_scored_and_exported(
    tmp_path: Path, places: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    only = ["--only", "small_topics/looped", "--steps", "3", *places]
    assert main(["table2", *only, "--prepare"]) == 0
    (packed,) = (tmp_path / "runs").glob("*.packed")
    assert capsys.readouterr().out.startswith(f"{packed}: ")
    assert (tmp_path / "results" / "text" / "small_topics-floor.scores.json").exists()
    assert main(["table2", *only, "--list"]) == 0
    row = next(line for line in capsys.readouterr().out.splitlines() if "small_topics/looped" in line)
    assert "missing" in row
    assert "packed" in row
    assert main(["table2", *only, "--device", "cpu", "--max-minutes", "1e-9"]) == 0
    assert "missing: small_topics/looped" in capsys.readouterr().out
    assert main(["table2", *only, "--device", "cpu"]) == 0
    assert "missing" not in capsys.readouterr().out
    scores = json.loads((tmp_path / "results" / "text" / "small_topics-looped.scores.json").read_text())
    assert scores["steps"] == 3
    assert scores["training_tokens"] > 0
    assert scores["command"].startswith("python -m paper table2")
    assert main(["table2", "--steps", "30", *places, "--list"]) == 0
    rows = {line.split()[0]: line for line in capsys.readouterr().out.splitlines() if "small_topics/" in line}
    assert " missing " in rows["small_topics/looped"], "another number of steps is another run"
    page = (tmp_path / "results" / "table2.md").read_text()
    assert "| small_topics | naive Bayes |" in page
    assert "| small_topics | looped |" in page
    (run,) = (tmp_path / "runs").glob("small_topics-looped-*")
    file = tmp_path / "given.safetensors"
    export = ["export", str(run), str(file), "--device", "cpu"]
    assert algoformer(export) == 0
    card = load_checkpoint(file).card
    assert card["precision"] == "float16"
    assert card["measurements"][0]["rows"] == 600
    assert algoformer(["info", str(file)]) == 0
    assert "float16" in capsys.readouterr().out
    assert algoformer(export) == 2
    assert "exists already" in capsys.readouterr().err


@pytest.mark.usefixtures("other_news")
def test_a_file_with_another_checksum_is_said_in_a_line(
    tmp_path: Path, places: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    only = ["--only", "ag_news/looped", "--scale", "short", "--data", str(tmp_path)]
    assert main(["table2", *only, *places, "--prepare"]) == 0
    lines = [line for line in capsys.readouterr().err.splitlines() if "this library knows" in line]
    assert lines
    assert all(line.startswith(f"{tmp_path}/ag_news/") for line in lines)
    assert len(set(lines)) == len(lines), "each file once"


def test_what_there_is_nothing_of_is_left_out(
    tmp_path: Path, places: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "results").mkdir()
    assert main(["table2", "--no-train", *places]) == 0
    assert "needed" not in capsys.readouterr().out, "at this scale nothing was asked for"
    page = (tmp_path / "results" / "table2.md").read_text()
    assert [line for line in page.splitlines() if line.startswith("#")] == [
        "# table2: classification, whole test sets"
    ]


def test_the_small_scale_decides_nothing_and_says_so(
    tmp_path: Path, places: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    archive = TextArchive(folder=tmp_path / "runs", results=tmp_path / "results")
    for item in table_items("table1", "tiny"):
        scored(archive, item, *((91, 92) if item.program == "algoformer" else (81, 82)))
    assert main(["table1", "--no-train", *places]) == 0
    lines = capsys.readouterr().out.splitlines()
    claim = next(number for number, line in enumerate(lines) if line.startswith("The claim that"))
    assert lines[claim + 1] == SMALL


def test_a_damaged_run_is_listed_as_such_with_the_folder_to_remove(
    tmp_path: Path, places: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["table2", "--only", "small_topics/looped", "--steps", "3", *places]
    (item,) = choose(table_items("table2", "tiny", steps=3), ["small_topics/looped"])
    run = RunManager(folder=tmp_path / "runs", archive=Archive(tmp_path)).run_folder(item)
    run.mkdir(parents=True)
    (run / "checkpoint.safetensors").write_text("damaged")
    assert main([*command, "--list"]) == 0
    said = capsys.readouterr()
    assert " damaged " in next(line for line in said.out.splitlines() if " small_topics/looped " in line)
    assert f"Remove {run} to begin the run anew" in said.err
    assert main([*command, "--device", "cpu"]) == 1
    assert f"Remove {run} to begin the run anew" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["--only", "small_de_en/algofomer"], "did you mean 'small_de_en/algoformer'"),
        (["--steps", "0"], "steps must be at least 1, got 0"),
        (["--workers", "0"], "workers must be at least 1, got 0"),
        (["--max-minutes", "-1"], "max-minutes must be positive, got -1"),
        (["--scale", "short", "--prepare", "--data", "nowhere"], "nowhere"),
    ],
)
def test_wrong_options_are_refused_in_one_line(
    words: list[str], complaint: str, places: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["table1", *words, *places]) == 2
    said = capsys.readouterr().err
    assert complaint in said
    assert said.count("\n") == 1
