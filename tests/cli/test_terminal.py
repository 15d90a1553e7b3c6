"""`translate` and `classify` where some of the streams are a terminal and others are not."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from algoformer.checkpoint import Checkpoint, save_checkpoint
from algoformer.data import LabelledData, TranslationData
from algoformer.language import TextClassifier, Tokenizer, TokenModel
from algoformer.model.presets import algoformer
from terminal import Terminal, next_line, started

pytest.importorskip("tokenizers", reason="the extra `text` is not installed")


@pytest.fixture(scope="module")
def classifier(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A classifier that has learned nothing."""
    program = algoformer(heads=2, steps=2, causal=False)
    model = TextClassifier(program, labels=("good", "bad"), vocabulary=260, context=32, width=8)
    path = tmp_path_factory.mktemp("terminal") / "classifier.safetensors"
    names = {"classes": ("good", "bad"), "digest": "made up"}
    data = LabelledData(corpus="small_topics", tokenizer=Tokenizer([]), max_length=32, **names)
    save_checkpoint(path, Checkpoint(model=model, data=data))
    return path


@pytest.fixture(scope="module")
def translator(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A translator that has learned nothing."""
    model = TokenModel(algoformer(heads=2, steps=2), vocabulary=260, context=32, width=8, prefix_lm=True)
    path = tmp_path_factory.mktemp("terminal") / "translator.safetensors"
    sizes = {"max_length": 15, "batch_tokens": 64, "pad_to_multiple_of": 1}
    data = TranslationData(corpus=("small_de_en",), tokenizer=Tokenizer([]), digest="made up", **sizes)
    save_checkpoint(path, Checkpoint(model=model, data=data))
    return path


@pytest.mark.parametrize("command", ["translate", "classify"])
def test_what_goes_into_a_file_arrives_there_while_a_terminal_shows_a_bar(
    command: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    model = request.getfixturevalue({"translate": "translator", "classify": "classifier"}[command])
    (tmp_path / "in.txt").write_text("one\n\ntwo\n")
    screen = Terminal()
    with (
        (tmp_path / "out.txt").open("wb") as out,
        started(command, str(model), str(tmp_path / "in.txt"), stdout=out, stderr=screen.theirs) as process,
    ):
        assert process.wait() == 0
    shown = screen.close()
    assert "3/3" in shown
    lines = (tmp_path / "out.txt").read_text().split("\n")
    assert len(lines) == 4
    assert (lines[1], lines[3]) == ("", "")
    if command == "classify":
        assert [line.count("\t") for line in lines] == [1, 0, 1, 0]
        assert "good" not in shown
        assert "bad" not in shown


@pytest.mark.parametrize("printed", ["on the terminal", "into a pipe"])
def test_nothing_is_drawn_over_what_is_typed(classifier: Path, printed: str) -> None:
    screen = Terminal()
    out = screen.theirs if printed == "on the terminal" else subprocess.PIPE
    with started(
        "classify", str(classifier), stdin=screen.theirs, stdout=out, stderr=screen.theirs
    ) as process:
        screen.type("a word\n")
        if printed == "into a pipe":
            assert "\t" in next_line(process)
        else:
            screen.wait_for("\t")
    assert "\x1b" not in screen.close()


def test_a_pipe_with_a_name_is_read_to_its_end(classifier: Path, tmp_path: Path) -> None:
    # its lines cannot be counted first: they would be gone
    with started(
        "classify", str(classifier), "/dev/stdin", stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        out, _ = process.communicate(b"one\ntwo\n")
    assert out.count(b"\t") == 2


@pytest.mark.parametrize("command", ["translate", "classify"])
def test_who_waits_for_an_answer_before_the_next_line_gets_it(
    command: str, request: pytest.FixtureRequest
) -> None:
    model = request.getfixturevalue({"translate": "translator", "classify": "classifier"}[command])
    with started(command, str(model), stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        for line in (b"one\n", b"\n", b"two\n"):
            process.stdin.write(line)
            process.stdin.flush()
            assert next_line(process).endswith("\n")
        rest, _ = process.communicate()
    assert rest == b""
    assert process.returncode == 0
