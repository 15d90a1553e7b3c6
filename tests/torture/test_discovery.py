"""New commands, kinds of data and file formats cannot be forgotten by the torture."""

import random
import signal
from pathlib import Path

import pytest

from algoformer.cli import COMMANDS
from algoformer.common import files, plain_data
from algoformer.common.plain_data import Stored
from algoformer.data import protocol, register_data
from torture.child import finish, limit_cpu, start
from torture.lines import Line, changed_line, lines, run_line
from torture.samples import data_files
from torture.sources import ELSEWHERE, Source, readers, uncovered
from torture.verdicts import (
    ACCEPTED,
    HANG,
    NONSENSE,
    REFUSED,
    TOO_MUCH,
    TRACEBACK,
    Mutant,
    NonsenseError,
    judge,
)


def _source(*reads: str) -> Source:
    return Source("a source", 1, reads, lambda rng: Mutant("", _refuses))


def test_a_reader_that_no_source_reads_is_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    """`test_short.py` finds no fault, so that every reader of today has a source."""
    known = [_source(*readers())]
    assert uncovered(known) == []

    def read_riddles(path: Path) -> None:
        """A reader of a new format."""

    read_riddles.__module__ = files.__name__
    monkeypatch.setattr(files, "read_riddles", read_riddles, raising=False)
    assert uncovered(known) == ["algoformer.common.files.read_riddles"]
    assert uncovered([*known, _source("algoformer.common.files.read_riddles")]) == []


def test_a_reader_that_a_class_inherits_needs_a_source_too(monkeypatch: pytest.MonkeyPatch) -> None:
    known = [_source(*readers())]

    class Riddle(Stored):
        """A new kind of result."""

    Riddle.__module__ = plain_data.__name__
    monkeypatch.setattr(plain_data, "Riddle", Riddle, raising=False)
    assert uncovered(known) == [f"{plain_data.__name__}.Riddle.{name}" for name in ("from_data", "from_json")]


def test_reasons_are_given_only_for_readers_that_there_are() -> None:
    assert set(ELSEWHERE) <= set(readers())


def test_every_command_has_a_line_with_its_options() -> None:
    found = {line.words[0]: line for line in lines({})}
    assert set(found) == set(COMMANDS)
    assert {"--lr", "--data.dim", "--model.loop.steps", "--out"} <= set(found["train"].flags)
    assert "--prompts" in found["evaluate"].flags


def test_a_line_that_lost_a_word_may_ask_for_more_work(tmp_path: Path) -> None:
    """`algoformer theory` verifies all theorems, `algoformer theory show newton` prints one."""
    line = Line(("theory", "show", "newton"), ("--json",))
    changed = [changed_line(random.Random(seed), line, tmp_path) for seed in range(3000)]
    bare = [one for one in changed if one.name == "algoformer theory"]
    assert bare
    assert all(one.more_work for one in bare)
    assert not all(one.more_work for one in changed)


def test_a_new_kind_of_data_needs_a_sample(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(protocol._KINDS, "riddles", None)
    del protocol._KINDS["riddles"]  # registered below, and removed after the test

    @register_data
    class Puzzles:
        name = "riddles"

    with pytest.raises(ValueError, match="write a valid file for data of the kind 'riddles'"):
        data_files(tmp_path)


def _endless() -> None:
    while True:
        pass


def _refuses() -> None:
    raise ValueError("no")


def _breaks() -> None:
    raise KeyError("x")


def _lies() -> None:
    raise NonsenseError("accepted, and wrong")


def _wastes() -> None:
    bytearray(4 * 2**30)


def test_every_verdict_can_be_reached(tmp_path: Path) -> None:
    """After a child was ended by a limit, the next mutants are judged all the same."""
    works = (_refuses, _breaks, _endless, _lies, _wastes, lambda: None)
    mutants = [Mutant(str(number), work, cpu=1) for number, work in enumerate(works)]
    found = [verdict for verdict, _ in judge(mutants, tmp_path / "log")]
    assert found == [REFUSED, TRACEBACK, HANG, NONSENSE, TOO_MUCH, ACCEPTED]


def test_a_child_ends_at_its_limit_of_cpu_time() -> None:
    def work() -> int:
        limit_cpu(0.2)
        _endless()
        return 0

    assert finish(start(work)).code == -signal.SIGXCPU


def test_a_refused_command_line_is_one_line(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)

    def work() -> int:
        with pytest.raises(ValueError, match=r"^algoformer train: unknown task 'nowhere'"):
            run_line(["train", "--data", "nowhere"], tmp_path)
        return 0

    assert finish(start(work)).code == 0
