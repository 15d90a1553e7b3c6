from dataclasses import replace
from html import unescape
from pathlib import Path

import pytest
import torch

from algoformer import AlgoFormer, Unroll, programs
from algoformer.checkpoint import Checkpoint, save_checkpoint
from algoformer.cli import main
from algoformer.cli.demo_page import _make_room
from algoformer.cli.demo_runs import plan
from algoformer.cli.demo_text import PROMPT, SAMPLING, one_line, text_lines, text_section, written_by_depth
from algoformer.common.files import write_json
from algoformer.data.prompts import PromptData
from algoformer.evaluation import evaluation_prompts
from algoformer.language.sampling import Writer
from algoformer.report import Page
from algoformer.report.page import render
from algoformer.shipped import load
from algoformer.tasks import Parity
from algoformer.training import load_checkpoint


def test_an_exported_model_is_half_as_large_and_keeps_its_card(
    tiny_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    whole, half = tmp_path / "whole.safetensors", tmp_path / "half.safetensors"
    options = ["--depths", "8", "--prompts", "16", "--no-certify"]
    assert main(["export", str(tiny_run), str(whole), "--no-half", *options]) == 0
    assert main(["export", str(tiny_run), str(half), *options]) == 0
    assert half.stat().st_size < whole.stat().st_size < (tiny_run / "checkpoint.safetensors").stat().st_size
    card = load_checkpoint(half).card
    assert card["step"] == 4
    assert card["command"].startswith("algoformer train ")
    assert set(card["error_by_depth"]) == {"4", "8"}
    assert card["error_by_sample"][-1] == pytest.approx(card["error_by_depth"]["4"])
    assert not load_checkpoint(half).state
    assert main(["export", str(tiny_run), str(whole)]) == 2
    assert "exists already" in capsys.readouterr().err


def test_the_card_of_a_puzzle_says_how_many_prompts_are_solved(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run, file = tmp_path / "run.safetensors", tmp_path / "board.safetensors"
    task, program = Parity(length=4), programs.looped(1, steps=3, heads=2)
    torch.manual_seed(0)
    model = AlgoFormer(program, dim=task.dim, out=task.out, context=task.context, width=8)
    save_checkpoint(run, Checkpoint(model=model, data=PromptData(task=task)))
    options = ["--depths", "5", "--prompts", "32", "--no-certify"]
    assert main(["export", str(run), str(file), *options]) == 0
    stored, prompt = load_checkpoint(file), evaluation_prompts(task, count=32)
    assert set(stored.card["solved_by_depth"]) == {"3", "5"}
    for depth, (share, low, high) in stored.card["solved_by_depth"].items():
        answers = stored.model(prompt, Unroll(steps=int(depth))).final.argmax(dim=-1)
        right = (answers == prompt.targets.argmax(dim=-1)).all(dim=1)
        assert share == pytest.approx(right.double().mean().item())
        assert 0 < low <= share <= high < 1
    capsys.readouterr()
    assert main(["info", str(file)]) == 0
    said = capsys.readouterr().out
    assert "solved at T = 5" in said
    assert "wrong answers at T = 5" in said


def test_a_place_that_cannot_be_written_is_refused_before_anything_is_measured_or_trained(
    tiny_run: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("algoformer.cli.export._export_prompts", None)
    monkeypatch.setattr("algoformer.cli.demo_page._train", None)
    (tmp_path / "file").touch()
    assert main(["export", str(tiny_run), str(tmp_path / "file" / "x.safetensors")]) == 2
    assert main(["demo", "--out", str(tmp_path / "file")]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 2
    assert said.count(str(tmp_path / "file")) == 2


def test_a_fresh_demo_removes_its_own_runs_and_nothing_else(tmp_path: Path) -> None:
    plans = plan(tmp_path)
    for planned in plans.values():
        write_json(planned.folder / "config.json", planned.experiment.to_data())
    other = tmp_path / "runs" / "weeks-of-work"
    write_json(other / "config.json", {})
    _make_room(plans, fresh=False)
    assert all(planned.folder.exists() for planned in plans.values())
    _make_room(plans, fresh=True)
    assert not any(planned.folder.exists() for planned in plans.values())
    assert (other / "config.json").exists()


def test_a_demo_of_another_version_says_how_to_go_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    planned = plan(tmp_path)["looped"]
    older = replace(planned.experiment, training=replace(planned.experiment.training, steps=7))
    write_json(planned.folder / "config.json", older.to_data())
    assert main(["demo", "--out", str(tmp_path)]) == 2
    assert "train anew with --fresh" in capsys.readouterr().err


def test_the_demo_shows_what_the_shipped_language_model_writes_after_each_depth() -> None:
    pytest.importorskip("tokenizers", reason="the extra `text` is not installed")
    pytest.importorskip("jinja2", reason="the extra `viz` is not installed")
    texts = written_by_depth()
    assert list(texts) == [1, 2, 4]
    wanted = PROMPT + Writer(load("books")).write(PROMPT, SAMPLING)
    assert texts[4].split() == wanted.split()
    assert len(set(texts.values())) == 3
    page = unescape(render(Page(title="demo", sections=(text_section(texts),))))
    assert all(text in page for text in texts.values())
    first = next(iter(text_lines(texts)))
    assert " ".join(first.split()) == f"books after 1 iteration: {texts[1]} …"


def test_a_text_of_the_demo_moves_no_cursor_and_runs_no_script() -> None:
    pytest.importorskip("jinja2", reason="the extra `viz` is not installed")
    text = one_line("a\n\n b\x1b[2J <script>broken()</script>")
    assert text == "a b\\x1b[2J <script>broken()</script>"
    page = render(Page(title="demo", sections=(text_section({1: text}),)))
    assert "<script" not in page
    assert "&lt;script&gt;broken()" in page


def test_a_demo_without_the_language_model_writes_no_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("algoformer.cli.demo_text.shipped_names", lambda: ["linear"])
    assert written_by_depth() == {}
