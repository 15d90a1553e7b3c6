"""What the user is told when files cannot be where they were asked for."""

import errno
import os
from pathlib import Path

import pytest

from algoformer.cli import describe_failure
from algoformer.common.files import write_text


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
