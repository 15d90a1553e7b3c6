"""What the user is told when files cannot be where they were asked for."""

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from algoformer import AlgoFormer, programs, tasks
from algoformer.cli import describe_failure, main
from algoformer.common.files import write_text
from algoformer.data import PromptData
from algoformer.training import Checkpoint, save_checkpoint


def test_python_names_the_file_and_so_does_the_line(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError) as caught:
        (tmp_path / "nowhere" / "x.txt").read_text()
    assert describe_failure(caught.value) == f"No such file or directory: {tmp_path}/nowhere/x.txt"


@pytest.mark.parametrize("place", ["x.json", "below/x.json"])
def test_a_file_where_a_folder_is_needed_is_named_in_words(tmp_path: Path, place: str) -> None:
    (tmp_path / "taken").write_text("a file")
    path = tmp_path / "taken" / place
    with pytest.raises(OSError, match="could not be written") as caught:
        write_text(path, "{}")
    said = describe_failure(caught.value)
    assert said.startswith(f"{path} could not be written (")
    assert said.endswith("); what was there before is intact")


@pytest.mark.parametrize("number", [errno.EACCES, errno.EROFS])
def test_what_may_not_be_written_is_said_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(number, os.strerror(number), "a temporary file")

    monkeypatch.setattr(os, "replace", refuse)
    with pytest.raises(OSError, match="could not be written") as caught:
        write_text(tmp_path / "x.json", "{}")
    said = describe_failure(caught.value)
    reason = os.strerror(number)
    assert said == f"{tmp_path}/x.json could not be written ({reason}); what was there before is intact"


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: 9 bytes"),
        RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB"),
    ],
)
def test_missing_memory_is_said_with_a_remedy(error: Exception) -> None:
    said = describe_failure(error)
    assert said == "not enough memory for these sizes; choose smaller ones, such as a smaller batch or width"


def stored(path: Path, card: dict[str, Any]) -> Path:
    model = AlgoFormer(programs.looped(heads=2, steps=2), dim=2, out=1, context=8, width=8)
    data = PromptData(tasks.LinearRegression(dim=2, points=4))
    save_checkpoint(path, Checkpoint(model=model, data=data, card=card))
    return path


def test_a_card_from_elsewhere_cannot_drive_the_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    card = {"command": "\x1b]0;pwned\x07", "task": "a\nb", "device": "\x1b[2J"}
    assert main(["info", str(stored(tmp_path / "m.safetensors", card))]) == 0
    assert not {"\x1b", "\x07"} & set("".join(capsys.readouterr()))


def test_a_card_of_any_depth_is_described(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    card: dict[str, Any] = {}
    for _ in range(900):
        card = {"initial": card}
    assert main(["info", str(stored(tmp_path / "m.safetensors", card))]) == 0
    assert "total" in capsys.readouterr().out


def test_a_name_that_is_too_long_is_refused_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["train", "--steps", "1", "--device", "cpu", "--out", str(tmp_path / ("a" * 300))]) == 2
    assert "File name too long" in capsys.readouterr().err.splitlines()[-1]


def test_a_drawing_does_not_replace_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "mine.svg"
    file.write_text("mine")
    assert main(["programs", "nested", "--svg", str(file)]) == 2
    assert "exists already" in capsys.readouterr().err
    assert file.read_text() == "mine"
