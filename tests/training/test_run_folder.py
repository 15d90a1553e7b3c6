"""The folder of a run: locked before it is looked at, complete from its first moment."""

from __future__ import annotations

import math
import multiprocessing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch

from algoformer import tasks
from algoformer.data import PromptData
from algoformer.training import build_model, load_checkpoint, load_experiment, train
from algoformer.training.run_folder import open_folder
from algoformer.training.session import Clock
from training.small import same_weights, small, told


def _stop(done: int, total: int, metrics: Any) -> None:
    raise InterruptedError


def test_a_new_run_locks_its_folder_before_anything_is_in_it(tmp_path: Path) -> None:
    with (
        open_folder(tmp_path / "run", small(), resume=False),
        pytest.raises(ValueError, match="another process is training in"),
        open_folder(tmp_path / "run", small(seed=1), resume=False),
    ):
        pass
    assert [path.name for path in (tmp_path / "run").iterdir()] == [".lock"]
    assert train(small(steps=1), tmp_path / "run").finished


def _enter(folder: Path, seed: int, barrier: Any, results: Any) -> None:
    torch.set_num_threads(1)
    try:
        for number in range(20):
            barrier.wait()
            try:
                with open_folder(folder / str(number), small(seed=seed), resume=False) as opened:
                    opened.write_config(small(seed=seed).to_data())
                    barrier.wait()  # the other one has been refused by now, or is inside too
                    results.put((number, seed))
            except ValueError:
                barrier.wait()
    except BaseException:
        barrier.abort()  # or the other one would wait for ever
        raise


def test_of_two_processes_that_enter_a_new_folder_at_once_one_gets_in(tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    barrier, results = context.Barrier(2), context.Queue()
    both = [context.Process(target=_enter, args=(tmp_path, seed, barrier, results)) for seed in (0, 1)]
    for process in both:
        process.start()
    for process in both:
        process.join()  # a pipe holds twenty results, so nobody waits for a reader
    assert [process.exitcode for process in both] == [0, 0]
    found = [results.get() for _ in range(20)]
    assert results.empty()
    assert sorted(number for number, _ in found) == [*range(20)]


def test_a_run_begun_with_a_model_and_killed_before_its_first_checkpoint_goes_on_exactly(
    tmp_path: Path,
) -> None:
    experiment = small(checkpoint_every=100)
    initial = build_model(small(seed=5))
    whole = train(experiment, initial=initial)
    with pytest.raises(InterruptedError):
        train(experiment, tmp_path / "run", initial=initial, command="asked", callbacks=told(_stop))
    assert load_checkpoint(tmp_path / "run" / "checkpoint.safetensors").card["step"] == 0
    rest = train(experiment, tmp_path / "run", resume=True, command="resumed")
    assert same_weights(whole.model, rest.model)
    assert load_checkpoint(tmp_path / "run" / "checkpoint.safetensors").card["command"] == "asked"
    with pytest.raises(ValueError, match="continues with its own weights"):
        train(experiment, tmp_path / "run", resume=True, initial=initial)


def test_a_run_whose_config_was_lost_is_still_one(tmp_path: Path) -> None:
    train(small(steps=1), tmp_path / "run")
    (tmp_path / "run" / "config.json").unlink()
    assert load_experiment(tmp_path / "run") == small(steps=1)
    assert train(small(steps=1), tmp_path / "run", resume=True).finished


def test_a_run_that_was_stopped_before_it_began_says_so(tmp_path: Path) -> None:
    with open_folder(tmp_path / "run", small(), resume=False):
        pass
    with pytest.raises(ValueError, match="holds no run to resume; it was stopped before it began"):
        train(small(), tmp_path / "run", resume=True)


@dataclass(frozen=True)
class Own(tasks.LinearRegression):
    """A task that no file can name."""


def test_a_task_of_ones_own_needs_to_be_registered_only_for_a_folder(tmp_path: Path) -> None:
    experiment = small(task=Own(dim=2, points=4), steps=1)
    assert train(experiment).finished
    with pytest.raises(ValueError, match="Own"):
        train(experiment, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_model_that_could_not_be_rebuilt_is_refused_before_training(tmp_path: Path) -> None:
    model = build_model(small())
    model.extra = torch.nn.Linear(2, 2)
    with pytest.raises(ValueError, match="could not be rebuilt from a checkpoint"):
        train(small(), tmp_path / "run", initial=model)
    assert not (tmp_path / "run" / "checkpoint.safetensors").exists()


def test_the_last_good_checkpoint_is_promised_only_where_there_is_one(tmp_path: Path) -> None:
    with pytest.raises(FloatingPointError) as without:
        train(small(lr=1e30))
    with pytest.raises(FloatingPointError, match="last good checkpoint is kept"):
        train(small(lr=1e30), tmp_path / "run")
    assert "checkpoint" not in str(without.value)


def test_validation_does_not_count_as_training_time(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr("time.monotonic", lambda: now)
    clock = Clock(7.0)
    now = 103.0
    assert clock.seconds == pytest.approx(10)
    with clock.paused():
        now = 150.0
    now = 151.0
    assert clock.seconds == pytest.approx(11)


def test_prompts_are_validated_and_the_best_weights_kept(tmp_path: Path) -> None:
    run = train(small(validate_every=5, log_every=5, steps=10), tmp_path / "run")
    errors = {int(row["step"]): row["valid_error"] for row in run.metrics}
    assert set(errors) == {5, 10}
    best = min(errors, key=lambda step: errors[step])
    assert run.best == {"step": best, "valid_error": errors[best]}
    stored = load_checkpoint(tmp_path / "run" / "best.safetensors")
    assert (stored.card["step"], stored.card["valid_error"]) == (best, errors[best])
    assert stored.data is not None
    assert stored.data.validate(stored.model) == {"valid_error": errors[best]}


def test_weights_whose_validation_is_not_a_number_are_not_the_best(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = iter([math.nan, 0.5, math.nan, 0.7, 0.4, math.nan])
    monkeypatch.setattr(PromptData, "validate", lambda *_, **__: {"valid_error": next(found)})
    run = train(small(validate_every=2, log_every=2, steps=12), tmp_path / "run")
    assert run.best == {"step": 10, "valid_error": 0.4}
    assert load_checkpoint(tmp_path / "run" / "best.safetensors").card["step"] == 10
    found = iter([math.nan] * 2)
    assert train(small(validate_every=2, log_every=2, patience=1)).step == 4


def test_a_run_says_in_a_line_what_it_is() -> None:
    run = train(small())
    loss, error = run.metrics[-1]["loss"], run.metrics[-1]["error"]
    assert repr(run) == f"Run(prompts, step 12 of 12, loss {loss:.3g}, error {error:.3g})"


def test_a_run_killed_while_its_first_checkpoint_was_written_can_be_started_again(tmp_path: Path) -> None:
    """safetensors writes to a temporary file of its own, which a killed process leaves behind."""
    folder = tmp_path / "run"
    folder.mkdir()
    for name in (".lock", ".tmpQaumh8", ".checkpoint.safetensors.123.part"):
        (folder / name).touch()
    train(small(steps=1), folder)
    assert not {".tmpQaumh8", ".checkpoint.safetensors.123.part"} & {item.name for item in folder.iterdir()}
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / ".tmpfiles").touch()
    with pytest.raises(ValueError, match="exists already"):
        train(small(steps=1), tmp_path / "other")
