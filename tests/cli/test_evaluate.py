import json
import shutil
from pathlib import Path

import pytest

from algoformer.cli import main
from tiny import TINY


def test_runs_and_solvers_stand_in_one_table_and_one_picture(
    tiny_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = tmp_path / "other"
    shutil.copytree(tiny_run, other)
    out = tmp_path / "both"
    arguments = ["evaluate", str(tiny_run), str(other), "--against", "newton,gd", "--prompts", "32"]
    assert main([*arguments, "--out", str(out)]) == 0
    text = capsys.readouterr().out
    assert all(word in text for word in ("tiny", "other", "newton", "gd"))
    results = json.loads((out / "evaluation.json").read_text())
    assert [result["label"] for result in results] == ["tiny", "other", "newton", "gd"]
    assert results[0]["by_sample"]["error"] == results[1]["by_sample"]["error"]
    assert results[0]["provenance"]["command"].startswith("algoformer evaluate ")
    assert results[0]["provenance"]["commit"]
    drawing = (out / "error_by_sample.svg").read_text()
    assert all(word in drawing for word in ("tiny", "newton"))


def test_runs_of_one_name_are_told_apart(tiny_run: Path, tmp_path: Path) -> None:
    twin = tmp_path / "elsewhere" / "tiny"
    shutil.copytree(tiny_run, twin)
    assert main(["evaluate", str(tiny_run), str(twin), "--prompts", "8", "--out", str(tmp_path / "o")]) == 0
    labels = [result["label"] for result in json.loads((tmp_path / "o" / "evaluation.json").read_text())]
    assert labels == [str(tiny_run), str(twin)]


def test_runs_on_different_tasks_are_not_compared(
    tiny_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = tmp_path / "noisy"
    options = [*TINY, "--steps", "1", "--data.noise", "0.5", "--no-evaluate"]
    assert main(["train", *options, "--out", str(other)]) == 0
    capsys.readouterr()
    assert main(["evaluate", str(tiny_run), str(other)]) == 2
    assert "were trained on different tasks" in capsys.readouterr().err


@pytest.mark.parametrize(
    "content",
    [b"", b"\x80\x04N.", b"PK\x03\x04", b"{}", b"\xff" * 64],
    ids=["empty", "pickle", "zip", "json", "noise"],
)
def test_a_file_that_is_no_checkpoint_is_refused_in_one_line(
    content: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "model.safetensors"
    file.write_bytes(content)
    assert main(["evaluate", str(file)]) == 2
    message = capsys.readouterr().err
    assert message.count("\n") == 1
    assert "model.safetensors" in message


def test_a_checkpoint_that_was_cut_off_is_refused(tiny_run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tiny_run / "checkpoint.safetensors"
    file.write_bytes(file.read_bytes()[:-100])
    assert main(["evaluate", str(tiny_run)]) == 2
    assert "cut off" in capsys.readouterr().err


def test_more_iterations_than_in_training_are_measured(tiny_run: Path) -> None:
    assert main(["evaluate", str(tiny_run), "--iterations", "9", "--prompts", "8"]) == 0
    result = json.loads((tiny_run / "evaluation.json").read_text())[0]
    assert result["by_step"]["x"] == list(range(1, 10))


@pytest.mark.parametrize("against", ["", "gd"])
def test_fewer_iterations_than_in_training_are_measured(tiny_run: Path, against: str) -> None:
    arguments = ["evaluate", str(tiny_run), "--iterations", "1", "--prompts", "8"]
    assert main([*arguments, *(("--against", against) if against else ())]) == 0
    result = json.loads((tiny_run / "evaluation.json").read_text())[0]
    assert result["by_step"]["x"] == [1]
    assert (tiny_run / "report.html").exists()


def test_a_model_without_a_loop_runs_one_iteration(tiny_run: Path, tmp_path: Path) -> None:
    other, out = tmp_path / "standard", tmp_path / "both"
    options = ["--program", "standard", "--width", "8", "--model.layers.heads", "2"]
    options += ["--data.dim", "2", "--data.points", "4"]
    assert main(["train", *options, "--steps", "1", "--no-evaluate", "--out", str(other)]) == 0
    arguments = ["evaluate", str(tiny_run), str(other), "--iterations", "9", "--prompts", "8"]
    assert main([*arguments, "--out", str(out)]) == 0
    results = json.loads((out / "evaluation.json").read_text())
    assert [result["steps"] for result in results] == [9, 1]
