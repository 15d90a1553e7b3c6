import os
import subprocess
import sys
from pathlib import Path

import pytest

from algoformer.cli import COMMANDS, main, usage


@pytest.mark.parametrize("flag", ["-h", "--help", "--help-all"])
def test_help_names_every_command_and_exits_with_zero(flag: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([flag]) == 0
    text = capsys.readouterr().out
    assert all(name in text for name in COMMANDS)


def test_no_command_shows_the_help_but_is_a_wrong_call(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    assert capsys.readouterr().out.strip() == usage()


def test_an_unknown_command_names_the_nearest_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["evalute"]) == 2
    said = capsys.readouterr().err
    assert said.startswith("algoformer: unknown command 'evalute' (did you mean 'evaluate'?); choose from ")
    assert said.count("\n") == 1


@pytest.mark.parametrize("name", COMMANDS)
def test_each_command_explains_itself(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([name, "--help"]) == 0
    text = capsys.readouterr().out
    assert f"algoformer {name}" in text
    assert "example" in text.lower()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["train", "--data", "linaer"], ["unknown task 'linaer'", "did you mean 'linear'?"]),
        (["train", "--program", "loped"], ["unknown program 'loped'", "did you mean 'looped'?"]),
        (["train", "--window", "50"], ["window must lie in 1..6", "got 50"]),
        (["train", "--steps", "0"], ["steps must lie in 1..", "got 0"]),
        (["train", "--model.pre.heads", "5"], ["5 heads do not divide", "32"]),
        (["train", "--data.dim", "-3"], ["dim", "-3"]),
        (["train", "--model.loop.inject", "none"], ["inject='none'", "backprop='full'"]),
        (["train", "--config", "nowhere.json"], ["nowhere.json does not exist"]),
        (["train", "--resume", "--out", "nowhere"], ["nowhere holds no run to resume"]),
        (["evaluate", "nowhere"], ["'nowhere' is neither a file nor a shipped model"]),
        (["evaluate", "nowhere", "--against", "newtom"], ["unknown solver 'newtom'", "newton", "textbook"]),
        (["tasks", "chian"], ["unknown task 'chian'", "chain"]),
        (["programs", "nestd"], ["unknown program 'nestd'", "nested"]),
        (["programs", "--svg", "x.svg"], ["need the name of a program"]),
        (["train", "--model.lop.steps", "3"], ["--model.lop.steps", "did you mean --model.loop.steps?"]),
        (["train", "--model.loop.steps", "many"], ["--model.loop.steps", "many"]),
        (["evaluate"], ["needs a run folder, a checkpoint file or a shipped model"]),
        (["theory", "newtn"], ["unknown statement 'newtn'", "newton"]),
        (["theory", "show", "newtn"], ["unknown statement 'newtn'", "newton"]),
        (
            ["theory", "--json", "show", "--json", "shift:nan"],
            ["--json is given more than once", "give it once"],
        ),
        (["theory", "codes", "--json", "."], ["--json . is a folder", "name a file in it"]),
        (["theory", "codes", "--json=a.json", "--json", "b.json"], ["--json is given more than once"]),
        (["export", "nowhere", "x.safetensors"], ["'nowhere' is neither a file"]),
        (["info", "nowhere.safetensors"], ["nowhere.safetensors does not exist"]),
    ],
)
def test_bad_input_gets_one_clear_line_and_a_failing_exit(
    arguments: list[str],
    words: list[str],
    capsys: pytest.CaptureFixture[str],
    tmp_path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(arguments) == 2
    captured = capsys.readouterr()
    lines = [line for line in captured.err.splitlines() if line.startswith("algoformer ")]
    assert len(lines) == 1
    assert all(word in lines[0] for word in words), lines[0]
    assert not list(tmp_path.iterdir()), "a refused call must leave nothing behind"


def test_the_help_does_not_wait_for_torch() -> None:
    code = (
        "import sys; from algoformer.cli import main; main(['--help']); "
        "sys.exit(any(name in sys.modules for name in ('torch', 'rich', 'tyro')))"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=False).returncode == 0


def test_ctrl_c_while_torch_is_imported_is_quiet(tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text("raise KeyboardInterrupt\n")
    paths = os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])])
    done = subprocess.run(
        [sys.executable, "-m", "algoformer", "tasks"],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": paths},
    )
    assert done.returncode == 130
    assert done.stderr == "\nalgoformer tasks: interrupted; finished checkpoints and results are kept\n"


def test_a_reader_that_leaves_is_no_complaint() -> None:
    # the pipe has no reader any more when the help is printed
    ours, theirs = os.pipe()
    os.close(ours)
    done = subprocess.run(
        [sys.executable, "-m", "algoformer", "--help"], stdout=theirs, stderr=subprocess.PIPE, check=False
    )
    os.close(theirs)
    assert (done.returncode, done.stderr) == (1, b"")
