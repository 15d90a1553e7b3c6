import errno
import json
import os
import resource
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from algoformer.common import files
from algoformer.common.files import (
    append_line,
    check_input,
    read_bytes,
    read_json,
    remove_leftovers,
    write_atomically,
    write_json,
    write_tensors,
)
from algoformer.common.files import write_text as put


class Stop(Exception):
    pass


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "file.txt"
    put(path, "old")
    return path


def _only_old_is_there(path: Path) -> bool:
    return path.read_text() == "old" and [item.name for item in path.parent.iterdir()] == [path.name]


def test_a_file_is_written_with_the_folders_it_needs(tmp_path: Path) -> None:
    put(tmp_path / "a" / "b" / "c.txt", "é")
    assert (tmp_path / "a" / "b" / "c.txt").read_text(encoding="utf-8") == "é"
    assert len(list((tmp_path / "a" / "b").iterdir())) == 1


@pytest.mark.parametrize("written", ["", "half"])
def test_a_writer_that_fails_leaves_the_old_file(file: Path, written: str) -> None:
    def write(temporary: Path) -> None:
        temporary.write_text(written)
        raise Stop

    with pytest.raises(Stop):
        write_atomically(file, write)
    assert _only_old_is_there(file)


@pytest.mark.parametrize("stage", ["fsync", "replace"])
@pytest.mark.parametrize("failure", [OSError(errno.ENOSPC, "No space left on device"), KeyboardInterrupt()])
def test_a_failure_at_any_stage_leaves_the_old_file(
    file: Path, monkeypatch: pytest.MonkeyPatch, stage: str, failure: BaseException
) -> None:
    def fail(*arguments: Any) -> None:
        raise failure

    monkeypatch.setattr(os, stage, fail)
    with pytest.raises(type(failure)):
        put(file, "new")
    monkeypatch.undo()
    assert _only_old_is_there(file)


def test_an_error_that_a_foreign_writer_put_into_words_is_the_one_python_would_raise(file: Path) -> None:
    def write(temporary: Path) -> None:
        words = 'Error while serializing: I/O error: Permission denied (os error 13) at path "/x/.tmpHyaqqS"'
        raise OSError(errno.EIO, words)

    with pytest.raises(PermissionError) as caught:
        write_atomically(file, write)
    assert caught.value.strerror is not None
    assert caught.value.strerror.startswith(f"{file} could not be written (Permission denied); ")
    assert _only_old_is_there(file)


def test_tensors_that_cannot_be_written_are_named_as_the_user_named_them(tmp_path: Path) -> None:
    path = tmp_path / ("x" * 250)  # with what is added to it for a moment, the name is too long
    with pytest.raises(OSError, match=r"x{250} could not be written \(File name too long\)") as caught:
        write_tensors(path, {}, {"a": torch.zeros(2)})
    assert ".tmp" not in str(caught.value)
    assert caught.value.errno == errno.ENAMETOOLONG


def test_a_folder_that_cannot_be_synchronized_is_no_failure(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = os.fsync
    calls = []

    def only_files(handle: int) -> None:
        calls.append(handle)
        if len(calls) > 1:
            raise OSError(errno.EINVAL, "Invalid argument")
        original(handle)

    monkeypatch.setattr(os, "fsync", only_files)
    put(file, "new")
    assert file.read_text() == "new"
    assert len(calls) == 2


@pytest.fixture
def small_disk() -> Iterator[None]:
    """No file may grow beyond a kilobyte: what a full disk does to a writer."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1024, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.usefixtures("small_disk")
def test_a_full_disk_is_named_and_leaves_the_old_file(file: Path) -> None:
    with pytest.raises(OSError, match=r"file\.txt could not be written .*before is intact") as caught:
        put(file, "x" * 5000)
    assert caught.value.errno == errno.EFBIG
    assert _only_old_is_there(file)


@pytest.mark.usefixtures("small_disk")
def test_a_line_that_does_not_fit_keeps_the_lines_before(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    append_line(path, "first")
    with pytest.raises(OSError, match="lines could not be written"):
        append_line(path, "x" * 5000)
    assert path.read_text().splitlines()[0] == "first"


def test_json_comes_back_and_what_is_none_is_named(tmp_path: Path) -> None:
    path = tmp_path / "data.json"
    write_json(path, {"a": [1, 2.5, None]})
    assert read_json(path) == {"a": [1, 2.5, None]}
    with pytest.raises(ValueError, match=r"missing\.json does not exist"):
        read_json(tmp_path / "missing.json")
    for damaged in ("{", "[" * 100_000, json.dumps({"a": 1})[:-1]):
        path.write_text(damaged)
        with pytest.raises(ValueError, match=r"data\.json is not readable as JSON"):
            read_json(path)
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ValueError, match=r"data\.json is not readable as JSON"):
        read_json(path)


def test_only_our_own_leftovers_are_removed(tmp_path: Path) -> None:
    for name in (".config.json.123.part", ".checkpoint.safetensors.99999.part"):
        (tmp_path / name).write_text("")
    for name in ("notes.part", ".mine.part", ".hidden", "config.json"):
        (tmp_path / name).write_text("")
    remove_leftovers(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        ".hidden",
        ".mine.part",
        "config.json",
        "notes.part",
    ]


@pytest.mark.skipif(not Path("/proc/self/mem").exists(), reason="needs Linux")
def test_json_that_opens_and_cannot_be_read_is_named() -> None:
    with pytest.raises(ValueError, match="/proc/self/mem cannot be read: Input/output error"):
        read_json(Path("/proc/self/mem"))


def test_json_without_an_end_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pipe may give bytes for ever."""
    monkeypatch.setattr(files, "LARGEST_JSON", 1000)
    with pytest.raises(ValueError, match="larger than 1000 bytes"):
        files.read_json(_piped(tmp_path, b" " * 1001))
    (tmp_path / "small.json").write_text("[1]")
    assert files.read_json(tmp_path / "small.json") == [1]


@pytest.mark.parametrize("read", [read_bytes, read_json])
def test_a_device_is_refused_before_it_is_opened(read: Callable[[Path, str], object]) -> None:
    """Of /dev/zero a reader would fill the memory; /dev/null stands in for it here."""
    with pytest.raises(ValueError, match="--texts must name a file, got /dev/null, a device that may have"):
        read(Path("/dev/null"), "--texts")


def _piped(folder: Path, content: bytes) -> Path:
    folder.mkdir(exist_ok=True)
    path = folder / "pipe"
    os.mkfifo(path)
    threading.Thread(target=path.write_bytes, args=(content,), daemon=True).start()
    return path


def test_a_pipe_is_read_up_to_a_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "LARGEST_PIPE", 5)
    assert read_bytes(_piped(tmp_path / "fits", b"12345"), "--texts") == b"12345"
    with pytest.raises(ValueError, match=r"--texts must name a file, got .*, a pipe that gives more than 5"):
        read_bytes(_piped(tmp_path, b"123456"), "--texts")
    (tmp_path / "file").write_bytes(b"123456")
    assert read_bytes(tmp_path / "file", "--texts") == b"123456"  # a file is as long as it is


def test_a_pipe_is_refused_where_it_is_read_again(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    check_input(tmp_path / "pipe", "files")
    with pytest.raises(ValueError, match=r"files must name a file, got .*/pipe, a pipe, and its text is"):
        check_input(tmp_path / "pipe", "files", again=True)
    check_input(tmp_path / "missing", "files", again=True)  # whoever opens it says so
