import json
import runpy
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "decoding.py"


def test_the_benchmark_decodes_alike_with_and_without_a_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "deep" / "decoding.json"
    options = ["--quick", "--device", "cpu", "--programs", "algoformer", "--json", str(out)]
    monkeypatch.setattr(sys, "argv", [str(SCRIPT), *options])
    runpy.run_path(str(SCRIPT), run_name="__main__")
    rows = {row["decoder"]: row for row in json.loads(out.read_text())["rows"]}
    assert set(rows) == {"uncached", "last", "full"}
    assert rows["full"]["same_tokens"] == 1
    assert rows["full"]["cache_mebibytes"] > rows["last"]["cache_mebibytes"] > 0
    assert "tokens/s" in capsys.readouterr().out
