"""The torture in a short form: the code of `make torture` with fewer kills, races and mutants."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def counts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The counts of a run of its own: children are forked, so PyTorch must have one thread from the start."""
    out = tmp_path_factory.mktemp("torture") / "counts.json"
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"}
    words = ["--kills", "8", "--groups", "2", "--races", "20", "--mutants", "300", "--seed", "7"]
    words += ["--out", str(out)]
    done = subprocess.run(
        [sys.executable, "-m", "torture", *words, "--out", str(out)],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert out.exists(), done.stderr[-2000:]
    counts: dict[str, Any] = json.loads(out.read_text())
    return counts | {"printed": done.stdout}


def test_the_summary_names_the_seed_and_the_commit(counts: dict[str, Any]) -> None:
    assert f"seed 7, commit {counts['commit']}, torch {counts['torch']}\n" in counts["printed"]


def test_killed_runs_end_with_the_weights_of_a_run_that_nobody_stopped(counts: dict[str, Any]) -> None:
    assert counts["kills"]["kills"] >= 8
    assert counts["kills"]["examples"] == []


def test_a_group_with_a_killed_process_ends_with_the_same_weights(counts: dict[str, Any]) -> None:
    assert counts["groups"]["kills"] == 2
    assert counts["groups"]["examples"] == []


def test_of_several_processes_exactly_one_enters_a_folder(counts: dict[str, Any]) -> None:
    assert counts["races"]["races"] == 20
    assert counts["races"]["examples"] == []


def test_changed_inputs_are_refused_in_one_line_or_accepted(counts: dict[str, Any]) -> None:
    found = counts["mutants"]
    assert found["mutants"] == 300
    assert found["accepted"] > 0
    assert found["refused"] > found["accepted"]
    assert found["examples"] == []
