"""New commands, kinds of data and file formats cannot be forgotten by the torture."""

import signal
from pathlib import Path

import pytest

from algoformer.cli import COMMANDS
from algoformer.data import protocol, register_data
from torture import formats
from torture.child import finish, limit_cpu, start
from torture.lines import lines, run_line
from torture.samples import data_files
from torture.sources import readers
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

ELSEWHERE = {
    "algoformer.language.corpora.load.load_parallel": "reads the parallel files of a named corpus",
    "algoformer.language.corpora.load.load_labelled": "reads the tables of a named corpus",
    "algoformer.language.packing.unpack": "checked in tests/language/test_packing.py, bit by bit",
    "algoformer.evaluation.curve.read_numbers": "is a part of Curve.from_data",
    "algoformer.insight.trajectory.read_depths": "computes depths and reads no file",
    "algoformer.data.protocol.Data.from_header": "is the protocol of what the kinds of data do",
}
"""Readers without a source of their own, and why."""


def test_every_reader_of_the_library_has_a_source_of_mutants() -> None:
    source = "".join(path.read_text() for path in Path(formats.__file__).parent.glob("*.py"))
    named = {name for name in readers() if name.rpartition(".")[2] in source or name.split(".")[-2] in source}
    assert set(readers()) - named - set(ELSEWHERE) == set()


def test_a_source_reads_only_what_there_is() -> None:
    assert set(ELSEWHERE) <= set(readers())


def test_every_command_has_a_line_with_its_options() -> None:
    found = {line.words[0]: line for line in lines({})}
    assert set(found) == set(COMMANDS)
    assert {"--lr", "--data.dim", "--model.loop.steps", "--out"} <= set(found["train"].flags)
    assert "--prompts" in found["evaluate"].flags


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
