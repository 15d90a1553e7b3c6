import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from algoformer.cli import main
from algoformer.model.program import Program


def test_info_describes_a_run(tiny_run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    assert main(["info", str(tiny_run)]) == 0
    text = capsys.readouterr().out
    assert "loop  ⟲ 4 steps, inject add" in text
    assert re.search(r"^step +4$", text, flags=re.MULTILINE)


def test_programs_are_printed_drawn_and_written_as_json(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "nested.svg"
    assert main(["programs", "nested", "--svg", str(file)]) == 0
    assert "inner  ⟲ 4 steps" in capsys.readouterr().out
    assert ElementTree.parse(file).getroot().tag.endswith("svg")
    assert main(["programs", "nested", "--json"]) == 0
    assert "inner  ⟲ 4 steps" in str(Program.from_json(capsys.readouterr().out))


def test_tasks_are_listed_with_their_constants(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tasks"]) == 0
    text = capsys.readouterr().out
    assert "linear\n" in text
    assert "dim=20, points=41, noise=0.0" in text


def test_each_example_on_a_card_is_shown_on_a_line_with_its_answer(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["info", "tatoeba_de_en"]) == 0
    assert re.search(
        r"^example +Der Hund schläft\. → The dog is sleeping\.$", capsys.readouterr().out, re.MULTILINE
    )
    assert main(["info", "linear"]) == 0
    assert re.search(r"^5–95 % at T = 20 +5\.042e-06 to 5\.864e-06", capsys.readouterr().out, re.MULTILINE)
