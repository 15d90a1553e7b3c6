"""Wrong command lines, typed on purpose: each gets one line that names the mistake, and exit status 2."""

from __future__ import annotations

from pathlib import Path

import pytest

from algoformer.cli import main

SMALL = ["--steps", "9", "--data.dim", "1", "--data.points", "4", "--width", "8"]

WRONG = [
    (["help", "nothing"], "unknown command 'nothing'"),
    (["train\x1b[31m"], "unknown command 'train\\x1b[31m' (did you mean 'train'?)"),
    (["train", "--out", "a\0b"], "an argument contains the character NUL"),
    (["train", "--data"], "--data needs a value"),
    (["train", "--data", ""], "unknown task ''"),
    (["train", "--scale", "huge"], "unknown scale 'huge'; choose from smoke, short, paper"),
    (["train", "--config", "FOLDER"], "Is a directory: FOLDER"),
    (
        ["train", "--config", "x.json"],
        "x.json is not the config of a run: an experiment has",
    ),
    (["train", "--config", "old/config.json"], "old/config.json is not the config of a run"),
    (["train", "--config", "text.txt"], "text.txt is not readable as JSON"),
    (["train", "--data", "text", "FOLDER"], "FOLDER holds no .txt or .md file"),
    (["train", "--resume", "--out", "old"], "old holds no readable run"),
    (["train", "--out", "text.txt"], "text.txt exists already"),
    (["train", "--max-minutes", "nan"], "max_minutes must be positive"),
    (["train", "--max-minutes", "soon"], "--max-minutes: a number is needed, got 'soon'"),
    (["train", "--lr", "nan"], "lr must be a positive number"),
    (["train", "--device", "gpu"], "invalid choice 'gpu'"),
    (["train", "--data-folder", "FOLDER"], "--data-folder is for named corpora of text"),
    # of /dev/zero a reader would fill the memory; /dev/null stands in for it here
    (["train", "--data", "labels", "/dev/null"], "files must name a file, got /dev/null, a device"),
    (["train", "--data", "text", "/dev/null"], "files must name a file, got /dev/null, a device"),
    (
        ["train", "--data", "text", "text.txt", "--data.tokenize", "/dev/null"],
        "tokenize must name a file, got /dev/null, a device",
    ),
    (
        ["train", "--data", "translation", "text.txt", "/dev/null"],
        "target must name a file, got /dev/null, a device",
    ),
    (["train", "--config", "/dev/null"], "--config must name a file, got /dev/null, a device"),
    (["train", "--program", "device.json"], "--program must name a file, got device.json, a device"),
    (["programs", "device.json"], "NAME must name a file, got device.json, a device"),
    (["search", *SMALL, "--space", "/dev/null"], "--space must name a file, got /dev/null, a device"),
    (["search", *SMALL, "--space", "FOLDER"], "Is a directory: FOLDER"),
    (["search", *SMALL, "--space", "text.txt"], "text.txt is not readable as JSON"),
    (["search", *SMALL, "--space", "x.json"], "x.json is not a search space: SearchSpace has no field 'a'"),
    (["search", *SMALL, "--flops", "1e30"], "flops=1e+30 is too large"),
    (["search", *SMALL, "--flops", "nan"], "flops must be a positive number"),
    (["train", "--data", "translatoin", "a", "b"], "'translatoin' (did you mean 'translation'?)"),
    (["train", "--program", "looped", "--program", "standard"], "--program is given twice; leave one"),
    (["train", "--data", "linear", "--data=chain"], "--data is given twice; leave one"),
    (["train", "--config", "x.json", "--program", "looped"], "--config stands in place of --program; leave"),
    (["info", "--scale", "paper", "--config", "x.json"], "--config stands in place of --scale; leave"),
    (["search", *SMALL, "--reduction", "1"], "reduction must be at least 2"),
    (["search", *SMALL, "--depth", "poisson:3"], "leave out depth of the training"),
    (["search", *SMALL, "--budget", "3"], "unknown option --budget; did you mean --flops?"),
    (["search", *SMALL, "--max-minutes", "-1"], "max_minutes must be positive"),
    (["search", *SMALL, "--storage", "FOLDER"], "Is a directory: FOLDER"),
    (["search", *SMALL, "--storage", "text.txt"], "text.txt is not the journal of a study"),
    (["search", *SMALL, "--out", "text.txt"], "text.txt exists and is not a folder"),
    (["search", *SMALL, "--scale", "huge"], "unknown scale 'huge'"),
    (["search", "more"], "unknown option more"),
    (["evaluate", "FOLDER"], "FOLDER/checkpoint.safetensors does not exist"),
    (["evaluate", "text.txt"], "text.txt is not a checkpoint"),
    (["evaluate", "linear", "--iterations", "1.5"], "--iterations: a whole number is needed, got '1.5' (see"),
    (["evaluate", "linear", "--data-folder", "FOLDER"], "--data-folder is for models of text"),
    (["evaluate", "linear", "--out", "text.txt"], "text.txt exists and is not a folder"),
    (["evaluate", "linear", "representation"], "were trained on different tasks"),
    (["export", "linear"], "FILE is missing: The file to write"),
    (["export", "linear", "FOLDER"], "FOLDER is a folder; name a file in it"),
    (["export", "linear", "m.safetensors", "--depths", "0"], "depths must be at least 1, got 0"),
    (["export", "dbpedia", "m.safetensors", "--depths", "9"], "--depths is for models that answer prompts"),
    (["export", "linear", "m.safetensors", "--examples", "a"], "--examples are for models of text"),
    (
        ["export", "dbpedia", "m.safetensors", "--no-certify"],
        "--no-certify is for models that answer prompts",
    ),
    (["export", "linear", "text.txt/m.safetensors"], "text.txt exists and is not a folder"),
    (["identify", "tatoeba_de_en"], "is a model of text"),
    (["identify", "linear", "--problem", "9"], "problem must lie in 0..0"),
    (["identify", "linear", "--by-layer"], "this model has a loop"),
    (["certify", "dbpedia", "--texts", "latin.txt"], "latin.txt is not UTF-8: byte 0xfc"),
    (["certify", "dbpedia", "--texts", "missing.txt"], "missing.txt cannot be read"),
    (["certify", "dbpedia", "--texts", "empty.txt"], "needs at least one text"),
    (["certify", "dbpedia", "--texts", "/dev/null"], "--texts must name a file, got /dev/null, a device"),
    (
        ["certify", "tatoeba_de_en", "--texts", "text.txt", "--references", "/dev/null"],
        "--references must name a file, got /dev/null, a device",
    ),
    (["certify", "linear", "--texts", "text.txt"], "--texts and --references are for models of text"),
    (["theory", "show"], "STATEMENT is missing"),
    (["theory", "copy", "--jason", "x"], "unknown option --jason; did you mean --json?"),
    (["explore", "text.txt"], "text.txt is not a checkpoint"),
    (["explore", "newton", "--text", "hello"], "text lines are shown for text models only"),
    (["explore", "linear", "--identification", "x.json"], "this is not an identification: "),
    (["explore", "linear", "--identification", "/dev/null"], "--identification must name a file, got /dev"),
    (["info", "--data", "labels"], "--data labels is text"),
    (["info", "--width", "30"], "4 heads do not divide a stream of width 30"),
    (["info", "linear", "--compare"], "info MODEL takes no further options"),
    (["programs", "x.json"], "a program is a list of parts"),
    (["programs", "nested", "--svg", "FOLDER"], "FOLDER is a folder; name a file in it"),
    (["demo", "--out", "text.txt"], "text.txt exists and is not a folder"),
    (["demo", "--fresh", "yes"], "unknown option yes"),
    (["tasks", "linear", "chain"], "unknown option chain"),
]


@pytest.mark.parametrize(("words", "complaint"), WRONG, ids=range(len(WRONG)))
def test_a_wrong_command_line_gets_one_line_and_changes_no_file(
    words: list[str],
    complaint: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, content in {
        "x.json": b'{"a": 1}',
        "text.txt": b"first line\nno line break at the end",
        "latin.txt": b"gr\xfcn\n",
        "empty.txt": b"",
        "old/config.json": b'{"task": "linear", "steps": 5}',
        "old/checkpoint.safetensors": b"nothing",
    }.items():
        Path(name).parent.mkdir(exist_ok=True)
        Path(name).write_bytes(content)
    Path("FOLDER").mkdir()
    Path("device.json").symlink_to("/dev/null")
    before = {path: path.read_bytes() for path in sorted(tmp_path.rglob("*")) if path.is_file()}
    assert main(words) == 2
    said = capsys.readouterr().err
    assert complaint in said
    assert said.startswith("algoformer")
    assert said.count("\n") == 1
    assert said.removesuffix("\n").isprintable()
    assert all(path.read_bytes() == content for path, content in before.items())
