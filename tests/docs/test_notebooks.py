"""The notebooks run from top to bottom, say what is true, and are committed without outputs."""

import json
import re
from pathlib import Path

import pytest

from scripts.site.notebooks import Cell, cells_page, notebook_cells, run_cells, script_cells
from tests.docs.pages import ROOT

pytestmark = pytest.mark.docs
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))


def test_there_is_a_notebook_for_each_audience() -> None:
    assert [path.stem for path in NOTEBOOKS] == ["researcher", "student"]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_committed_without_outputs_and_its_links_lead_somewhere(path: Path) -> None:
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        assert not cell.get("outputs"), f"clear the outputs of {path.name}"
        assert cell.get("execution_count") is None
        for link in re.findall(r"\]\(([^)\s#]+)", "".join(cell["source"])):
            assert (path.parent / link).exists(), f"{path.name} links to {link}, which is not there"


def test_the_student_sees_a_theorem_equal_the_textbook_and_a_trained_loop_improve() -> None:
    outputs = run_cells(notebook_cells(ROOT / "notebooks" / "student.ipynb"))
    printed = "\n".join(output.printed for output in outputs)
    pairs = re.findall(r"iteration +\d+: transformer (\S+), textbook (\S+)", printed)
    assert len(pairs) == 6
    assert all(one == other for one, other in pairs)
    errors = re.findall(r"\d+e[+-]\d+", next(line for line in printed.splitlines() if "trained loop" in line))
    values = [float(error) for error in errors]
    assert values == sorted(values, reverse=True)
    assert values[-1] < 1e-3
    assert any("<svg" in drawing for output in outputs for drawing in output.drawings), "its diagram"
    assert "data:image/png" in outputs[-2].drawings[0]


def test_the_researcher_finds_the_known_algorithm_and_a_loop_that_recovers() -> None:
    printed = "\n".join(
        output.printed for output in run_cells(notebook_cells(ROOT / "notebooks" / "researcher.ipynb"))
    )
    assert "runs Newton from αS (α = 0.0625)" in printed
    line = next(line for line in printed.splitlines() if line.startswith("disturbed"))
    _, _, hit, *_, last = (float(error) for error in re.findall(r"\d+e[+-]\d+", line))
    assert last < hit / 10


def test_the_value_of_a_last_expression_is_shown_and_printing_is_kept() -> None:
    page = cells_page(
        [Cell("x = 2\nprint('two')\nx + 1", True)], run_cells([Cell("print('two')\n2 + 1", True)])
    )
    assert "two\n3\n" in page


def test_a_script_is_read_by_its_cells(tmp_path: Path) -> None:
    script = tmp_path / "example.py"
    script.write_text("# %% [markdown]\n# # Title\n#\n# Words.\n\n# %%\nprint(1)\n")
    assert script_cells(script) == [Cell("# Title\n\nWords.", False), Cell("print(1)", True)]
