"""`algoformer search`: options in, winner out."""

from __future__ import annotations

import json
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

pytest.importorskip("optuna")

from algoformer.cli import main
from algoformer.cli.search import HELP, SearchOptions
from algoformer.model.program import Program
from algoformer.search import SearchSpace
from algoformer.training import Experiment, load_experiment

TINY = [
    "--width", "8", "--model.pre.heads", "2", "--model.loop.heads", "2", "--model.post.heads", "2",
    "--model.loop.steps", "6", "--data.dim", "2", "--data.points", "4", "--window", "2", "--batch-size", "4",
    "--steps", "9", "--iterations.start", "2",
]  # fmt: skip
SPACE = SearchSpace(
    kind=("algoformer",), pre=(0, 1), loop=(1,), post=(1,), heads=(1, 2), width=(6, 8), inject=("add",),
    inner_steps=(2,), lr=(1e-3, 1e-2),
)  # fmt: skip


@pytest.fixture
def space(tmp_path: Path) -> str:
    path = tmp_path / "space.json"
    path.write_text(SPACE.to_json(), encoding="utf-8")
    return str(path)


def test_a_search_leaves_a_winner_that_trains(
    space: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "found"
    words = [
        "search",
        *TINY,
        "--space",
        space,
        "--out",
        str(out),
        "--rungs",
        "0",
        "--front",
        "--device",
        "cpu",
    ]
    assert main([*words, "--trials", "4"]) == 0
    printed = capsys.readouterr()
    assert "4 trained" in printed.out
    assert "hand-made 1+1+1: trial 0, rank" in printed.out
    assert "front of parameters and error" in printed.out
    assert "4 of 4: trial" in printed.err
    table = [line for line in printed.out.splitlines() if not line.startswith(("winner:", "train it:"))]
    assert max(map(len, table)) <= 80
    program = Program.from_json((out / "winner.json").read_text())
    winner = Experiment.from_data(json.loads((out / "winner-config.json").read_text()))
    assert winner.program == program
    trials = json.loads((out / "trials.json").read_text())
    errors = [one["error"] for one in trials["trials"] if one["error"] is not None]
    best = min((one for one in trials["trials"] if one["error"] is not None), key=lambda one: one["error"])
    assert len(errors) == 4
    assert load_experiment(out / "trials" / f"{best['number']:04d}") == winner
    assert trials["command"].startswith("algoformer search")
    for picture in ("winner", "importance", "front"):
        assert ElementTree.parse(out / f"{picture}.svg").getroot().tag.endswith("svg")
    assert sum(trials["importance"].values()) == pytest.approx(1)
    # the winner can be trained in both ways, and the same command has nothing left to do
    again = ["--steps", "2", "--log-every", "1", "--no-evaluate", "--device", "cpu"]
    config = ["--config", str(out / "winner-config.json"), "--validate-every", "1"]
    assert main(["train", *config, *again, "--out", str(tmp_path / "by-config")]) == 0
    assert load_experiment(tmp_path / "by-config").program == program
    named = ["--program", str(out / "winner.json"), "--width", str(winner.width), "--window", "2"]
    assert main(["train", *named, *again, "--out", str(tmp_path / "by-program")]) == 0
    assert load_experiment(tmp_path / "by-program").program == program
    before = (out / "trials.json").read_text()
    assert main([*words, "--trials", "4"]) == 0
    assert (out / "trials.json").read_text() == before


def test_a_dry_run_says_what_would_be_searched_and_writes_nothing(
    space: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "nothing"
    assert main(["search", *TINY, "--space", space, "--out", str(out), "--dry-run"]) == 0
    printed = capsys.readouterr().out
    assert "training     9 steps, compared after 1, 3" in printed
    assert "first trial  algoformer 1+1+1, width 8, 2 heads, add, lr 0.003, 1.00 of the budget" in printed
    assert "⟲ 6 steps" in printed
    assert not out.exists()


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (["--flops", "10"], "flops=10 is too small: the cheapest program of the space"),
        (["--flops", "-1"], "flops must be a positive number"),
        (["--trials", "0"], "trials must be at least 1"),
        (["--tolerance", "2"], "tolerance is a fraction"),
        (["--rungs", "7"], "do not fit into 9 steps"),
        (["--sampler", "grid"], "grid"),
        (["--space", "missing.json"], "missing.json does not exist"),
        (["--storage", "nosuch://me:secret@host/x"], "the storage nosuch://me:***@host/x cannot be opened"),
        (["--trails", "3"], "did you mean --trials?"),
    ],
)
def test_bad_input_is_one_line(
    wrong: list[str], message: str, space: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = wrong if "--space" in wrong else ["--space", space, *wrong]
    assert main(["search", *TINY, *words, "--out", str(tmp_path / "out")]) == 2
    said = capsys.readouterr().err
    assert said.startswith("algoformer search: ")
    assert said.count("\n") == 1
    assert message in said
    assert "secret" not in said


def test_a_wrong_space_file_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "space.json"
    path.write_text('{"widht": [8]}', encoding="utf-8")
    assert main(["search", *TINY, "--space", str(path)]) == 2
    assert "space.json is not a search space: SearchSpace has no field 'widht'" in capsys.readouterr().err


def test_another_space_in_the_same_folder_is_refused(
    space: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["search", *TINY, "--space", space, "--out", str(tmp_path / "out"), "--trials", "1"]
    assert main(words) == 0
    capsys.readouterr()
    assert main([*words, "--flops", "300000"]) == 2
    said = capsys.readouterr().err
    assert "the study 'search' searches something else (flops is" in said
    assert said.count("\n") == 1


def test_without_optuna_the_way_to_install_it_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "optuna", None)
    assert main(["search", *TINY, "--out", str(tmp_path / "out")]) == 1
    said = capsys.readouterr().err
    assert "needs the package 'optuna', which is not installed: pip install 'algoformer[search]'" in said
    assert said.count("\n") == 1


def test_an_interrupted_search_says_how_to_go_on(
    space: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(*arguments: object, **options: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("algoformer.search.search", stop, raising=False)
    words = ["search", *TINY, "--space", space, "--out", str(tmp_path / "out")]
    assert main([*words, "--storage", "postgresql://me:secret@host/x"]) == 130
    said = capsys.readouterr().err
    assert "interrupted; the same command continues: algoformer search" in said
    assert "secret" not in said


def test_the_short_help_names_only_options_that_exist() -> None:
    assert max(map(len, HELP.splitlines())) <= 80
    known = {f"--{name.replace('_', '-')}" for name in SearchOptions.__dataclass_fields__}
    known |= {"--steps", "--lr", "--help-all"}
    named = {word.strip("[,)") for line in HELP.splitlines() for word in line.split()}
    assert {word for word in named if word.startswith("--")} <= known
