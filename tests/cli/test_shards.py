"""A run whose checkpoint is in small files is used like any other."""

import json
from pathlib import Path

import pytest
import torch

from algoformer.cli import main
from algoformer.training import load_checkpoint
from tiny import TINY


@pytest.fixture
def cut_run(tmp_path: Path) -> Path:
    """A finished run of four steps, in files of 10 kB."""
    folder = tmp_path / "cut"
    options = [*TINY, "--training.steps", "4", "--shard-mb", "0.01", "--no-evaluate"]
    assert main(["train", *options, "--out", str(folder)]) == 0
    assert len(_shards(folder)) > 1
    return folder


def _shards(folder: Path) -> list[Path]:
    return sorted(folder.glob("checkpoint.*-of-*.safetensors"))


def test_a_cut_run_is_measured_described_and_exported_by_folder_and_by_file(
    cut_run: Path, tiny_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for number, path in enumerate([cut_run, cut_run / "checkpoint.safetensors"]):
        out = tmp_path / f"o{number}"
        assert main(["evaluate", str(path), str(tiny_run), "--prompts", "8", "--out", str(out)]) == 0
        one, other = json.loads((out / "evaluation.json").read_text())
        assert one["by_sample"]["error"] == other["by_sample"]["error"]
        capsys.readouterr()
        assert main(["info", str(path)]) == 0
        assert "step: 4\n" in capsys.readouterr().out
        file = tmp_path / f"{number}.safetensors"
        assert main(["export", str(path), str(file), "--depths", "4", "--prompts", "8"]) == 0
        exported, whole = (
            load_checkpoint(file).model,
            load_checkpoint(tiny_run / "checkpoint.safetensors").model,
        )
        for left, right in zip(exported.parameters(), whole.parameters(), strict=True):
            torch.testing.assert_close(left, right, rtol=0, atol=0)


def test_resuming_cuts_a_run_anew_or_makes_it_whole(cut_run: Path) -> None:
    before = _shards(cut_run)
    resume = ["train", "--resume", "--no-evaluate", "--out", str(cut_run)]
    assert main(resume) == 0
    assert _shards(cut_run) == before
    assert main([*resume, "--shard-mb", "0.008"]) == 0
    assert len(_shards(cut_run)) > len(before)
    assert main([*resume, "--shard-mb", "inf"]) == 0
    assert not _shards(cut_run)
    assert load_checkpoint(cut_run / "checkpoint.safetensors").card["step"] == 4


def test_a_shard_that_was_left_behind_is_named_in_one_line(
    cut_run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lost = _shards(cut_run)[-1]
    lost.unlink()
    capsys.readouterr()
    assert main(["info", str(cut_run)]) == 2
    message = capsys.readouterr().err
    assert message.count("\n") == 1
    assert f"{lost.name}, is missing; copy all files of the checkpoint" in message


@pytest.mark.parametrize("limit", ["0", "-3", "nan"])
def test_a_limit_that_is_none_is_refused_before_anything_is_written(
    limit: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["train", *TINY, "--shard-mb", limit, "--out", str(tmp_path / "run")]) == 2
    assert "shard_mb must be a positive number of MB" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()
