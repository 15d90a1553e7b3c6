"""`algoformer identify` and `algoformer certify` on a small model and on bad input."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from algoformer import AlgoFormer, Program, programs, tasks
from algoformer.cli import main
from algoformer.cli.certify_text import _loops
from algoformer.data import PromptData
from algoformer.insight import DepthCertificate, Identification, ProbabilityCertificate
from algoformer.language.tokenizer import TRANSLATE, Tokenizer
from algoformer.trace import Unroll
from algoformer.training import Checkpoint, load_checkpoint, save_checkpoint

ROOT = Path(__file__).parents[2]
PAIRS = tasks.LinearRegression(dim=2, points=6)


def saved(folder: Path, program: Program, task: tasks.Task = PAIRS) -> Path:
    """A model with random weights in a file."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = AlgoFormer(program, dim=task.dim, out=task.out, context=task.context, width=16)
    path = folder / "model.safetensors"
    save_checkpoint(path, Checkpoint(model=model, data=PromptData(task=task)))
    return path


@pytest.fixture
def looped(tmp_path: Path) -> Path:
    return saved(tmp_path, programs.algoformer(heads=2, steps=4))


def test_identify_prints_a_verdict_and_writes_what_it_can_read_back(
    looped: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "found"
    assert main(["identify", str(looped), "--prompts", "24", "--iterations", "3", "--out", str(out)]) == 0
    found = Identification.from_json((out / "identification.json").read_text())
    assert found.name is None  # random weights have learned nothing
    assert found.sentence in capsys.readouterr().out
    assert found.setting["command"].startswith("algoformer identify ")
    assert sorted(path.stem for path in out.glob("*.png")) == [
        "filters",
        "influence",
        "matching",
        "path",
        "skill",
    ]


def test_certify_prints_json_that_can_be_read_back(looped: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["certify", str(looped), "--prompts", "8", "--reach", "5", "--json"]) == 0
    found = DepthCertificate.from_json(capsys.readouterr().out)
    assert found.far == 5 * found.trained
    assert max(len(line) for line in str(found).splitlines()) <= 80
    assert found.states is not None
    assert sum(found.states.prompts.values()) == 8


def test_a_folder_of_results_does_not_hide_the_shipped_model_of_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["identify", "linear", "--prompts", "24", "--iterations", "2", "--out", "linear"]) == 0
    found = set(Path("linear").iterdir())
    assert main(["evaluate", "linear", "--prompts", "8", "--iterations", "2", "--device", "cpu"]) == 0
    assert set(Path("linear").iterdir()) == found, "the folder is not that of a run"


@pytest.mark.parametrize("command", ["certify", "identify"])
def test_a_folder_with_control_characters_is_printed_without_them(
    command: str, looped: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    size = ["--reach", "2"] if command == "certify" else ["--iterations", "2"]
    out = tmp_path / "\x1b[2J"
    assert main([command, str(looped), "--prompts", "24", *size, "--out", str(out)]) == 0
    printed = "".join(capsys.readouterr())
    assert "\x1b" not in printed
    assert "\\x1b[2J" in printed


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["identify", "--prompts", "5"], "prompts must be at least 24 to tell families apart, got 5"),
        (["identify", "--iterations", "1"], "steps must be at least 2"),
        (["certify", "--prompts", "2"], "prompts must be at least 8"),
        (["certify", "--reach", "1"], "reach must lie in 2..10,000, got 1;"),
        (["certify", "--reach", "9" * 400], "got an integer of about 400 digits"),
        (["identify", "--prompts", "9" * 30], "prompts must be at most 10000000"),
        (["certify", "--prompts", "9" * 30], "prompts must be at most 10000000"),
    ],
)
def test_options_that_cannot_be_are_refused_in_one_line(
    options: list[str], message: str, looped: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    assert main([options[0], str(looped), *options[1:]]) == 2
    complaint = capsys.readouterr().err
    assert message in complaint
    assert complaint.count("\n") == 1


@pytest.mark.parametrize("command", ["identify", "certify"])
def test_a_folder_that_cannot_be_made_is_refused_before_measuring(
    command: str,
    looped: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(f"algoformer.insight.{command}", None)  # measuring would fail with a TypeError
    (tmp_path / "file").touch()
    assert main([command, str(looped), "--out", str(tmp_path / "file")]) == 2
    said = f"{tmp_path / 'file'} exists and is not a folder; choose another name"
    assert capsys.readouterr().err == f"algoformer {command}: {said}\n"


@pytest.mark.parametrize(
    ("command", "message"),
    [("identify", "has no loop, so it has no passes"), ("certify", "has no loop, so there is no depth")],
)
def test_a_model_without_a_loop_is_refused_in_one_line(
    command: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = saved(tmp_path, programs.standard(heads=2))
    assert main([command, str(run)]) == 2
    complaint = capsys.readouterr().err
    assert message in complaint
    assert complaint.count("\n") == 1


def test_a_model_of_series_is_identified_and_drawn(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    series = tasks.AutoregressiveWithRepresentation(dim=1, points=9, order=2)
    run = saved(tmp_path, programs.algoformer(heads=2, steps=4), series)
    out = tmp_path / "found"
    assert main(["identify", str(run), "--prompts", "24", "--iterations", "3", "--out", str(out)]) == 0
    found = Identification.from_json((out / "identification.json").read_text())
    assert found.measured == "answers"
    assert found.name is None
    assert "one answer of each series" in capsys.readouterr().out
    assert len(list(out.glob("*.png"))) == 5
    assert main(["identify", str(run), "--problem", "1"]) == 2
    assert "problem must lie in 0..0" in capsys.readouterr().err


def test_a_layer_of_a_chain_is_identified_and_stored(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    chain = tasks.ChainOfThought(dim=2, points=7, layers=2)
    run = saved(tmp_path, programs.algoformer(heads=2, steps=4), chain)
    before = load_checkpoint(run)
    small = ["--prompts", "24", "--iterations", "3"]
    assert main(["identify", str(run), "--problem", "1", "--store", "--json", *small]) == 0
    found = Identification.from_json(capsys.readouterr().out)
    assert found.setting["problem"] == 1
    after = load_checkpoint(run)
    assert after.card == {**before.card, "identification": found.summary()}
    assert all(map(torch.equal, after.model.state_dict().values(), before.model.state_dict().values()))
    assert main(["info", str(run)]) == 0
    assert found.sentence in capsys.readouterr().out
    assert main(["identify", str(run), "--problem", "2"]) == 2
    assert "problem must lie in 0..1 for ChainOfThought, got 2" in capsys.readouterr().err


def test_a_model_of_text_is_refused_by_identify(capsys: pytest.CaptureFixture[str]) -> None:
    path = ROOT / "checkpoints" / "dbpedia.safetensors"
    assert main(["identify", str(path)]) == 2
    assert "is a model of text" in capsys.readouterr().err


def test_a_model_of_text_is_certified_on_texts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = ROOT / "checkpoints" / "dbpedia.safetensors"
    assert main(["certify", str(path)]) == 2
    assert "give a file with --texts" in capsys.readouterr().err
    texts = tmp_path / "texts.txt"
    texts.write_text("The oak is a tree of the beech family.\nThe band made a second album.\n")
    copied = tmp_path / "dbpedia.safetensors"
    copied.write_bytes(path.read_bytes())
    assert main(["certify", str(copied), "--texts", str(texts), "--reach", "20", "--json", "--store"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert load_checkpoint(copied).card["certificate"] == found
    stored = ProbabilityCertificate.from_data(found)
    assert main(["info", str(copied)]) == 0
    assert stored.sentence in capsys.readouterr().out
    assert main(["certify", str(copied), "--stored", "--out", str(tmp_path / "drawn")]) == 0
    assert (tmp_path / "drawn" / "depth.png").exists()
    assert main(["certify", str(copied), "--texts", str(texts), "--references", str(texts)]) == 2
    assert "--references are for a translator" in capsys.readouterr().err
    assert found["setting"]["texts"] == 2
    assert found["states"]["prompts"]["settles"] == 2
    assert max(found["shift"]) < 0.1
    assert all(abs(one - two) < 0.02 for one, two in zip(*_decays(found), strict=True))


def test_a_translator_is_read_after_its_mark_and_at_every_word_of_a_reference(tmp_path: Path) -> None:
    checkpoint = load_checkpoint(ROOT / "checkpoints" / "tatoeba_de_en.safetensors")
    model, tokenizer = checkpoint.model, Tokenizer.from_json(checkpoint.tokenizer)
    source, target = "Ich bin müde.", "I am tired."
    ((loop, _),) = _loops(checkpoint, [source], [target])
    state = loop.start
    for _ in range(loop.trained_steps):
        state = loop.step(state)
    given = [*tokenizer.encode(source), TRANSLATE]
    words = tokenizer.encode(target)
    input_ids, prefix = torch.tensor([[*given, *words]]), torch.tensor([len(given)])
    with torch.no_grad():  # the model's own forward pass, at the mark and at each word
        scores = model(input_ids, prefix=prefix, unroll=Unroll(steps=loop.trained_steps, window=1))
    known = scores[-1][:, len(given) - 1 :].softmax(-1)
    assert torch.allclose(loop.read(state), known, atol=1e-5)
    assert loop.read_rows == tuple(range(len(given) - 1, len(given) + len(words)))


def _decays(found: dict[str, Any]) -> tuple[list[float], list[float]]:
    states = found["states"]
    pairs = zip(states["predicted"], states["observed"], strict=True)
    kept = [pair for pair in pairs if pair[1] is not None]
    assert kept
    return [one for one, _ in kept], [two for _, two in kept]


def test_a_result_that_is_none_is_refused() -> None:
    with pytest.raises(ValueError, match="not an identification"):
        Identification.from_json(json.dumps({"status": "runs"}))
    with pytest.raises(ValueError, match="not a depth certificate"):
        DepthCertificate.from_json(json.dumps({"answers": "hold"}))


def test_an_exported_model_carries_its_certificate_which_info_prints_and_certify_draws(
    looped: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, out = tmp_path / "exported.safetensors", tmp_path / "drawn"
    assert main(["export", str(looped), str(file), "--prompts", "16", "--depths", "8"]) == 0
    stored = DepthCertificate.from_data(load_checkpoint(file).card["certificate"])
    assert stored.far == 50 * stored.trained == 200
    assert stored.sentence in capsys.readouterr().out
    assert main(["info", str(file)]) == 0
    assert stored.sentence in capsys.readouterr().out
    assert main(["certify", str(file), "--stored", "--out", str(out)]) == 0
    assert DepthCertificate.from_json((out / "certificate.json").read_text()) == stored
    assert (out / "depth.png").exists()


def test_a_card_without_a_certificate_is_refused_in_one_line(
    looped: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["certify", str(looped), "--stored"]) == 2
    assert "leave out --stored to measure it" in capsys.readouterr().err
