import json
import re
from pathlib import Path

import pytest
import torch

from algoformer import programs
from algoformer.cli import main
from algoformer.cli.explore import DESCRIPTION
from algoformer.cli.explore_theorems import THEOREMS
from algoformer.data.prompts import PromptData
from algoformer.insight import identify
from algoformer.language.classify import Classifier
from algoformer.language.translate import Decoding, Translator
from algoformer.model import AlgoFormer
from algoformer.model.program import default_steps
from algoformer.model.stopping import SameAnswer
from algoformer.problems import pairs
from algoformer.prompt import Prompt
from algoformer.report.explorer import pack
from algoformer.tasks import ChainOfThought, LinearRegression, RegressionWithRepresentation, Sudoku, Task
from algoformer.theory import check_alpha, check_converges
from algoformer.training import Checkpoint, load, save_checkpoint


def saved(path: Path, task: Task | None, **layer: object) -> Path:
    dim, out, context = (task.dim, task.out, task.context) if task else (1, 1, 6)
    model = AlgoFormer(
        programs.algoformer(heads=2, steps=3, **layer), dim=dim, out=out, context=context, width=8
    )
    data = None if task is None else PromptData(task)
    save_checkpoint(path, Checkpoint(model=model, data=data, card={"step": 7}))
    return path


def pack_of(page: Path) -> dict:
    found = re.search(r'id="model">(.*?)</script>', page.read_text(encoding="utf-8"), re.DOTALL)
    assert found is not None
    return json.loads(found[1])


def test_a_page_of_a_trained_model(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = saved(tmp_path / "m.safetensors", LinearRegression(dim=1, points=4))
    out = tmp_path / "new" / "page.html"
    assert main(["explore", str(file), "--out", str(out), "--prompts", "8"]) == 0
    said = capsys.readouterr().out
    assert "On 8 new prompts with 3 examples " in said
    assert f"page: {out}" in said
    shown = pack_of(out)
    assert shown["lead"] in said
    assert shown["pairs"] is True
    assert (shown["trained"], shown["depth"]) == (3, 15)
    assert "<dt>training steps</dt><dd>7</dd>" in out.read_text(encoding="utf-8")
    assert set(shown["rivals"]) == {"step_size", "alpha"}


@pytest.mark.parametrize("points", [1, 2, 3])
def test_a_page_of_very_short_prompts_in_one_dimension(points: int, tmp_path: Path) -> None:
    file, out = (
        saved(tmp_path / "m.safetensors", LinearRegression(dim=1, points=points)),
        tmp_path / "page.html",
    )
    assert main(["explore", str(file), "--out", str(out), "--prompts", "8"]) == 0
    rivals = pack_of(out)["rivals"]
    assert set(rivals) == ({"step_size", "alpha"} if points > 1 else set())
    assert all(0 < value < float("inf") for value in rivals.values())


def test_a_folder_with_a_dot_in_its_name_keeps_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("lr-0.003", "lr-0.001"):
        (tmp_path / name).mkdir()
        saved(tmp_path / name / "checkpoint.safetensors", LinearRegression(dim=2, points=4))
        assert main(["explore", name, "--prompts", "8"]) == 0
        assert f"{name}: linear regression" in (tmp_path / f"{name}.html").read_text(encoding="utf-8")
    capsys.readouterr()
    assert main(["certify", "lr-0.003", "--prompts", "8", "--reach", "2", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["setting"]["model"] == "lr-0.003"


def test_a_run_folder_works_as_well(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    saved(tmp_path / "run" / "checkpoint.safetensors", LinearRegression(dim=2, points=4))
    out = tmp_path / "page.html"
    assert main(["explore", str(tmp_path / "run"), "--out", str(out), "--prompts", "2"]) == 0
    assert "<h1>run: linear regression, 2 dimensions</h1>" in out.read_text(encoding="utf-8")
    assert pack_of(out)["rivals"] == {}


def test_features_of_a_representation_are_in_the_page(tmp_path: Path) -> None:
    task = RegressionWithRepresentation(dim=2, points=4)
    out = tmp_path / "page.html"
    file = saved(tmp_path / "m.safetensors", task)
    assert main(["explore", str(file), "--out", str(out), "--prompts", "2"]) == 0
    stored = pack_of(out)["representation"]
    inputs = torch.tensor([[0.5, -2.0]], dtype=torch.float64)
    expected = task.phi(inputs)
    for weight in stored["weights"]:
        inputs = torch.nn.functional.leaky_relu(
            inputs @ torch.tensor(weight, dtype=torch.float64), stored["slope"]
        )
    torch.testing.assert_close(inputs, expected)


def test_tasks_that_the_page_cannot_draw_bring_prompts(tmp_path: Path) -> None:
    out = tmp_path / "page.html"
    file = saved(tmp_path / "m.safetensors", ChainOfThought(dim=2, points=3, layers=2))
    assert main(["explore", str(file), "--out", str(out), "--prompts", "2"]) == 0
    shown = pack_of(out)
    assert shown["pairs"] is False
    assert len(shown["prompts"]) == 12
    assert len(shown["prompts"][0]["targets"]) == len(shown["prompts"][0]["reads"])


def test_a_page_of_a_sudoku_brings_boards_with_their_solutions(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "page.html"
    file = saved(tmp_path / "m.safetensors", Sudoku(size=4), causal=False)
    assert main(["explore", str(file), "--out", str(out), "--prompts", "4"]) == 0
    shown = pack_of(out)
    assert shown["puzzle"]["symbols"] == ["", "1", "2", "3", "4"]
    assert (shown["puzzle"]["grid"], shown["puzzle"]["block"]) == ([4, 4], 2)
    for board in shown["prompts"]:
        given = [
            (symbol, target)
            for symbol, target in zip(board["symbols"], board["targets"], strict=True)
            if symbol
        ]
        assert given and all(symbol == target + 1 for symbol, target in given)  # noqa: PT018
    assert "solves" in capsys.readouterr().out
    (tmp_path / "found.json").write_text('{"sentence": "runs nothing"}')
    chosen = ["--out", str(tmp_path / "b.html"), "--identification", str(tmp_path / "found.json")]
    assert main(["explore", str(file), *chosen]) == 2
    assert "an identification belongs to regression" in capsys.readouterr().err


@pytest.mark.theorem
@pytest.mark.parametrize("name", THEOREMS)
def test_each_theorem_page_agrees_with_its_textbook(name: str, tmp_path: Path) -> None:
    out = tmp_path / "page.html"
    assert main(["explore", name, "--out", str(out), "--prompts", "8"]) == 0
    shown = pack_of(out)
    assert shown["dtype"] == "float64"
    difference = re.search(r"largest difference from the textbook is (\S+)\.$", shown["lead"])
    assert difference is not None
    assert float(difference[1]) < 1e-6


@pytest.mark.theorem
@pytest.mark.parametrize("name", THEOREMS)
def test_theorem_pages_converge_for_all_points_in_the_picture(name: str) -> None:
    theorem = THEOREMS[name]
    task = theorem.task
    xs = torch.full((1, task.points, 1), 3.0, dtype=torch.float64)  # the largest that the picture shows
    problems = pairs(Prompt.of_pairs(xs, xs).prefix())
    if "alpha" in theorem.constants:
        check_alpha(theorem.constants["alpha"], problems)
    else:
        check_converges(theorem.constants["step_size"], problems)


def test_a_page_of_a_classifier_says_when_its_answers_stand(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "page.html"
    lines = ["The Danube is a river in Central Europe.", "She won the open twice."]
    assert main(["explore", "dbpedia", "--text", *lines, "--out", str(out)]) == 0
    firsts, lasts = (
        list(Classifier(load("dbpedia"), steps=steps).classify(lines)) for steps in (1, load_steps("dbpedia"))
    )
    same = sum(
        one is not None and two is not None and one.name == two.name
        for one, two in zip(firsts, lasts, strict=True)
    )
    assert (
        f"On {same} of 2 lines the class after one iteration is the class after all 4."
        in capsys.readouterr().out
    )
    shown = pack_of(out)
    assert shown["lines"] == lines
    assert shown["labels"] == list(load("dbpedia").model.labels)
    assert (shown["longest"], shown["spelling"]["only_words"]) == (128, True)


def load_steps(name: str) -> int:
    return default_steps(load(name).model.program)


def test_a_page_of_a_translator_says_how_early_tokens_leave_the_loop(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "page.html"
    line = "Wo ist der Bahnhof?"
    assert main(["explore", "tatoeba_de_en", "--text", line, "--out", str(out)]) == 0
    translator = Translator(load("tatoeba_de_en"), Decoding(beam=1, early_exit=SameAnswer()))
    assert list(translator.translate([line])) == ["Where is the station?"]
    said = capsys.readouterr().out
    assert f"it takes {translator.iterations:.1f} of 4 iterations on average; on 1 of 1 line the text" in said
    assert pack_of(out)["sizes"]["prefix_lm"] is True


def test_a_model_that_a_page_cannot_hold_or_run_is_refused_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = saved(tmp_path / "m.safetensors", LinearRegression(dim=1, points=3))
    monkeypatch.setattr(pack, "LARGEST_PAGE", 2**10)
    assert main(["explore", str(file), "--out", str(tmp_path / "a.html")]) == 2
    error = capsys.readouterr().err
    assert "of weights, more than" in error
    assert error.strip().endswith("measure this model with algoformer evaluate")
    assert main(["explore", "dbpedia", "--out", str(tmp_path / "a.html")]) == 2
    assert capsys.readouterr().err.strip().endswith("use this model with algoformer classify")
    monkeypatch.undo()
    words = pack.known_words()
    words["layers"]["activation"].remove("gelu")
    monkeypatch.setattr(pack, "known_words", lambda: words)
    assert main(["explore", str(file), "--out", str(tmp_path / "a.html")]) == 2
    error = capsys.readouterr().err.strip()
    assert "the page cannot run activation='gelu' of layers, only gelu_exact" in error
    assert "\n" not in error
    assert not (tmp_path / "a.html").exists()


def test_the_help_names_every_theorem() -> None:
    assert all(name in DESCRIPTION for name in THEOREMS)


def test_an_identification_is_shown(tmp_path: Path) -> None:
    found = tmp_path / "found.json"
    found.write_text(json.dumps({"sentence": "runs Newton's method"}))
    out = tmp_path / "page.html"
    assert main(["explore", "newton", "--out", str(out), "--identification", str(found)]) == 0
    assert pack_of(out)["identification"]["verdict"] == "runs Newton's method"


def test_a_file_of_identify_is_shown_with_its_own_sentence(tmp_path: Path) -> None:
    theorem = THEOREMS["newton"]
    found = identify(theorem.build()[0], theorem.task, steps=3, prompts=24)
    file, out = tmp_path / "identification.json", tmp_path / "page.html"
    file.write_text(found.to_json())
    assert main(["explore", "newton", "--out", str(out), "--identification", str(file)]) == 0
    shown = pack_of(out)["identification"]
    assert shown["verdict"].lower() == found.sentence.lower()
    assert "the model" in shown["filters"]["series"]


def test_an_identification_on_another_task_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = Path(__file__).parents[2] / "results" / "insight" / "linear" / "identification.json"
    out = tmp_path / "page.html"
    assert main(["explore", "newton", "--out", str(out), "--identification", str(file)]) == 2
    assert "must be of the task of newton: dim is 1, there it is 20" in capsys.readouterr().err
    assert main(["explore", "dbpedia", "--out", str(out), "--identification", str(file)]) == 2
    assert "an identification belongs to regression; leave out" in capsys.readouterr().err
    assert not out.exists()


def test_a_verdict_on_another_model_of_the_task_says_so(tmp_path: Path) -> None:
    task, found, out = THEOREMS["newton"].task, tmp_path / "found.json", tmp_path / "page.html"
    setting = {"task": "LinearRegression", "dim": 1, "examples": task.points - 1, "model": "trained"}
    found.write_text(json.dumps({"sentence": "none of these.", "setting": setting}))
    assert main(["explore", "newton", "--out", str(out), "--identification", str(found)]) == 0
    said = "none of these. (Identified: trained, not newton.)"
    assert pack_of(out)["identification"]["verdict"] == said


def test_bad_input_gets_one_clear_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("there.html").write_text("mine")
    Path("broken.json").write_text("{")
    Path("list.json").write_text("[]")
    Path("empty.json").write_text("{}")
    saved(Path("built.safetensors"), None)
    for arguments, words in {
        ("newtn",): "did you mean 'newton'?",
        ("nowhere/model.safetensors",): "nowhere/model.safetensors",
        ("newton", "--out", "there.html"): "there.html exists already",
        ("newton", "--out", "there.html/page.html"): "there.html",
        ("newton", "--prompts", "9" * 30): "prompts must be at most 10000000, got 999",
        ("newton", "--prompts", "0"): "prompts must be at least 1, got 0",
        ("newton", "--identification", "broken.json"): "broken.json",
        ("newton", "--identification", "list.json"): "an identification is an object, got list",
        ("newton", "--identification", "empty.json"): "this is not an identification: ",
        ("newton", "--text", "a line"): "text models only",
        ("dbpedia", "--text", ""): "a line must have 1 to ",
        ("built.safetensors",): "has no data, so there are no prompts",
    }.items():
        assert main(["explore", *arguments]) == 2
        error = capsys.readouterr().err.strip()
        assert error.startswith("algoformer explore: ")
        assert words in error
        assert "\n" not in error
    assert Path("there.html").read_text() == "mine"


def test_no_control_character_of_the_command_line_reaches_the_terminal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["explore", "newton", "--prompts", "24", "--out", "\x1b[2J.html"]) == 0
    assert r"page: \x1b[2J.html" in capsys.readouterr().out


@pytest.mark.parametrize("option", ["--prompts", "--nonsense"])
def test_a_message_does_not_repeat_all_that_was_typed(
    option: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["explore", "newton", option, "a" * 10_000]) == 2
    message = capsys.readouterr().err
    assert len(message) < 600
    assert message.count("\n") == 1
