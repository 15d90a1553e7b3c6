import os
import signal
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from algoformer.training import load_checkpoint, train
from algoformer.training.presets import experiment
from paper.side_by_side import Planned, train_side_by_side


def tiny(program: str, **changes: object):
    run = experiment("linear", program, "smoke")
    return replace(run, training=replace(run.training, steps=3, batch_size=2, log_every=1, **changes))


def test_runs_side_by_side_are_the_runs_one_by_one(tmp_path: Path) -> None:
    runs = {name: tiny(name) for name in ("algoformer", "looped")}
    plans = {name: Planned(experiment=run, folder=tmp_path / name) for name, run in runs.items()}
    heard: dict[str, list[int]] = {name: [] for name in runs}
    train_side_by_side(plans, workers=2, progress=lambda name, done, total, metrics: heard[name].append(done))
    assert heard == {"algoformer": [1, 2, 3], "looped": [1, 2, 3]}
    for name, run in runs.items():
        alone = train(run).model
        beside = load_checkpoint(tmp_path / name / "checkpoint.safetensors").model
        for left, right in zip(alone.parameters(), beside.parameters(), strict=True):
            assert torch.equal(left, right)


def test_a_run_that_fails_is_named(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("a file where the folder should be")
    plans = {"mine": Planned(experiment=tiny("looped"), folder=tmp_path / "taken")}
    with pytest.raises(RuntimeError, match=r"the run .mine. failed: .*exists already"):
        train_side_by_side(plans, progress=lambda *_: None)


class InterruptedAtOnce:
    """Work whose process meets a Ctrl-C while it is read there, before anything of it runs."""

    def __setstate__(self, state: object) -> None:
        os.kill(os.getpid(), signal.SIGINT)

    def __getstate__(self) -> object:
        return "something"

    def make(self, **_: object) -> bool:
        return True


def test_an_interrupt_while_a_process_starts_ends_it_without_a_traceback(
    capfd: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(RuntimeError, match="the run 'mine' ended with exit code 130"):
        train_side_by_side({"mine": InterruptedAtOnce()}, progress=lambda *_: None)
    assert "Traceback" not in capfd.readouterr().err


def test_finished_runs_are_told_and_a_failure_can_leave_the_others_alone(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("a file where the folder should be")
    plans = {
        "bad": Planned(experiment=tiny("looped"), folder=tmp_path / "taken"),
        "good": Planned(experiment=tiny("looped"), folder=tmp_path / "good"),
    }
    finished: list[str] = []
    failed: dict[str, str] = {}
    train_side_by_side(
        plans, workers=1, progress=lambda *_: None, finished=finished.append, failed=failed.__setitem__
    )
    assert finished == ["good"]
    assert list(failed) == ["bad"]
    assert "exists already" in failed["bad"]


def test_after_the_time_is_over_none_begins_and_what_was_cut_is_not_finished(tmp_path: Path) -> None:
    short = tiny("looped")
    long = replace(short, training=replace(short.training, steps=50_000))
    plans = {name: Planned(experiment=long, folder=tmp_path / name) for name in ("first", "second")}
    finished: list[str] = []
    train_side_by_side(plans, workers=1, max_minutes=1e-4, progress=lambda *_: None, finished=finished.append)
    assert finished == []
    assert load_checkpoint(tmp_path / "first" / "checkpoint.safetensors").card["step"] > 0
    assert not (tmp_path / "second").exists()
