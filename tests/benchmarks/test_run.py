import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from benchmarks import QUICK, SECTIONS, Setting, run_benchmark
from benchmarks.cases import experiment
from benchmarks.concurrent_runs import steps_per_second
from benchmarks.processes import Job, Worker
from benchmarks.setting import Row

CPU = Setting(device=torch.device("cpu"), size=QUICK, engines=("eager",), precisions=("fp32",))
JOB = Job(timed=experiment("looped_window", QUICK), engine="eager", device="cpu", block=2)


def test_every_row_is_on_the_disk_before_the_next_one_is_begun(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, told = tmp_path / "deep" / "rows.json", []

    def section(setting: Setting) -> Iterator[Row]:
        yield {"number": 1}
        assert json.loads(file.read_text())["sections"] == {"made up": [{"number": 1}]}
        assert not json.loads(file.read_text())["complete"]
        yield {"number": 2}

    monkeypatch.setitem(SECTIONS, "made up", section)
    found = run_benchmark(CPU, ("made up",), budget=60, file=file, tell=lambda *row: told.append(row))
    assert found == {"made up": [{"number": 1}, {"number": 2}]}
    assert told == [("made up", {"number": 1}), ("made up", {"number": 2})]
    record = json.loads(file.read_text())
    assert record["complete"]
    assert record["sections"] == found
    assert record["size"]["width"] == QUICK.width


def test_nothing_is_begun_when_the_time_is_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begun = []

    def section(setting: Setting) -> Iterator[Row]:
        begun.append(True)
        yield {}

    monkeypatch.setitem(SECTIONS, "made up", section)
    file = tmp_path / "rows.json"
    assert run_benchmark(CPU, ("made up",), budget=-1, file=file) == {}
    assert not begun
    assert not json.loads(file.read_text())["complete"]


def test_unknown_sections_are_refused() -> None:
    with pytest.raises(ValueError, match=r"sections are steps, .*, got 'speed'"):
        run_benchmark(CPU, ("speed",), budget=1)


def test_processes_run_at_once_and_each_tells_its_rate() -> None:
    rates = steps_per_second(JOB, 2, 0.2)
    assert len(rates) == 2
    assert all(rate > 0 for rate in rates)


def test_a_process_that_fails_says_why_and_one_that_dies_is_noticed() -> None:
    nowhere = Worker(Job(timed=JOB.timed, engine="eager", device="meta", block=1))
    with pytest.raises(RuntimeError, match="a process failed: RuntimeError: META"):
        nowhere.ready()
    nowhere.close()
    killed = Worker(JOB)
    assert killed.process.pid is not None
    os.kill(killed.process.pid, signal.SIGKILL)
    with pytest.raises(RuntimeError, match="ended with exit code -9"):
        killed.ready()
    killed.close()
