import os
import signal
from pathlib import Path
from typing import Any

import pytest
import torch

from algoformer.training import (
    Ramp,
    load_checkpoint,
    load_experiment,
    read_metrics,
    train,
)
from training.small import same_weights, small, timeless, told


def test_the_same_seed_gives_the_same_run_and_another_another() -> None:
    one, two, other = train(small()), train(small()), train(small(seed=1))
    assert same_weights(one.model, two.model)
    assert timeless(one.metrics) == timeless(two.metrics)
    assert not same_weights(one.model, other.model)


def test_a_run_writes_what_it_says_and_returns(tmp_path: Path) -> None:
    seen = []
    experiment = small(dims=Ramp(start=1, increment=1, interval=0.5), precision="tf32")
    run = train(experiment, tmp_path / "run", callbacks=told(lambda *news: seen.append(news)))
    assert run.finished
    assert sorted(path.name for path in (tmp_path / "run").iterdir()) == [
        ".lock",
        "checkpoint.safetensors",
        "config.json",
        "metrics.jsonl",
    ]
    assert load_experiment(tmp_path / "run") == experiment
    assert [row["step"] for row in run.metrics] == [5, 10, 12]
    assert read_metrics(tmp_path / "run") == list(run.metrics)
    assert [(done, total) for done, total, _ in seen] == [(5, 12), (10, 12), (12, 12)]
    last = run.metrics[-1]
    names = {"step", "loss", "error", "lr", "iterations", "dims", "samples", "seconds", "steps_per_second"}
    assert set(last) == names
    assert (last["iterations"], last["dims"], last["samples"], last["lr"]) == (3, 2, 4, 1e-3)
    checkpoint = load_checkpoint(tmp_path / "run" / "checkpoint.safetensors")
    assert same_weights(checkpoint.model, run.model)
    assert checkpoint.task == experiment.task
    assert checkpoint.card["step"] == 12
    assert checkpoint.card["precision"] == "tf32"
    assert checkpoint.card["engine"].startswith("engine eager")
    assert checkpoint.card["torch"] == torch.__version__


def test_the_loss_in_the_metrics_is_the_mean_since_the_row_before() -> None:
    single = train(small(log_every=1))
    by_five = train(small())
    losses = [row["loss"] for row in single.metrics]
    expected = [sum(losses[:5]) / 5, sum(losses[5:10]) / 5, sum(losses[10:]) / 2]
    assert [row["loss"] for row in by_five.metrics] == pytest.approx(expected, rel=1e-12)


def test_the_precision_of_products_is_put_back() -> None:
    before = torch.get_float32_matmul_precision()
    train(small(steps=1, precision="tf32"))
    assert torch.get_float32_matmul_precision() == before


@pytest.mark.usefixtures("as_a_user")
def test_folders_that_do_not_fit_are_refused_and_left_alone(tmp_path: Path) -> None:
    train(small(), tmp_path / "run")
    before = {path.name: path.read_bytes() for path in (tmp_path / "run").iterdir()}
    with pytest.raises(ValueError, match="exists already"):
        train(small(), tmp_path / "run")
    with pytest.raises(ValueError, match="another experiment"):
        train(small(lr=0.5), tmp_path / "run", resume=True)
    assert before == {path.name: path.read_bytes() for path in (tmp_path / "run").iterdir()}
    with pytest.raises(ValueError, match="holds no run to resume"):
        train(small(), tmp_path / "missing", resume=True)
    assert not (tmp_path / "missing").exists()
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match="exists already"):
        train(small(), tmp_path / "file")
    with pytest.raises(ValueError, match="resume needs the folder"):
        train(small(), resume=True)
    with pytest.raises(ValueError, match="max_minutes must be positive"):
        train(small(), max_minutes=0)
    with pytest.raises(ValueError, match="holds no readable run"):
        load_experiment(tmp_path)


def test_an_empty_folder_is_fine(tmp_path: Path) -> None:
    assert train(small(steps=1), tmp_path).finished


def test_a_folder_that_is_trained_in_is_not_for_others(tmp_path: Path) -> None:
    def intrude(done: int, total: int, metrics: Any) -> None:
        with pytest.raises(ValueError, match="another process is training in"):
            train(small(), tmp_path / "run", resume=True)

    train(small(), tmp_path / "run", callbacks=told(intrude))
    assert train(small(), tmp_path / "run", resume=True).finished


def test_a_finished_run_is_not_written_again(tmp_path: Path) -> None:
    run = train(small(), tmp_path / "run")
    before = (tmp_path / "run" / "checkpoint.safetensors").stat().st_mtime_ns
    again = train(small(), tmp_path / "run", resume=True)
    assert again.finished
    assert same_weights(run.model, again.model)
    assert timeless(run.metrics) == timeless(again.metrics)
    assert (tmp_path / "run" / "checkpoint.safetensors").stat().st_mtime_ns == before


@pytest.mark.parametrize("moment", [5, 10])
@pytest.mark.parametrize("settings", [{}, {"burn_in": (0, 2), "schedule": "cosine", "clip_norm": 0.1}])
def test_an_interrupt_saves_and_the_run_goes_on_as_if_nothing_had_been(
    tmp_path: Path, moment: int, settings: dict[str, Any]
) -> None:
    def interrupt(done: int, total: int, metrics: Any) -> None:
        if done == moment:
            os.kill(os.getpid(), signal.SIGINT)

    experiment = small(**settings)
    whole = train(experiment)
    with pytest.raises(KeyboardInterrupt):
        train(experiment, tmp_path / "run", callbacks=told(interrupt))
    assert load_checkpoint(tmp_path / "run" / "checkpoint.safetensors").card["step"] == moment
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    rest = train(experiment, tmp_path / "run", resume=True)
    assert same_weights(whole.model, rest.model)
    assert timeless(whole.metrics) == timeless(rest.metrics)


def test_an_interrupt_in_the_middle_of_a_step_keeps_the_checkpoint_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = train(small())
    original = torch.optim.Adam.step
    taken = []

    def torn(self: Any, *arguments: Any) -> Any:
        taken.append(None)
        if len(taken) == 7:
            with torch.no_grad():
                self.param_groups[0]["params"][0].add_(1.0)
            raise KeyboardInterrupt
        return original(self, *arguments)

    monkeypatch.setattr(torch.optim.Adam, "step", torn)
    with pytest.raises(KeyboardInterrupt):
        train(small(), tmp_path / "run")
    monkeypatch.undo()
    assert load_checkpoint(tmp_path / "run" / "checkpoint.safetensors").card["step"] == 4
    rest = train(small(), tmp_path / "run", resume=True)
    assert same_weights(whole.model, rest.model)
    assert timeless(whole.metrics) == timeless(rest.metrics)


def test_a_run_in_slices_is_the_same_run(tmp_path: Path) -> None:
    whole = train(small())
    run = train(small(), tmp_path / "run", max_minutes=1e-9)
    slices = 1
    assert not run.finished
    while not run.finished:
        run = train(small(), tmp_path / "run", resume=True, max_minutes=1e-9)
        slices += 1
    assert slices == 12
    assert same_weights(whole.model, run.model)
    assert timeless(whole.metrics) == timeless(run.metrics)


@pytest.mark.parametrize("poisoned", [2, 6])
def test_a_loss_that_is_no_number_stops_the_run_and_keeps_the_last_good_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, poisoned: int
) -> None:
    original = torch.optim.Adam.step
    taken = []

    def poison(self: Any, *arguments: Any) -> Any:
        taken.append(None)
        result = original(self, *arguments)
        if len(taken) == poisoned:
            with torch.no_grad():
                self.param_groups[0]["params"][0].fill_(float("nan"))
        return result

    monkeypatch.setattr(torch.optim.Adam, "step", poison)
    with pytest.raises(FloatingPointError, match=r"last good checkpoint is kept.*lower learning rate"):
        train(small(checkpoint_every=1, log_every=100), tmp_path / "run")
    found = load_checkpoint(tmp_path / "run" / "checkpoint.safetensors")
    assert found.card["step"] == poisoned - 1
    assert all(weight.isfinite().all() for weight in found.model.parameters())


@pytest.mark.parametrize("settings", [{}, {"optimizer": "adamw"}, {"optimizer": "muon", "ema": 0.9}])
def test_nonsense_is_noticed_at_the_next_row_at_the_latest(settings: dict[str, Any]) -> None:
    with pytest.raises(FloatingPointError, match="not finite at step 5"):
        train(small(lr=1e30, **settings))


def test_a_full_disk_is_named_and_keeps_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import resource

    experiment = small()
    whole = train(experiment)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)

    def fill(done: int, total: int, metrics: Any) -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, before[1]))

    try:
        with pytest.raises(OSError, match=r"checkpoint\.safetensors could not be written"):
            train(experiment, tmp_path / "run", callbacks=told(fill))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert load_checkpoint(tmp_path / "run" / "checkpoint.safetensors").card["step"] == 4
    assert [path.name for path in (tmp_path / "run").glob(".*")] == [".lock"]
    rest = train(experiment, tmp_path / "run", resume=True)
    assert same_weights(whole.model, rest.model)
    assert timeless(whole.metrics) == timeless(rest.metrics)


def test_a_device_that_is_not_there_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(ValueError, match="device cuda was asked for, but PyTorch sees none; choose cpu"):
        train(small(steps=1), device="cuda")
