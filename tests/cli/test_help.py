"""Help is short, quick and suggests what was meant."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import fields
from itertools import pairwise

import pytest

from algoformer.cli import COMMANDS, main
from algoformer.cli.choose import field_docs
from algoformer.cli.parse import nearest_flag
from algoformer.cli.train import HELP
from algoformer.tasks import TASKS, find

WITHOUT_TORCH = """
import sys

class NoTorch:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("torch", "optuna"):
            raise ImportError(f"{name} was imported")

sys.meta_path.insert(0, NoTorch())
from algoformer.cli import main
for command in sys.argv[1:]:
    assert main([command, "--help"]) == 0, command
"""


def test_help_of_every_command_needs_neither_pytorch_nor_optuna() -> None:
    script = [sys.executable, "-c", WITHOUT_TORCH, *COMMANDS]
    done = subprocess.run(script, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "usage" in done.stdout


def test_the_help_of_train_is_short_and_names_only_options_that_exist(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert len(HELP.splitlines()) <= 50
    assert max(map(len, HELP.splitlines())) <= 80
    assert main(["train", "--help-all"]) == 0
    everything = capsys.readouterr().out
    named = {word.strip(",") for line in HELP.splitlines() for word in line.split() if word.startswith("--")}
    for flag in named - {"--help-all", "--nproc-per-node", "--data.NAME", "--model.PART.NAME"}:
        assert flag.replace("--no-", "--") in everything.replace("--no-", "--"), flag


@pytest.mark.parametrize("name", COMMANDS)
def test_the_help_fits_a_terminal_of_80_columns(
    name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert main([name, "--help"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) <= 60
    assert not [line for line in lines if len(line) > 80]


def test_every_constant_of_a_task_is_explained() -> None:
    silent = [
        f"{name}.{field.name}"
        for name in TASKS.names()
        for field in fields(find(name))
        if not field_docs(find(name)).get(field.name)
    ]
    assert not silent, f"options without a help text: {silent}"


def test_help_texts_of_training_fill_their_lines(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert main(["train", "--help-all"]) == 0
    box = capsys.readouterr().out.partition("--steps INT")[2].partition("╰")[0]
    lines = [line.strip("│ ") for line in box.splitlines()[1:]]
    texts = [(one, other) for one, other in pairwise(lines) if not {one[:2], other[:2]} & {"--", ""}]
    assert len(texts) > 30
    short = [one for one, other in texts if len(one) + 1 + len(other.split()[0]) < 69]
    assert not short, f"lines that end too early: {short}"


COMPLETE = [
    "train --data linear --config nowhere.json --lr nan",
    "search --data linear --space nowhere.json",
    "evaluate nowhere --against newton --bogus",
    "export nowhere nowhere.safetensors",
    "translate nowhere nowhere.txt",
    "classify nowhere --classes",
    "generate nowhere --prompt word",
    "info nowhere",
    "info nowhere more",
    "identify nowhere",
    "certify nowhere --texts nowhere.txt",
    "theory newton --json rows.json",
    "theory show newton",
    "theory plot --out plots",
    "explore newton --text word",
    "tasks linear chain",
    "programs nested --svg nested.svg",
    "demo --out demo --fresh",
]


@pytest.mark.parametrize("line", COMPLETE)
@pytest.mark.parametrize("flag", ["--help", "-h"])
def test_help_is_printed_wherever_it_is_requested(
    line: str, flag: str, capsys: pytest.CaptureFixture[str]
) -> None:
    command, *words = line.split()
    subcommand = [words.pop(0)] if words[0] in ("show", "plot") else []
    assert main([command, *subcommand, "--help"]) == 0
    expected = capsys.readouterr().out
    for place in range(len(words) + 1):
        assert main([command, *subcommand, *words[:place], flag, *words[place:]]) == 0
        said = capsys.readouterr()
        assert said.out == expected
        assert not said.err


def test_all_options_of_info_are_listed_behind_a_model_too(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["info", "--help-all"]) == 0
    expected = capsys.readouterr().out
    assert main(["info", "linear", "--help-all"]) == 0
    assert capsys.readouterr().out == expected


FLAGS = ("--lr", "--batch-size", "--steps", "--out", "--seed", "--data", "--width", "--clip-norm")
PARTS = ("--model.loop.steps", "--model.loop.heads", "--model.loop.head-width", "--data.dim")


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("--learning-rate", "--lr"),
        ("--training.lr", "--lr"),
        ("--training.learning-rate=3", "--lr"),
        ("--batch", "--batch-size"),
        ("--batch_size", "--batch-size"),
        ("--training.steps", "--steps"),
        ("--epochs", "--steps"),
        ("--output", "--out"),
        ("--task", "--data"),
        ("--model.loop.head", "--model.loop.heads"),
        ("--loop.steps", "--model.loop.steps"),
        ("--dim", "--data.dim"),
        ("--sed", "--seed"),
        ("--zzz", None),
    ],
)
def test_a_near_miss_is_told_what_was_probably_meant(typed: str, meant: str | None) -> None:
    assert nearest_flag(typed, (*FLAGS, *PARTS)) == meant


def test_an_unknown_option_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", "--learning-rate", "3"]) == 2
    said = capsys.readouterr().err
    assert said == "algoformer train: unknown option --learning-rate; did you mean --lr? (see --help)\n"


@pytest.mark.parametrize("word", ["-V", "--version"])
def test_the_version_is_printed(word: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([word]) == 0
    assert capsys.readouterr().out.startswith("algoformer 0.")
