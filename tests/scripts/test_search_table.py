"""The tables of loop programs: what is drawn, and what a stopped table goes on with."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("optuna")

from algoformer.common.files import read_json
from scripts import search_table
from scripts.search_table import BENCHMARKS, candidates, make_finals, make_table

TABLES = {"regression": "benchmark.json"}


@pytest.mark.parametrize("task", BENCHMARKS)
def test_programs_cost_the_same_and_the_hand_made_one_is_first(task: str) -> None:
    settings = BENCHMARKS[task].settings()
    found = list(islice(candidates(settings), 20))
    assert found[0].experiment.program == settings.experiment.program
    assert all(0.8 <= one.flops / settings.budget <= 1.2 for one in found)
    assert len({one.experiment.training.steps for one in found}) == 1


@pytest.mark.parametrize("task", TABLES)
def test_the_published_table_is_the_one_that_is_drawn(task: str) -> None:
    file = Path(__file__).parents[2] / "results" / "search" / TABLES[task]
    rows = read_json(file)["programs"]
    drawn = islice(candidates(BENCHMARKS[task].settings()), len(rows))
    for row, one in zip(rows, drawn, strict=True):
        assert row["params"] == one.point.params
        assert row["flops"] == one.flops


def test_a_stopped_table_goes_on_where_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search_table, "FINAL_SEEDS", (1,))
    chain = BENCHMARKS["chain"]
    tiny = replace(chain, programs=2, steps=9, final_steps=18, training={**chain.training, "batch_size": 2})
    file = tmp_path / "table.json"
    make_table(tiny, file)
    before = read_json(file)
    make_table(replace(tiny, programs=3), file)
    make_table(replace(tiny, programs=3), file)
    assert [part["from_program"] for part in read_json(file)["continued"]] == [2]
    rows: list[dict[str, Any]] = read_json(file)["programs"]
    assert rows[:2] == before["programs"]
    assert len(rows) == 3
    assert list(rows[2]["curve"]) == [str(step) for step in range(1, 10)]
    make_finals(tiny, file, tmp_path / "finals.json")
    runs = read_json(tmp_path / "finals.json")["runs"]
    assert runs[0]["program"] == 0
    assert {run["seed"] for run in runs} == {1}
    assert all(run["band"][0] <= run["error"] <= run["band"][1] for run in runs)
    make_finals(tiny, file, tmp_path / "finals.json")
    assert read_json(tmp_path / "finals.json")["runs"] == runs
