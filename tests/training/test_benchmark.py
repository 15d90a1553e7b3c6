import json
import runpy
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "step_time.py"


def test_the_benchmark_runs_anywhere_and_writes_what_it_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "deep" / "times.json"
    options = ["--quick", "--device", "cpu", "--cases", "looped_window", "standard", "--json", str(out)]
    monkeypatch.setattr(sys, "argv", [str(SCRIPT), *options])
    runpy.run_path(str(SCRIPT), run_name="__main__")
    record = json.loads(out.read_text())
    assert [(row["case"], row["engine"]) for row in record["rows"]] == [
        ("looped_window", "eager"),
        ("standard", "eager"),
    ]
    assert all(row["ms"] > 0 and row["share_of_peak"] > 0 for row in record["rows"])
    assert "looped_window" in capsys.readouterr().out
