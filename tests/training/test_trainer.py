import json
import logging
import os
import shutil
import signal
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from training.small import same_weights, small, timeless

from algoformer import programs, tasks
from algoformer.evaluation.prompts import evaluation_prompts, held_out_seed
from algoformer.training import (
    Checkpoint,
    Ramp,
    build_model,
    load_checkpoint,
    load_experiment,
    read_metrics,
    save_checkpoint,
    train,
)
from algoformer.training.trainer import prompt_seed


def test_the_same_seed_gives_the_same_run_and_another_another() -> None:
    one, two, other = train(small()), train(small()), train(small(seed=1))
    assert same_weights(one.model, two.model)
    assert timeless(one.metrics) == timeless(two.metrics)
    assert not same_weights(one.model, other.model)


def test_a_run_writes_what_it_says_and_returns(tmp_path: Path) -> None:
    seen = []
    experiment = small(dims=Ramp(start=1, increment=1, interval=0.5), precision="tf32")
    run = train(experiment, tmp_path / "run", progress=lambda *news: seen.append(news))
    assert run.finished
    assert sorted(path.name for path in (tmp_path / "run").iterdir()) == [
        "checkpoint.safetensors",
        "config.json",
        "metrics.jsonl",
    ]
    assert load_experiment(tmp_path / "run") == experiment
    assert [row["step"] for row in run.metrics] == [5, 10, 12]
    assert read_metrics(tmp_path / "run") == list(run.metrics)
    assert [(done, total) for done, total, _ in seen] == [(5, 12), (10, 12), (12, 12)]
    last = run.metrics[-1]
    names = {"step", "loss", "error", "rate", "loops", "dims", "samples", "seconds", "steps_per_second"}
    assert set(last) == names
    assert (last["loops"], last["dims"], last["samples"], last["rate"]) == (3, 2, 4, 1e-3)
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
        train(small(learning_rate=0.5), tmp_path / "run", resume=True)
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

    train(small(), tmp_path / "run", progress=intrude)
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
@pytest.mark.parametrize("settings", [{}, {"burn_in": (0, 2), "schedule": "cosine", "clip": 0.1}])
def test_an_interrupt_saves_and_the_run_goes_on_as_if_nothing_had_been(
    tmp_path: Path, moment: int, settings: dict[str, Any]
) -> None:
    def interrupt(done: int, total: int, metrics: Any) -> None:
        if done == moment:
            os.kill(os.getpid(), signal.SIGINT)

    experiment = small(**settings)
    whole = train(experiment)
    with pytest.raises(KeyboardInterrupt):
        train(experiment, tmp_path / "run", progress=interrupt)
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
    with pytest.raises(FloatingPointError, match="last good checkpoint is kept.*lower learning rate"):
        train(small(checkpoint_every=1, log_every=100), tmp_path / "run")
    found = load_checkpoint(tmp_path / "run" / "checkpoint.safetensors")
    assert found.card["step"] == poisoned - 1
    assert all(weight.isfinite().all() for weight in found.model.parameters())


def test_nonsense_is_noticed_at_the_next_row_at_the_latest(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(FloatingPointError, match="no longer a number at step 5"):
        train(small(learning_rate=1e30))


def test_a_full_disk_is_named_and_keeps_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import resource

    experiment = small()
    whole = train(experiment)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)

    def fill(done: int, total: int, metrics: Any) -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, before[1]))

    try:
        with pytest.raises(OSError, match=r"checkpoint\.safetensors could not be written"):
            train(experiment, tmp_path / "run", progress=fill)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert load_checkpoint(tmp_path / "run" / "checkpoint.safetensors").card["step"] == 4
    assert not list((tmp_path / "run").glob(".*"))
    rest = train(experiment, tmp_path / "run", resume=True)
    assert same_weights(whole.model, rest.model)
    assert timeless(whole.metrics) == timeless(rest.metrics)


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("stopped") / "run"

    def stop(done: int, total: int, metrics: Any) -> None:
        if done == 10:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(small(), folder, progress=stop)
    return folder


def _damage(folder: Path, **changes: Any) -> None:
    path = folder / "checkpoint.safetensors"
    found = load_checkpoint(path)
    card, state = dict(found.card), dict(found.state)
    card |= changes.get("card", {})
    for name, value in changes.get("state", {}).items():
        if value is None:
            del state[name]
        else:
            state[name] = value
    model = changes.get("model", found.model)
    save_checkpoint(path, Checkpoint(model=model, task=found.task, card=card, state=state))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"card": {"step": None}}, "step must lie in"),
        ({"card": {"step": 13}}, "step must lie in"),
        ({"card": {"step": -1}}, "step must lie in"),
        ({"card": {"seconds": "long"}}, "seconds must be"),
        ({"card": {"experiment": {}}}, "not one of this experiment's"),
        ({"state": {"generator": None}}, "lacks the state of the random generator"),
        ({"state": {"sums": None}}, "lacks 'sums'"),
        ({"state": {"optimizer.read_out.bias.exp_avg": None}}, r"lacks 'optimizer\.read_out\.bias\.exp_avg'"),
        ({"state": {"optimizer.read_out.bias.exp_avg": torch.zeros(3)}}, "needed is"),
        ({"state": {"optimizer.read_out.bias.step": torch.zeros((), dtype=torch.int64)}}, "needed is"),
        ({"model": build_model(small(programs.looped(steps=3, heads=2)))}, "weights are not this experiment's"),
    ],
)
def test_a_checkpoint_that_a_run_cannot_go_on_from_is_refused(
    stopped: Path, tmp_path: Path, changes: Any, words: str
) -> None:
    folder = tmp_path / "run"
    shutil.copytree(stopped, folder)
    _damage(folder, **changes)
    with pytest.raises(ValueError, match=words):
        train(small(), folder, resume=True)


def test_a_run_from_another_kind_of_device_goes_on_with_new_prompts(
    stopped: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "run"
    shutil.copytree(stopped, folder)
    _damage(folder, state={"generator": torch.zeros(16, dtype=torch.uint8)})  # as CUDA's is
    with caplog.at_level(logging.WARNING, "algoformer.training"):
        assert train(small(), folder, resume=True).finished
    assert "another kind of device" in caplog.text


@settings(max_examples=25)
@given(st.lists(st.sampled_from(['{"step": 5', "null", "[]", '{"loss": 1}', "\x00", "é" * 9, '{"step": "x"}'])))
def test_damaged_metrics_do_not_stop_a_run(tmp_path_factory: pytest.TempPathFactory, lines: list[str]) -> None:
    folder = tmp_path_factory.mktemp("damaged") / "run"
    run = train(small(steps=2, log_every=1), folder)
    with (folder / "metrics.jsonl").open("a", encoding="utf-8") as file:
        file.write("\n".join(lines))
    again = train(small(steps=2, log_every=1), folder, resume=True)
    assert list(again.metrics) == list(run.metrics)
    assert [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()] == list(run.metrics)


@given(st.integers(0, 2**31 - 1), st.integers(0, 2**31 - 1))
def test_training_and_evaluation_never_draw_from_the_same_seed(training: int, evaluation: int) -> None:
    # PyTorch's CPU generator looks at 32 bits
    assert prompt_seed(training) % 2**32 != held_out_seed(evaluation) % 2**32
    assert prompt_seed(training) < 2**32


def test_a_run_is_not_trained_on_the_prompts_it_is_measured_on() -> None:
    task = tasks.LinearRegression(dim=2, points=4)
    held_out = evaluation_prompts(task, count=64).rows.flatten(1)
    trained = task.sample(64, generator=torch.Generator().manual_seed(prompt_seed(0))).rows.flatten(1)
    assert torch.cdist(held_out, trained).min() > 1e-3


@pytest.mark.learning
def test_a_tiny_algoformer_learns_to_regress_in_context() -> None:
    experiment = small(
        programs.algoformer(steps=5, heads=4),
        tasks.LinearRegression(dim=2, points=9),
        steps=700,
        batch=32,
        window=3,
        learning_rate=3e-3,
        schedule="cosine",
        warmup=0.05,
        clip=1.0,
        dims=Ramp(start=1, increment=1, interval=0.1),
        log_every=100,
    )
    from dataclasses import replace

    model = train(replace(experiment, width=32)).model
    prompts = evaluation_prompts(experiment.task, count=512)
    with torch.no_grad():
        answers = model(prompts).final
    error = (answers - prompts.targets).square().mean(0).squeeze(-1) / experiment.task.scale
    # predicting zero costs 1 at every question; least squares knows everything from the third on
    assert error[-1] < 0.15, error.tolist()
    assert error[-1] < 0.3 * error[1]
