"""`text train`, `text pack`, `translate` and `classify` as a user types them."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from algoformer.cli import main
from algoformer.language import TextCheckpoint, Tokenizer, TokenModel, save_text_model
from algoformer.model.presets import algoformer

pytest.importorskip("tokenizers", reason="the extra `text` is not installed")

TINY = [
    "--kind", "classification", "--model.width", "8", "--text.vocabulary", "300", "--text.longest", "64",
    "--text.validate-every", "2", "--training.steps", "4", "--training.log-every", "2",
    "--training.checkpoint-every", "2",
]  # fmt: skip


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A classifier of four steps, trained from a packed file."""
    folder = tmp_path_factory.mktemp("text")
    assert main(["text", "pack", str(folder / "packed"), *TINY]) == 0
    words = ["--packed", str(folder / "packed"), "--out", str(folder / "run"), "--device", "cpu"]
    assert main(["text", "train", *TINY, *words]) == 0
    return folder / "run"


@pytest.fixture
def translator(tmp_path: Path) -> Path:
    """A translator that has learned nothing."""
    model = TokenModel(algoformer(heads=2, steps=2), vocabulary=260, context=32, width=8)
    path = tmp_path / "translator.safetensors"
    save_text_model(path, TextCheckpoint(model=model, tokenizer=Tokenizer([]).to_json()))
    return path


def typed(monkeypatch: pytest.MonkeyPatch, raw: bytes) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(raw)))


def test_a_run_leaves_scores_on_the_whole_test_set(run: Path) -> None:
    scores = json.loads((run / "scores.json").read_text())
    assert scores["measurements"][0]["rows"] == 600
    assert (run / "best.safetensors").exists()


def test_a_finished_run_can_be_resumed_only_as_it_was(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    packed = str(run.parent / "packed")
    again = ["text", "train", "--resume", "--out", str(run), "--packed", packed, "--device", "cpu"]
    assert main([*again, "--no-evaluate"]) == 0
    assert main([*again, "--training.steps", "9"]) == 2
    assert "leave out --training.steps" in capsys.readouterr().err


def test_lines_and_labels_are_as_many(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    raw = "a match\r\n\n \nein Wort ünd 🎉\n" + "long " * 4000 + "\nlast"
    (tmp_path / "texts").write_bytes(raw.encode())
    assert main(["classify", str(run), str(tmp_path / "texts"), "--device", "cpu"]) == 0
    from_file = capsys.readouterr()
    rows = from_file.out.split("\n")
    assert len(rows) == 7
    assert rows[-1] == ""
    assert [bool(row) for row in rows[:6]] == [True, False, False, True, True, True]
    assert "1 line was judged" in from_file.err
    for row in filter(None, rows):
        label, chance = row.split("\t")
        assert label in ("cooking", "sport", "music", "travel")
        assert 0.25 <= float(chance) <= 1
    typed(monkeypatch, raw.encode())
    assert main(["classify", str(run), "--device", "cpu", "--batch", "2"]) == 0
    assert capsys.readouterr().out == from_file.out


@pytest.mark.parametrize(
    "options", [["--beam", "1"], ["--beam", "2", "--policy", "last"], ["--early-exit", "0.1"]]
)
def test_lines_and_translations_are_as_many(
    translator: Path, options: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    typed(monkeypatch, "eins\n\nzwei drei vier fünf sechs sieben acht neun zehn\n\n\n".encode())
    assert main(["translate", str(translator), "--device", "cpu", *options]) == 0
    rows = capsys.readouterr().out.split("\n")
    assert len(rows) == 6
    assert rows[1] == rows[3] == rows[4] == ""


def test_lines_before_one_that_cannot_be_read_are_translated(
    translator: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    raw = "eins\n\nfünf\nsechs\n".encode("latin-1")
    typed(monkeypatch, raw)
    assert main(["translate", str(translator), "--beam", "1", "--device", "cpu"]) == 2
    said = capsys.readouterr()
    assert len(said.out.split("\n")) == 3
    assert "line 3 of standard input is not utf-8" in said.err
    typed(monkeypatch, raw)
    assert (
        main(["translate", str(translator), "--beam", "1", "--device", "cpu", "--encoding", "latin-1"]) == 0
    )
    assert len(capsys.readouterr().out.split("\n")) == 5


@pytest.mark.parametrize(("stream", "words"), [("stdin", "standard input"), ("stdout", "standard output")])
def test_a_closed_stream_is_named(
    translator: Path,
    stream: str,
    words: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    typed(monkeypatch, b"eins\n")
    monkeypatch.setattr(sys, stream, None)
    assert main(["translate", str(translator), "--device", "cpu"]) == 2
    assert f"{words} is closed" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["translate", "RUN"], "use classify"),
        (["classify", "TRANSLATOR"], "use translate"),
        (["translate", "nowhere"], "does not exist"),
        (["translate", "FOLDER"], "folder without a checkpoint"),
        (["classify", "RUN", "nowhere.txt"], "No such file"),
        (["classify", "RUN", "FOLDER"], "directory"),
        (["translate", "TRANSLATOR", "--beam", "0"], "beam must be at least 1"),
        (["translate", "TRANSLATOR", "--early-exit", "7"], "threshold"),
        (["classify", "RUN", "--encoding", "utf-99"], "not known"),
        (["classify", "RUN/config.json"], "not a checkpoint"),
        (["text", "learn"], "train and pack"),
        (["text", "pack", "--kind", "translation"], "file to write first"),
        (["text", "train", "--text.corpora", "nothing"], "unknown set of text"),
        (["text", "train", "--packed", "RUN/config.json"], "not packed text"),
        (["text", "train", "--program", "loopde"], "looped"),
        (["text", "train", "--resume", "--out", "FOLDER"], "no run to resume"),
        (
            ["text", "train", "--kind", "classification", "--text.corpora", "small_de_en"],
            "'small_de_en' is a set for translation: give --kind translation, or choose from ",
        ),
        (["text", "train", "--text.corpora", "ag_news"], "is a set for classification: give --kind"),
        (["text", "train", "--text.corpora", "zzz"], "unknown set of text 'zzz'; choose from small_de_en, "),
        (["text", "train", "--packed", "TRANSLATOR"], "it holds a model; give the file that text pack wrote"),
        (["text", "pack", "FOLDER"], "is a folder; name a file in it"),
        (["text", "pack", "TRANSLATOR"], "translator.safetensors exists already; choose another name"),
        (["text", "export", "RUN", "TRANSLATOR"], "exists already; choose another name"),
    ],
)
def test_what_cannot_be_done_is_said_in_one_line(
    words: list[str],
    complaint: str,
    run: Path,
    translator: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    typed(monkeypatch, b"a\n")
    empty = translator.parent / "empty"
    empty.mkdir()
    places: dict[str, Any] = {"RUN": run, "TRANSLATOR": translator, "FOLDER": empty}
    for name, place in places.items():
        words = [word.replace(name, str(place)) for word in words]
    assert main(words) == 2
    said = capsys.readouterr().err
    assert complaint in said
    assert "Traceback" not in said


@pytest.mark.parametrize(
    "words", [["translate", "FILE"], ["info", "FILE"], ["text", "train", "--packed", "FILE"]], ids=" ".join
)
def test_a_file_that_may_not_be_read_is_not_called_missing(
    words: list[str],
    translator: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    whole = Path.open

    def guarded(path: Path, *arguments: Any, **options: Any) -> Any:
        if path == translator:
            raise PermissionError(13, "Permission denied", str(path))
        return whole(path, *arguments, **options)

    monkeypatch.setattr(Path, "open", guarded)
    typed(monkeypatch, b"a\n")
    assert main([word.replace("FILE", str(translator)) for word in words]) == 2
    assert f"{translator} cannot be read: Permission denied" in capsys.readouterr().err


@pytest.mark.usefixtures("other_news")
def test_a_file_with_another_checksum_is_a_note_among_others(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = [*TINY, "--text.corpora", "ag_news", "--data", str(tmp_path)]
    assert main(["text", "pack", str(tmp_path / "packed"), *options]) == 0
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1
    assert lines[0].startswith(f"{tmp_path}/ag_news/classes.txt is not the file that this library knows")
    assert main(["text", "train", *options, "--out", str(tmp_path / "run"), "--device", "cpu"]) == 0
    said = capsys.readouterr().err
    assert said.count("is not the file that this library knows") == 1
    assert "UnknownFileWarning" not in said
