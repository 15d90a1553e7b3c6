"""Training on one's own text files, `translate`, `classify` and `generate` as a user types them."""

from __future__ import annotations

import io
import json
import math
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from algoformer import load
from algoformer.checkpoint import BEST, LATEST, Checkpoint, load_checkpoint, save_checkpoint
from algoformer.cli import main
from algoformer.data import TranslationData
from algoformer.language import Tokenizer, TokenModel
from algoformer.model.presets import algoformer
from algoformer.training.export import answers

pytest.importorskip("tokenizers", reason="the extra `text` is not installed")

TINY = [
    "--width", "8", "--data.vocabulary", "300", "--steps", "4", "--log-every", "2", "--validate-every", "2",
    "--checkpoint-every", "2", "--device", "cpu",
]  # fmt: skip
CLASSES = ("cooking", "sport")


def write_reviews(folder: Path) -> Path:
    """Write a CSV file with 60 labelled texts."""
    rows = [f"{name},the {name} text number {number}" for number in range(30) for name in CLASSES]
    file = folder / "reviews.csv"
    file.write_text("label,text\n" + "\n".join(rows) + "\n")
    return file


def write_pairs(folder: Path) -> tuple[Path, Path]:
    """Write two parallel files with 60 lines each."""
    source, target = folder / "train.de", folder / "train.en"
    source.write_text("".join(f"das ist Satz Nummer {number}\n" for number in range(60)))
    target.write_text("".join(f"this is sentence number {number}\n" for number in range(60)))
    return source, target


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A classifier of four steps, trained on a CSV file."""
    folder = tmp_path_factory.mktemp("text")
    words = ["--data", "labels", str(write_reviews(folder)), "--data.max-length", "64"]
    assert main(["train", *words, *TINY, "--out", str(folder / "run")]) == 0
    return folder / "run"


@pytest.fixture(scope="module")
def writer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A language model of four steps, trained on a text file."""
    folder = tmp_path_factory.mktemp("language")
    (folder / "book.txt").write_text(
        "".join(f"Once upon a time there were {n} bears.\n\n" for n in range(300))
    )
    words = ["--data", "text", str(folder / "book.txt"), "--data.context", "16", "--batch-size", "4"]
    assert main(["train", *words, *TINY, "--out", str(folder / "run")]) == 0
    return folder / "run"


@pytest.fixture
def translator(tmp_path: Path) -> Path:
    """A translator that has learned nothing."""
    sizes = {"max_length": 15, "batch_tokens": 64, "pad_to_multiple_of": 1}
    data = TranslationData(corpus=("small_de_en",), tokenizer=Tokenizer([]), digest="made up", **sizes)
    model = TokenModel(algoformer(heads=2, steps=2), vocabulary=260, context=32, width=8, prefix_lm=True)
    path = tmp_path / "translator.safetensors"
    save_checkpoint(path, Checkpoint(model=model, data=data))
    return path


def typed(monkeypatch: pytest.MonkeyPatch, raw: bytes) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(raw)))


def test_a_run_leaves_scores_on_the_whole_test_set(run: Path) -> None:
    scores = json.loads((run / "scores.json").read_text())
    held_out = load(run).data.text.splits["test"]
    assert scores["measurements"][0]["rows"] == len(held_out) > 0
    assert (run / "best.safetensors").exists()


def test_two_parallel_files_train_a_translator(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, target = write_pairs(tmp_path)
    words = ["--data", "translation", str(source), str(target), "--data.max-length", "16", *TINY]
    assert main(["train", *words, "--out", str(tmp_path / "run")]) == 0
    assert "BLEU" in capsys.readouterr().out
    card = load(tmp_path / "run").card
    assert "train.de" in card["corpus"]
    assert "tatoeba" not in json.dumps(dict(card))


def test_a_language_model_is_scored_after_each_iteration(
    writer: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["evaluate", str(writer), "--device", "cpu"]) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert [row[0] for row in rows if row and row[0].isdigit()] == ["1", "2", "3"]


def test_the_last_weights_of_a_text_model_are_scored_if_asked_for(writer: Path, tmp_path: Path) -> None:
    shutil.copytree(writer, tmp_path / "run")
    best = load_checkpoint(writer / LATEST)
    for weight in best.model.parameters():
        weight.data.zero_()
    save_checkpoint(tmp_path / "run" / BEST, best)
    found = []
    for raw in ([], ["--raw"]):
        assert main(["evaluate", str(tmp_path / "run"), "--device", "cpu", *raw]) == 0
        scores = json.loads((tmp_path / "run" / "scores.json").read_text())["measurements"]
        found.append(scores["cross_entropy"][-1])
    assert found[0] == pytest.approx(math.log(len(best.data.known_tokenizer)), rel=1e-4)
    assert found[1] != pytest.approx(found[0], rel=1e-4)


def test_a_text_model_is_scored_under_a_stopping_rule(
    writer: Path, run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert (
        main(["evaluate", str(writer), "--stop", "shift:1", "--device", "cpu", "--out", str(tmp_path)]) == 0
    )
    scores = json.loads((tmp_path / "scores.json").read_text())["measurements"]
    assert len(scores["perplexity"]) == 1
    assert 2 <= scores["iterations"][0] < 3
    assert main(["evaluate", str(run), "--stop", "same:1", "--device", "cpu", "--out", str(tmp_path)]) == 0
    assert "Mean iterations of the loop: " in capsys.readouterr().out


def test_iterations_of_a_model_without_a_loop_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--data", "labels", str(write_reviews(tmp_path)), "--program", "standard", "--no-evaluate"]
    assert main(["train", *words, *TINY, "--out", str(tmp_path / "run")]) == 0
    assert main(["classify", str(tmp_path / "run"), str(tmp_path / "reviews.csv"), "--iterations", "5"]) == 2
    assert "--iterations 5: " in (said := capsys.readouterr().err)
    assert "has no loop to run; leave it out" in said
    assert main(["classify", str(tmp_path / "run"), str(tmp_path / "reviews.csv")]) == 0


def test_the_same_seed_writes_the_same_text(writer: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["generate", str(writer), "--prompt", "Once", "--max-new-tokens", "30", "--device", "cpu"]
    texts = []
    for seed in ("1", "1", "2"):
        assert main([*words, "--seed", seed]) == 0
        texts.append(capsys.readouterr().out)
    assert texts[0] == texts[1] != texts[2]
    assert texts[0].startswith("Once")


def test_a_prompt_with_control_characters_is_shown_escaped(
    writer: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["generate", str(writer), "--prompt", "Once\x1b[2J", "--max-new-tokens", "3", "--device", "cpu"]
    assert main(words) == 0
    assert capsys.readouterr().out.startswith("Once\\x1b[2J")


def test_prompts_come_from_a_file_too(
    writer: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["generate", str(writer), "--max-new-tokens", "9", "--temperature", "0", "--device", "cpu"]
    one_by_one = []
    for prompt in ("Once", "upon"):
        assert main([*words, "--prompt", prompt]) == 0
        one_by_one.append(capsys.readouterr().out)
    (tmp_path / "prompts").write_text("Once\nupon\n")
    assert main([*words, str(tmp_path / "prompts")]) == 0
    assert capsys.readouterr().out == "".join(one_by_one)


def test_a_finished_run_can_be_resumed_only_as_it_was(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    again = ["train", "--resume", "--out", str(run), "--device", "cpu"]
    assert main([*again, "--no-evaluate"]) == 0
    assert main([*again, "--steps", "9"]) == 2
    assert "leave out --steps" in capsys.readouterr().err


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
    assert "1 line was longer than" in from_file.err
    for row in filter(None, rows):
        label, chance = row.split("\t")
        assert label in CLASSES
        assert 0.5 <= float(chance) <= 1
    typed(monkeypatch, raw.encode())
    assert main(["classify", str(run), "--device", "cpu", "--batch-size", "2"]) == 0
    assert capsys.readouterr().out == from_file.out
    typed(monkeypatch, raw.encode())
    assert main(["classify", str(run), "--device", "cpu", "--stop", "shift:0"]) == 0  # never stops early
    assert capsys.readouterr().out == from_file.out


@pytest.mark.parametrize(
    "options",
    [
        ["--beam", "1"],
        ["--beam", "2", "--cache", "last"],
        ["--beam", "1", "--stop", "shift:0.1"],
        ["--beam", "3", "--stop", "shift:0.1"],
        ["--iterations", "3"],
    ],
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


@pytest.mark.parametrize("kind", ["run", "writer"])
def test_an_exported_model_of_text_keeps_examples_with_its_answers(
    kind: str, request: pytest.FixtureRequest, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "model.safetensors"
    words = ["export", str(request.getfixturevalue(kind)), str(file), "--device", "cpu"]
    assert main([*words, "--examples", "the sport text", "once"]) == 0
    assert ("accuracy" if kind == "run" else "perplexity") in capsys.readouterr().out
    stored = load_checkpoint(file)
    assert list(stored.card["examples"]) == ["the sport text", "once"]
    assert answers(stored, ["the sport text", "once"]) == list(stored.card["examples"].values())


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["translate", "RUN"], "use classify"),
        (["classify", "TRANSLATOR"], "use translate"),
        (["translate", "linear"], "a model that answers prompts of numbers; use evaluate"),
        (["classify", "linear"], "a model that answers prompts of numbers; use evaluate"),
        (["generate", "linear", "--prompt", "a"], "a model that answers prompts of numbers; use evaluate"),
        (["translate", "WRITER"], "use generate"),
        (["generate", "TRANSLATOR", "--prompt", "a"], "use translate"),
        (["generate", "RUN", "--prompt", "a"], "use classify"),
        (
            ["generate", "WRITER", "prompts.txt", "--prompt", "a"],
            "got both it and prompts.txt; leave one out",
        ),
        (["generate", "WRITER", "--prompt", "a", "--top-p", "0"], "top_p must lie in (0, 1]"),
        (["translate", "nowhere"], "neither a file nor a shipped model"),
        (["translate", "FOLDER"], "checkpoint.safetensors"),
        (["classify", "RUN", "nowhere.txt"], "No such file"),
        (["classify", "RUN", "FOLDER"], "directory"),
        (["translate", "TRANSLATOR", "--beam", "0"], "beam must be at least 1, got 0"),
        (["translate", "TRANSLATOR", "--beam", "9" * 20], "beam must be at most 1000000"),
        (["translate", "TRANSLATOR", "--iterations", "9" * 20], "steps must be at most 1000000"),
        (["classify", "RUN", "--batch-size", "9" * 20], "batch must be at most 1000000"),
        (["classify", "RUN", "--iterations", "9" * 20], "steps must be at most 1000000"),
        (["translate", "TRANSLATOR", "--stop", "shift:7"], "threshold"),
        (["translate", "TRANSLATOR", "--stop", "soon"], "unknown stopping rule 'soon'"),
        (["classify", "RUN", "--encoding", "utf-99"], "not known"),
        (["classify", "RUN/config.json"], "not a checkpoint"),
        (["evaluate", "RUN", "--against", "newton"], "--against is for models that answer prompts"),
        (["evaluate", "RUN", "--prompts", "9"], "--prompts is for models that answer prompts"),
        (["evaluate", "RUN", "--stop", "soon"], "unknown stopping rule 'soon'"),
        (["evaluate", "linear", "--stop", "same:1"], "--stop is for models of text"),
        (["train", "--data", "translation", "one.de"], "takes two files, the source and the target, got 1"),
        (["train", "--data", "text"], "files must name at least one text file or folder"),
        (["train", "--data", "text", "nowhere.txt"], "nowhere.txt"),
        (["train", "--data", "linear", "some.csv"], "is a task and takes no files"),
        (["train", "--data", "labels", "--data.corpus", "nothing"], "nothing"),
        (["train", "--data", "labels", "--program", "loopde"], "looped"),
        (
            ["train", "--data", "labels", "--batch-size", "3", "--out", "FOLDER/x"],
            "batch_size has no meaning",
        ),
        (["train", "--resume", "--out", "FOLDER"], "no run to resume"),
        (["export", "RUN", "TRANSLATOR"], "exists already; choose another name"),
    ],
)
def test_what_cannot_be_done_is_said_in_one_line(
    words: list[str],
    complaint: str,
    run: Path,
    writer: Path,
    translator: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    typed(monkeypatch, b"a\n")
    empty = translator.parent / "empty"
    empty.mkdir()
    places: dict[str, Any] = {"RUN": run, "WRITER": writer, "TRANSLATOR": translator, "FOLDER": empty}
    for name, place in places.items():
        words = [word.replace(name, str(place)) for word in words]
    assert main(words) == 2
    said = capsys.readouterr().err
    assert complaint in said
    assert "Traceback" not in said


@pytest.mark.parametrize(
    "words", [["translate", "FILE"], ["info", "FILE"], ["evaluate", "FILE"]], ids=" ".join
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
