import copy
import json
import shlex
import shutil
import signal
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from algoformer.checkpoint import save_checkpoint
from algoformer.cli import main
from algoformer.cli.choose import FirstOptions, read_experiment
from algoformer.cli.train import HELP
from algoformer.model.presets import looped
from algoformer.model.program import Layers, Loop, Program, to_data
from algoformer.training import Ramp, TrainConfig, load_checkpoint, load_experiment, read_metrics, trainer
from algoformer.training.step import Step
from tiny import TINY


def test_a_run_folder_holds_all_that_was_asked_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "run"
    assert main(["train", *TINY, "--steps", "4", "--out", str(folder)]) == 0
    names = {path.name for path in folder.iterdir()}
    assert {"config.json", "metrics.jsonl", "checkpoint.safetensors", "evaluation.json"} <= names
    assert {"error_by_sample.png", "error_by_sample.svg", "error_by_step.png"} <= names
    assert capsys.readouterr().out.rstrip().endswith(str(folder)), (
        "scripts read the folder from the last line"
    )
    experiment = load_experiment(folder)
    assert (experiment.width, experiment.task.dim, experiment.training.steps) == (8, 2, 4)
    assert [row["step"] for row in read_metrics(folder)] == [2, 4]


def test_an_option_reaches_the_part_of_the_program_that_it_names(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    options = ["--program", "nested", "--model.loop.inner.steps", "2", "--model.loop.outer.heads", "1"]
    tiny = ["--width", "8", "--steps", "1", "--batch-size", "2", "--window", "2"]
    assert main(["train", *options, *tiny, "--out", str(folder), "--no-evaluate"]) == 0
    loop = load_experiment(folder).program.parts[1]
    assert loop.body.parts[0].heads == 1
    assert loop.body.parts[1].steps == 2
    assert loop.steps == 3


def test_a_curriculum_of_the_recipe_can_be_turned_off() -> None:
    assert _training().iterations == Ramp(start=4, increment=2, interval=0.001)
    assert _training("--iterations", "None").iterations is None
    assert _training("--samples=None", "--dims", "None") == replace(_training(), samples=None, dims=None)
    chain = _training("--data", "chain", "--samples", "None", "--iterations", "None")
    assert (chain.samples, chain.iterations) == (None, None)


def test_a_curriculum_that_the_recipe_does_not_have_is_turned_on() -> None:
    words = ["--data", "labels", "--program", "looped"]
    assert _training(*words).iterations is None
    ramp = _training(*words, "--iterations.start", "2", "--iterations.interval=0.5").iterations
    assert ramp == Ramp(start=2, increment=1, interval=0.5)
    with pytest.raises(ValueError, match="text has no such curriculum"):
        _training(*words, "--samples.start", "3")


def test_burn_in_takes_the_place_of_the_recipes_curriculum_over_iterations() -> None:
    burnt_in = _training("--burn-in", "0", "0", "8")
    assert burnt_in == replace(_training(), burn_in=(0, 0, 8), iterations=None)
    both = _training("--burn-in", "0", "8", "--iterations.start", "4")
    assert both.iterations == _training().iterations


def test_full_attention_has_no_curriculum_over_samples(tmp_path: Path) -> None:
    (tmp_path / "full.json").write_text(json.dumps(to_data(looped(heads=2, steps=4, causal=False))))
    for words in (
        ["--program", str(tmp_path / "full.json")],
        ["--program", "looped", "--model.loop.no-causal"],
    ):
        assert _training("--data", "linear", *words).samples is None
    with pytest.raises(ValueError, match="with full attention only the last question"):
        _training("--program", "looped", "--model.loop.no-causal", "--samples.start", "3")


def _training(*words: str) -> TrainConfig:
    return read_experiment(list(words), FirstOptions, command="train", short_help=HELP)[0].training


def test_a_distribution_of_depth_is_one_word(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "run"
    words = ["--depth", "poisson:2,per=sequence", "--window", "1", "--backprop", "2", "--loss-weights", "1.0"]
    assert main(["train", *TINY, *words, "--steps", "2", "--out", str(folder), "--no-evaluate"]) == 0
    training = load_experiment(folder).training
    assert (str(training.depth), training.backprop) == ("poisson:2,per=sequence", 2)
    assert training.loss_weights == (1.0,)
    capsys.readouterr()
    assert main(["train", *TINY, "--depth", "poison:2", "--out", str(tmp_path / "other")]) == 2
    assert "kind must be one of fixed, list, poisson, lognormal, got 'poison'" in capsys.readouterr().err
    assert not (tmp_path / "other").exists()


def test_a_program_of_ones_own_is_read_from_json(tmp_path: Path) -> None:
    file = tmp_path / "mine.json"
    file.write_text(json.dumps([{"part": "layers", "count": 1, "heads": 2, "name": "only"}]))
    options = ["--width", "8", "--steps", "1", "--batch-size", "2"]
    folder = tmp_path / "run"
    assert main(["train", "--program", str(file), *options, "--out", str(folder), "--no-evaluate"]) == 0
    assert str(load_experiment(folder).program) == "only  1 layer × 2 heads"


def test_a_program_of_ones_own_may_need_other_settings_than_the_recipes(tmp_path: Path) -> None:
    file = tmp_path / "mine.json"
    loop = Loop(Layers(1, heads=3), steps=3, halt="gate", name="loop")
    file.write_text(Program(loop).to_json())
    first = ["--program", str(file), "--width", "48"]  # 3 heads do not divide the recipe's width
    assert _training(*first, "--loss", "exit", "--window", "3", "--iterations", "None").loss == "exit"
    with pytest.raises(ValueError, match="loss='mean' does not train the loop's exit gate"):
        _training(*first)
    with pytest.raises(ValueError, match="3 heads do not divide a stream of width 32"):
        _training("--program", str(file), "--loss", "exit", "--window", "3")


def test_a_run_folder_that_exists_is_refused_and_left_alone(
    tiny_run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = (tiny_run / "checkpoint.safetensors").read_bytes()
    assert main(["train", *TINY, "--out", str(tiny_run)]) == 2
    assert "exists already; resume the run in it or choose another folder" in capsys.readouterr().err
    assert (tiny_run / "checkpoint.safetensors").read_bytes() == before


def test_a_run_starts_from_the_settings_of_another(tiny_run: Path, tmp_path: Path) -> None:
    folder = tmp_path / "again"
    config = str(tiny_run / "config.json")
    arguments = ["train", "--config", config, "--seed", "1", "--out", str(folder), "--no-evaluate"]
    assert main(arguments) == 0
    first, second = load_experiment(tiny_run), load_experiment(folder)
    assert (first.program, first.task) == (second.program, second.task)
    assert second.training.seed == 1


def test_a_run_begins_with_the_weights_of_another_and_says_so(
    tiny_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, file = tmp_path / "finer", tmp_path / "finer.safetensors"
    finer = [*TINY, "--steps", "4", "--lr", "1e-12", "--initial", str(tiny_run), "--no-evaluate"]
    assert main(["train", *finer, "--out", str(folder)]) == 0
    before, after = (load_checkpoint(one / "checkpoint.safetensors").model for one in (tiny_run, folder))
    for left, right in zip(before.parameters(), after.parameters(), strict=True):
        torch.testing.assert_close(left, right, rtol=0, atol=1e-9)
    assert main(["export", str(folder), str(file), "--depths", "8", "--prompts", "16"]) == 0
    assert load_checkpoint(file).card["initial"]["step"] == 4
    capsys.readouterr()
    assert main(["info", str(file)]) == 0
    (line,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("initial ")]
    assert "step 4" in line
    assert "experiment" not in line


def test_a_run_begins_with_the_weights_of_another_that_evaluate_reports(
    tiny_run: Path, tmp_path: Path
) -> None:
    other, folder = tmp_path / "validated", tmp_path / "finer"
    shutil.copytree(tiny_run, other)
    last = load_checkpoint(other / "checkpoint.safetensors")
    best = copy.deepcopy(last.model)
    for weight in best.parameters():
        weight.data.mul_(0.5)
    save_checkpoint(other / "best.safetensors", replace(last, model=best))
    finer = [*TINY, "--steps", "1", "--lr", "1e-12", "--initial", str(other), "--no-evaluate"]
    assert main(["train", *finer, "--out", str(folder)]) == 0
    begun = load_checkpoint(folder / "checkpoint.safetensors").model
    for left, right in zip(best.parameters(), begun.parameters(), strict=True):
        torch.testing.assert_close(left, right, rtol=0, atol=1e-9)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--initial", "nowhere"], "'nowhere' is neither a file nor a shipped model"),
        (["--initial", "."], "checkpoint.safetensors"),
        (["--resume", "--initial", "x"], "continues with the run's own weights; leave out --initial"),
    ],
)
def test_weights_that_cannot_be_begun_with_are_refused(
    options: list[str], words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = [] if "--resume" in options else TINY
    assert main(["train", *settings, *options, "--out", str(tmp_path / "run")]) == 2
    assert words in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_ctrl_c_keeps_a_checkpoint_that_resumes_to_the_same_weights(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    options = [*TINY, "--steps", "20", "--checkpoint-every", "1000", "--no-evaluate"]
    assert main(["train", *options, "--out", str(whole)]) == 0
    capsys.readouterr()
    run = Step.run

    def press_ctrl_c(self: Step, number: int) -> None:
        run(self, number)
        if number == 6:
            signal.raise_signal(signal.SIGINT)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Step, "run", press_ctrl_c)
        before = signal.signal(
            signal.SIGINT, signal.default_int_handler
        )  # a job in the background ignores it
        assert main(["train", *options, "--out", str(cut)]) == 130
        signal.signal(signal.SIGINT, before)
    message = capsys.readouterr().err
    assert f"continue with: algoformer train --resume --out {cut}" in message
    assert "Traceback" not in message
    assert load_checkpoint(cut / "checkpoint.safetensors").card["step"] == 7
    assert main(["train", "--resume", "--out", str(cut), "--no-evaluate"]) == 0
    one, other = (load_checkpoint(folder / "checkpoint.safetensors") for folder in (whole, cut))
    for left, right in zip(one.model.parameters(), other.model.parameters(), strict=True):
        torch.testing.assert_close(left, right, rtol=0, atol=0)
    assert other.card["command"] == shlex.join(["algoformer", "train", *options, "--out", str(cut)])
    assert [row["step"] for row in read_metrics(cut)] == [row["step"] for row in read_metrics(whole)]


def test_a_run_that_had_not_begun_when_it_was_interrupted_is_started_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def press_ctrl_c(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    command = ["train", *TINY, "--steps", "1", "--out", str(tmp_path / "run"), "--no-evaluate"]
    with monkeypatch.context() as patch:
        patch.setattr(trainer, "build_model", press_ctrl_c)
        assert main(command) == 130
    message = capsys.readouterr().err
    assert "the run had not begun; start it again with the same command" in message
    assert "--resume" not in message
    assert main(command) == 0


@pytest.mark.parametrize("setting", [["--steps", "9"], ["--data", "chain"]])
def test_resuming_refuses_settings_that_it_would_have_to_ignore(
    setting: list[str], tiny_run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["train", "--resume", "--out", str(tiny_run), *setting]) == 2
    assert f"leave out {setting[0]}" in capsys.readouterr().err


def test_a_run_from_a_config_needs_its_own_folder(tiny_run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", "--config", str(tiny_run / "config.json")]) == 2
    assert "give --out" in capsys.readouterr().err


def test_it_says_how_steps_are_taken_and_why(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = [*TINY, "--steps", "1", "--device", "cpu", "--no-evaluate"]
    assert main(["train", *options, "--out", str(tmp_path / "run")]) == 0
    assert "engine eager: on a CPU it starts at once; compiling pays for long runs" in capsys.readouterr().err


def test_a_run_that_is_out_of_time_says_how_to_go_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "slice"
    options = [*TINY, "--steps", "1000", "--max-minutes", "0.0001", "--out", str(folder)]
    assert main(["train", *options]) == 0
    assert "of 1000 steps; continue with --resume" in capsys.readouterr().out


def test_a_device_that_is_not_there_is_refused(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    if torch.cuda.is_available():
        pytest.skip("this machine has CUDA")
    assert main(["train", *TINY, "--device", "cuda", "--out", str(tmp_path / "run")]) == 2
    assert "choose cpu or auto" in capsys.readouterr().err


def test_a_run_killed_before_its_config_was_written_is_resumed_and_writes_it(tmp_path: Path) -> None:
    """The first checkpoint comes before config.json, and it holds the experiment too."""
    folder = tmp_path / "run"
    assert main(["train", *TINY, "--steps", "2", "--no-evaluate", "--out", str(folder)]) == 0
    config = (folder / "config.json").read_text()
    (folder / "config.json").unlink()
    assert main(["train", "--resume", "--no-evaluate", "--out", str(folder)]) == 0
    assert (folder / "config.json").read_text() == config
