import json
from pathlib import Path

import pytest

from made_up_results import constructed
from paper.archive import Archive
from paper.command import main
from paper.runs import RunSpec
from paper.summary import all_items

ITEMS = {item.name: item for item in all_items("short")}


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """Results of figure 4: one is missing, one over other steps, and none is at a lower rate."""
    archive = Archive(tmp_path / "results")
    for name, item in ITEMS.items():
        left_out = name == "layers/standard-2" or name.endswith("-slow")
        if left_out or not name.startswith(("layers/", "heads/")):
            continue
        assert isinstance(item, RunSpec)
        archive.add(constructed(item.with_steps(7_000) if name == "layers/standard-4" else item))
    return tmp_path / "results"


def test_the_list_says_what_is_done_and_what_is_missing(
    results: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["fig4", "--scale", "short", "--results", str(results), "--list"]) == 0
    rows = {line.split()[0]: line for line in capsys.readouterr().out.splitlines() if "/" in line}
    assert " done " in rows["layers/standard-1"]
    assert " missing " in rows["layers/standard-2"]
    assert "has 7,000 steps" in rows["layers/standard-4"]


@pytest.mark.parametrize(
    "words",
    [
        ["fig4", "--results", "table1", "--list"],
        ["--results", "table1", "--list", "fig4"],
        ["--list", "fig4", "--folder", "table2", "--scale", "short"],
    ],
)
def test_a_folder_may_have_the_name_of_a_table(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*words]) == 0
    assert capsys.readouterr().out.startswith("fig4, scale ")


def test_a_table_may_be_named_after_its_options(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--results", "fig4", "--no-train", "--list", "table2"]) == 0
    assert capsys.readouterr().out.startswith("table2: classification")


def test_the_list_of_everything_has_a_row_for_each_figure(
    results: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["verdicts", "--scale", "short", "--results", str(results), "--list"]) == 0
    out = capsys.readouterr().out
    rows = [line.split() for line in out.splitlines() if " of " in line]
    assert [row[0] for row in rows] == ["fig2", "fig5", "fig3", "fig4", "depth", "fig2"]
    # one run is missing and those at a lower rate, one has other steps, one is a run of figure 3 too and
    # counted there
    assert rows[3][-3:] == ["12", "of", "25"]
    assert not (results / "README.md").exists(), "a list writes nothing"


def test_the_list_of_everything_is_of_the_steps_that_are_asked_for(
    results: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["verdicts", "--scale", "short", "--results", str(results), "--list"]
    assert main([*command, "--steps", "7000"]) == 0
    row = next(line for line in capsys.readouterr().out.splitlines() if " fig4 " in line)
    assert " 1 of " in row, "only one run has 7,000 steps"


def test_everything_that_can_be_reproduced_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    said = " ".join(capsys.readouterr().err.split())
    assert "fig2, fig5, fig3, fig4, depth, verdicts, table1, table2" in said


def test_a_run_that_was_begun_is_listed_with_its_steps(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = [
        "--only",
        "linear/algoformer-3-3",
        "--folder",
        str(tmp_path / "runs"),
        "--results",
        str(tmp_path),
    ]
    assert main(["fig5", *options, "--device", "cpu", "--max-minutes", "0.001"]) == 0
    assert "missing: linear/algoformer-3-3" in capsys.readouterr().out
    assert main(["fig5", *options, "--list"]) == 0
    row = next(line for line in capsys.readouterr().out.splitlines() if "algoformer-3-3" in line)
    assert " begun " in row
    assert "of 1,000" in row


def test_a_damaged_run_is_listed_as_such_with_the_folder_to_remove(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    places = ["--folder", str(tmp_path / "runs"), "--results", str(tmp_path)]
    command = ["fig5", "--only", "linear/algoformer-3-3", "--device", "cpu", *places]
    assert main([*command, "--max-minutes", "0.001"]) == 0
    (folder,) = (tmp_path / "runs").iterdir()
    (folder / "checkpoint.safetensors").write_text("damaged")
    capsys.readouterr()
    assert main([*command, "--list"]) == 0
    said = capsys.readouterr()
    row = next(line for line in said.out.splitlines() if " linear/algoformer-3-3 " in line)
    assert " damaged " in row
    assert f"Remove {folder} to begin the run anew" in said.err
    assert main(command) == 1
    assert f"Remove {folder} to begin the run anew" in capsys.readouterr().err


def test_what_is_there_is_drawn_without_training(results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fig4", "--scale", "short", "--results", str(results), "--no-train"]) == 0
    out = capsys.readouterr().out
    assert (results / "fig4.png").exists()
    assert "2,500" in (results / "fig4.svg").read_text()
    # what stands over other steps is drawn, and is not a result of this configuration
    *_, counted, other, missing = out.splitlines()
    assert counted == f"fig4: 13 of 26 results in {results}"
    assert other == "over other steps: layers/standard-4 (7,000)"
    assert missing.startswith("missing: layers/standard-2, layers/algoformer-1-slow, ")


def test_only_these_are_trained_measured_and_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    places = ["--folder", str(tmp_path / "runs"), "--results", str(tmp_path / "results")]
    command = [
        "fig5",
        "--only",
        "linear/algoformer-3-3",
        "--steps",
        "3",
        "--device",
        "cpu",
        *places,
    ]
    assert main(command) == 0
    written = [path.relative_to(tmp_path / "results") for path in (tmp_path / "results").rglob("*.json")]
    assert written == [Path("linear/algoformer-3-3.json")]
    data = json.loads((tmp_path / "results" / written[0]).read_text())
    assert data["provenance"]["command"].startswith("python -m paper fig5 --only linear/algoformer-3-3")
    assert data["provenance"]["steps"] == data["settings"]["experiment"]["training"]["steps"] == 3
    assert data["summary"]["iterations"] == 3
    before = (tmp_path / "results" / written[0]).stat().st_mtime_ns
    assert main(command) == 0
    assert (tmp_path / "results" / written[0]).stat().st_mtime_ns == before
    assert "1 of 1 results" in capsys.readouterr().out


def test_verdicts_are_printed_and_written(results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verdicts", "--scale", "short", "--results", str(results)]) == 0
    out = capsys.readouterr().out
    assert out.rstrip().endswith(str(results / "README.md"))
    assert "not decided" in out
    page = (results / "README.md").read_text()
    row = next(line for line in page.splitlines() if line.startswith("| 7 |"))
    assert "| not decided | error as a share of standard's with as many layers: so far" in row
    assert "4: 100% (trained over differing steps); not run: layers/standard-2" in row
    # regression with representation has a run of the same configuration in figure 4, over fewer steps
    assert page.count("| not run |") == 3 + 1, "and the head of the table that counts runs"


def test_a_mangled_result_is_left_out_with_a_word(results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = results / "layers" / "standard-1.json"
    file.write_text(file.read_text().replace('"prompts": 1280', '"prompts": "x"'))
    assert main(["fig4", "--scale", "short", "--results", str(results), "--list"]) == 0
    said = capsys.readouterr()
    assert "left out: " in said.err
    assert "standard-1.json is no result of a run" in said.err
    assert " missing " in next(line for line in said.out.splitlines() if "layers/standard-1 " in line)


@pytest.mark.parametrize("words", [["fig5", "--no-train"], ["verdicts"], ["table2", "--no-train"]])
def test_results_are_not_looked_for_in_a_folder_that_is_not_there(
    words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for place in ("mistyped", "a-file.txt"):
        (tmp_path / "a-file.txt").write_text("not results")
        assert main([*words, "--results", str(tmp_path / place)]) == 2
        said = capsys.readouterr()
        assert said.out == ""
        assert str(tmp_path / place) in said.err
        assert "--results" in said.err
    assert [path.name for path in tmp_path.iterdir()] == ["a-file.txt"], "nothing is made"


def test_textbook_methods_are_measured_into_results_that_are_there(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["fig5", "--only", "linear/newton", "--no-train", "--results", str(tmp_path)]
    assert main(words) == 0
    assert (tmp_path / "linear" / "newton.json").exists()
    assert "1 of 1 results" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["fig6"], "did you mean 'fig"),
        (["fig5", "--only", "linear/algofomer"], "did you mean 'linear/algoformer'"),
        (["fig5", "--steps", "0"], "steps must be at least 1, got 0"),
        (["fig5", "--workers", "0"], "workers must be at least 1, got 0"),
        (["fig5", "--max-minutes", "-1"], "max-minutes must be positive, got -1"),
        (["verdicts", "--workers", "-3", "--list"], "workers must be at least 1, got -3"),
        (["verdicts", "--only", "foo", "--list"], "leave out --only"),
        (["verdicts", "--no-train", "--max-minutes", "1"], "leave out --no-train, --max-minutes"),
        (["verdict"], "did you mean 'verdicts'"),
    ],
)
def test_wrong_options_are_refused_in_one_line(
    words: list[str], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*words]) == 2
    said = capsys.readouterr().err
    assert complaint in said
    assert said.count("\n") == 1
