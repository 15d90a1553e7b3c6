import json
from pathlib import Path

import pytest

from benchmarks.command import main

QUICK = ["--quick", "--device", "cpu"]


def test_bench_times_us_beside_the_plain_step_and_keeps_the_rows(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "rows.json"
    cases = ["--cases", "looped_window", "standard"]
    assert main([*QUICK, "--sections", "steps", *cases, "--json", str(file)]) == 0
    record = json.loads(file.read_text())
    rows = record["sections"]["steps"]
    assert [(row["case"], row["step"]) for row in rows] == [
        ("looped_window", "plain"),
        ("looped_window", "eager"),
        ("standard", "plain"),
        ("standard", "eager"),
    ]
    for plain, ours in zip(rows[::2], rows[1::2], strict=True):
        assert plain["times_plain"] == 1
        assert ours["times_plain"] == pytest.approx(plain["ms"] / ours["ms"])
        assert ours["ms_fastest"] <= ours["ms"] <= ours["ms_slowest"]
    assert record["command"].startswith("python -m benchmarks --quick")
    out, progress = capsys.readouterr()
    assert "looped_window" in out
    assert progress.count("steps: case") == 4


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--sections", "step"], "unknown section 'step' (did you mean 'steps'?)"),
        (["--cases", "loop"], "unknown case 'loop'"),
        (["--engine", "graph"], "engine 'graph' needs a CUDA device"),
        (["--processes", "0"], "processes must be at least 1"),
        (["--budget", "0"], "budget must be positive"),
    ],
)
def test_what_cannot_be_measured_is_refused(
    options: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*QUICK, *options]) == 2
    assert message in capsys.readouterr().err
