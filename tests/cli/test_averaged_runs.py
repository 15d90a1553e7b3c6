"""Optimizers and averaged weights from the command line."""

import json
import re
from pathlib import Path

import pytest

from algoformer.checkpoint import BEST, LATEST, save_checkpoint
from algoformer.cli import main
from algoformer.training import load_checkpoint, load_experiment
from algoformer.training.step import raw_model
from tiny import TINY
from training.small import same_weights

MUON = [
    "--optimizer", "muon", "--weight-decay", "0.1", "--betas", "0.9", "0.95",
    "--schedule", "wsd", "--cooldown", "0.5", "--ema", "0.9",
]  # fmt: skip


@pytest.fixture(scope="module")
def averaged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("averaged") / "run"
    options = [*TINY, *MUON, "--steps", "4", "--warmup", "0", "--no-evaluate"]
    assert main(["train", *options, "--out", str(folder)]) == 0
    return folder


def _error(folder: Path) -> float:
    (result,) = json.loads((folder / "evaluation.json").read_text())
    return result["by_sample"]["error"][-1]


def test_settings_reach_the_run(averaged: Path) -> None:
    training = load_experiment(averaged).training
    assert (training.optimizer, training.weight_decay, training.betas) == ("muon", 0.1, (0.9, 0.95))
    assert (training.schedule, training.cooldown, training.ema) == ("wsd", 0.5, 0.9)


def test_the_average_is_measured_unless_raw_weights_are_asked_for(averaged: Path, tmp_path: Path) -> None:
    for name, options in {"average": [], "raw": ["--raw"]}.items():
        arguments = ["evaluate", str(averaged), "--prompts", "16", "--out", str(tmp_path / name), *options]
        assert main(arguments) == 0
    assert _error(tmp_path / "average") != _error(tmp_path / "raw")


def test_an_export_holds_the_average_and_says_so(
    averaged: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = load_checkpoint(averaged / "checkpoint.safetensors")
    average, raw = tmp_path / "average.safetensors", tmp_path / "raw.safetensors"
    options = ["--depths", "4", "--prompts", "16", "--no-half"]
    assert main(["export", str(averaged), str(average), *options]) == 0
    assert main(["export", str(averaged), str(raw), "--raw", *options]) == 0
    assert load_checkpoint(average).card["weights"] == "average"
    assert load_checkpoint(raw).card["weights"] == "raw"
    assert same_weights(load_checkpoint(average).model, run.model)
    assert same_weights(load_checkpoint(raw).model, raw_model(run))
    assert main(["info", str(average)]) == 0
    assert re.search(r"^weights +average$", capsys.readouterr().out, flags=re.MULTILINE)
    assert main(["evaluate", str(average), "--raw"]) == 2
    assert "average of weights only, without the weights themselves; leave out --raw" in (
        capsys.readouterr().err
    )


def test_the_best_weights_are_measured_and_exported_unless_the_last_are_asked_for(
    tiny_run: Path, tmp_path: Path
) -> None:
    last = load_checkpoint(tiny_run / LATEST)
    best = load_checkpoint(tiny_run / LATEST)
    best.model.read_out.weight.data.mul_(100)
    save_checkpoint(tiny_run / BEST, best)
    options = ["--prompts", "16", "--depths", "4", "--no-half", "--no-certify"]
    errors = []
    for name, raw, expected in (("best", [], best), ("last", ["--raw"], last)):
        measured, file = tmp_path / name, tmp_path / f"{name}.safetensors"
        assert main(["evaluate", str(tiny_run), "--prompts", "16", "--out", str(measured), *raw]) == 0
        assert main(["export", str(tiny_run), str(file), *options, *raw]) == 0
        assert same_weights(load_checkpoint(file).model, expected.model)
        errors.append(_error(measured))
    assert errors[0] > 10 * errors[1]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--weight-decay", "0.1"], "'adam' has no weight decay, got weight_decay 0.1"),
        (["--schedule", "wsd"], "needs a cooldown"),
        (["--ema", "1"], "ema is a decay between 0 and 1"),
        (["--optimizer", "sgd"], "sgd"),
    ],
)
def test_a_choice_that_does_not_go_together_gets_one_line(
    options: list[str], words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["train", *TINY, *options, "--out", str(tmp_path / "run")]) == 2
    complaint = capsys.readouterr().err.strip()
    assert words in complaint
    assert len(complaint.splitlines()) == 1
    assert not (tmp_path / "run").exists()
