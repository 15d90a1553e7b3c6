"""Every figure at the scale `smoke`, made smaller still: trained, measured, cached, resumed, drawn."""

import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from algoformer.training import load_checkpoint, train
from paper.archive import Archive
from paper.recipes import RECIPES
from paper.reproduce import Workshop, choose
from paper.result import Result
from paper.runs import Item, TrainedRun


class Listener:
    """Remembers what it was told."""

    def __init__(self) -> None:
        self.steps: list[tuple[str, int]] = []
        self.results: list[str] = []
        self.failures: dict[str, str] = {}

    def step(self, name: str, done: int, total: int, metrics: Mapping[str, float]) -> None:
        self.steps.append((name, done))

    def result(self, result: Result, path: Path) -> None:
        assert path.exists()
        self.results.append(result.name)

    def failed(self, name: str, reason: str) -> None:
        self.failures[name] = reason


def tiny(item: Item, steps: int = 2) -> Item:
    if not isinstance(item, TrainedRun):
        return replace(item, prompts=16)
    run = replace(item, prompts=16, deep_prompts=16, farthest=item.far).with_steps(steps)
    changed = replace(run.experiment.training, log_every=1, batch=4)
    return replace(run, experiment=replace(run.experiment, training=changed))


def items_of(figure: str, steps: int = 2) -> list[Item]:
    return [tiny(item, steps) for item in RECIPES[figure].items("smoke")]


def workshop(folder: Path, **options) -> Workshop:
    return Workshop(folder=folder / "runs", archive=Archive(folder / "results"), workers=1, **options)


@pytest.mark.parametrize("figure", ["fig2", "fig3", "fig4", "fig5", "depth"])
def test_a_whole_figure_is_made_and_the_second_time_nothing_is_trained(figure: str, tmp_path: Path) -> None:
    items, first, second = items_of(figure), Listener(), Listener()
    workshop(tmp_path).make(items, first)
    assert not first.failures
    shop = workshop(tmp_path)
    assert {shop.status(item).state for item in items} == {"done"}
    shop.make(items, second)
    assert (second.steps, second.results) == ([], [])
    drawn = dict(RECIPES[figure].draw(shop.archive.by_name(items), "smoke"))
    assert figure in drawn


def test_results_alone_are_enough(tmp_path: Path) -> None:
    items = items_of("fig5")[:1]
    workshop(tmp_path).make(items, Listener())
    elsewhere = Workshop(folder=tmp_path / "empty", archive=Archive(tmp_path / "results"))
    assert elsewhere.status(items[0]).state == "done"


def test_another_number_of_steps_is_another_run(tmp_path: Path) -> None:
    short, long = items_of("fig5")[0], items_of("fig5", steps=3)[0]
    workshop(tmp_path).make([short], Listener())
    shop = workshop(tmp_path)
    status = shop.status(long)
    assert status.state == "other steps"
    assert status.result is not None
    assert status.result.steps == 2
    listener = Listener()
    shop.make([long], listener)
    assert [done for _, done in listener.steps] == [1, 2, 3]


def test_two_names_of_one_configuration_are_trained_once(tmp_path: Path) -> None:
    run = items_of("fig5")[0]
    twin = replace(run, name="else/where")
    listener = Listener()
    shop = workshop(tmp_path)
    shop.make([run, twin], listener)
    assert len(listener.results) == 1
    assert shop.status(twin).state == "done"


def test_a_slice_of_time_leaves_a_run_that_goes_on(tmp_path: Path) -> None:
    run = items_of("fig5", steps=60)[0]
    assert isinstance(run, TrainedRun)
    shop = workshop(tmp_path, max_minutes=0.002)
    shop.make([run], Listener())
    status = shop.status(run)
    assert (status.state, 0 < status.step < 60) == ("begun", True)
    listener = Listener()
    workshop(tmp_path).make([run], listener)
    assert listener.steps[0][1] == status.step + 1
    assert listener.results == [run.name]
    whole = train(run.experiment).model
    cut = load_checkpoint(shop.run_folder(run) / "checkpoint.safetensors").model
    for left, right in zip(whole.parameters(), cut.parameters(), strict=True):
        assert torch.equal(left, right)


def test_a_run_that_is_cut_off_and_carried_in_small_files_goes_on_to_the_same_weights(tmp_path: Path) -> None:
    run = items_of("fig5", steps=60)[0]
    assert isinstance(run, TrainedRun)
    here, there = tmp_path / "here", tmp_path / "there"
    shop = workshop(here, max_minutes=0.002, shard_mb=0.04)
    shop.make([run], Listener())
    taken = shop.status(run).step
    assert 0 < taken < 60
    files = [path for path in (here / "runs").rglob("*") if path.is_file()]
    assert len([path for path in files if "-of-" in path.name]) > 2
    assert max(path.stat().st_size for path in files) <= 40_000
    for path in files:
        copy = there / path.relative_to(here)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(path.read_bytes())
    shutil.rmtree(here)
    listener = Listener()
    elsewhere = workshop(there)
    assert elsewhere.status(run).step == taken
    elsewhere.make([run], listener)
    assert listener.steps[0][1] == taken + 1
    whole = train(run.experiment).model
    carried = load_checkpoint(elsewhere.run_folder(run) / "checkpoint.safetensors").model
    for left, right in zip(whole.parameters(), carried.parameters(), strict=True):
        assert torch.equal(left, right)


def test_weights_without_a_result_are_only_measured(tmp_path: Path) -> None:
    run = items_of("fig5")[0]
    assert isinstance(run, TrainedRun)
    shop = workshop(tmp_path)
    train(run.experiment, shop.run_folder(run))
    assert shop.status(run).state == "trained"
    listener = Listener()
    shop.make([run], listener)
    assert (listener.steps, listener.results) == ([], [run.name])


def test_a_run_that_fails_does_not_stop_the_others(tmp_path: Path) -> None:
    bad, good = items_of("fig5")[:2]
    assert isinstance(bad, TrainedRun)
    shop = workshop(tmp_path)
    folder = shop.run_folder(bad)
    folder.parent.mkdir(parents=True)
    folder.write_text("a file where the folder should be")
    listener = Listener()
    shop.make([bad, good], listener)
    assert list(listener.failures) == list(shop.failures) == [bad.name]
    assert listener.results == [good.name]


def test_a_damaged_checkpoint_is_named_with_its_remedy_and_the_others_go_on(tmp_path: Path) -> None:
    bad, good = items_of("fig5")[:2]
    assert isinstance(bad, TrainedRun)
    shop = workshop(tmp_path)
    folder = shop.run_folder(bad)
    train(bad.experiment, folder)
    (folder / "checkpoint.safetensors").write_bytes(b"x" * 100)
    status = shop.status(bad)
    assert (status.state, status.step) == ("damaged", 0)
    listener = Listener()
    shop.make([bad, good], listener)
    assert listener.results == [good.name]
    assert listener.failures == shop.failures == {bad.name: status.problem}
    assert "checkpoint.safetensors is not a checkpoint, or is cut off" in status.problem
    assert status.problem.endswith(f". Remove {folder} to begin the run anew")
    shutil.rmtree(folder)
    again = Listener()
    workshop(tmp_path).make([bad], again)
    assert again.results == [bad.name]


def test_runs_side_by_side_leave_results_as_they_finish(tmp_path: Path) -> None:
    runs = items_of("fig5")[:2]
    listener = Listener()
    shop = Workshop(folder=tmp_path / "runs", archive=Archive(tmp_path / "results"), workers=2)
    replace(shop, shard_mb=0.04).make(runs, listener)
    assert sorted(listener.results) == sorted(run.name for run in runs)
    assert max(path.stat().st_size for path in (tmp_path / "runs").rglob("*.safetensors")) <= 40_000


def test_seconds_beside_other_runs_are_known_as_such_whoever_measures_them(tmp_path: Path) -> None:
    first, second = (run for run in items_of("fig5", steps=60)[:2] if isinstance(run, TrainedRun))
    shop = Workshop(folder=tmp_path / "runs", archive=Archive(tmp_path / "results"), workers=2)
    replace(shop, max_minutes=1e-3, command="at first").make([first, second], Listener())
    assert {shop.status(run).state for run in (first, second)} == {"begun"}
    # both go on alone: some of their seconds are still those of two
    train(first.experiment, shop.run_folder(first), resume=True)
    alone = replace(workshop(tmp_path), command="later")
    assert [alone.status(run).state for run in (first, second)] == ["trained", "begun"]
    alone.make([first, second], Listener())
    third = replace(second.with_steps(2), name="alone")
    alone.make([third], Listener())
    found = [alone.archive.find(run) for run in (first, second, third)]
    assert [result.provenance.get("runs at once") for result in found if result is not None] == [2, 2, None]
    folders = [alone.run_folder(run) for run in (second, third)]
    cards = [load_checkpoint(folder / "checkpoint.safetensors").card for folder in folders]
    assert [card["command"] for card in cards] == ["at first", "later"]


COMMAND = ["-m", "paper", "fig5", "--only", "linear/algoformer", "--device", "cpu"]


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs SIGKILL")
def test_a_killed_run_goes_on_where_it_was(tmp_path: Path) -> None:
    options = ["--steps", "60", "--folder", str(tmp_path / "runs"), "--results", str(tmp_path / "results")]
    process = subprocess.Popen([sys.executable, *COMMAND, *options])
    deadline = time.monotonic() + 120
    while not list((tmp_path / "runs").glob("*/checkpoint.safetensors")) and time.monotonic() < deadline:
        time.sleep(0.02)
    process.kill()
    process.wait()
    run = choose(RECIPES["fig5"].items("smoke"), ["linear/algoformer"])[0]
    assert isinstance(run, TrainedRun)
    run = run.with_steps(60)
    shop = workshop(tmp_path)
    assert shop.status(run).step in (50, 60), "the checkpoint at step 50, or the end on a quick machine"
    shop.make([run], Listener())
    result = shop.archive.find(run)
    assert result is not None
    whole = train(run.experiment).model
    cut = load_checkpoint(shop.run_folder(run) / "checkpoint.safetensors").model
    for left, right in zip(whole.parameters(), cut.parameters(), strict=True):
        assert torch.equal(left, right)


@pytest.mark.learning
def test_the_error_of_a_trained_model_falls_with_samples(tmp_path: Path) -> None:
    names = ["representation/algoformer", "representation/oracle"]
    items = choose(RECIPES["fig2"].items("smoke"), names)
    assert isinstance(items[0], TrainedRun)
    items[0] = items[0].with_steps(200)
    shop = workshop(tmp_path)
    shop.make(items, Listener())
    model, oracle = (shop.archive.find(item) for item in items)
    assert model is not None
    assert oracle is not None
    curve, best = (result.main.by_sample[result.trained_depth] for result in (model, oracle))
    assert curve.high[-1] < curve.low[0]
    assert curve.final < 0.5
    assert all(high >= low for high, low in zip(curve.high, best.low, strict=True))


def test_patterns_choose_in_the_order_given() -> None:
    items = RECIPES["fig2"].items("smoke")
    names = [item.name for item in choose(items, ["chain/looped", "chain/*", "chain/looped"])]
    assert names == ["chain/looped", "chain/algoformer", "chain/standard", "chain/oracle"]
    assert choose(items, []) == list(items)


@pytest.mark.parametrize(
    ("pattern", "words"), [("chain/loped", "did you mean 'chain/looped'"), ("x*", "'x*'")]
)
def test_a_name_that_fits_nothing_is_refused(pattern: str, words: str) -> None:
    with pytest.raises(ValueError, match=words.replace("*", r"\*")):
        choose(RECIPES["fig2"].items("smoke"), [pattern])
