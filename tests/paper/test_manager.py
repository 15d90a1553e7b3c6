"""Every figure at the scale `tiny`, made smaller still: trained, measured, cached, resumed, drawn."""

import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from algoformer.training import load_checkpoint, train
from paper.archive import Archive
from paper.manager import RunManager, choose
from paper.recipes import RECIPES
from paper.runs import Item, RunSpec


class Listener:
    """Remembers what it was told."""

    def __init__(self) -> None:
        self.steps: list[tuple[str, int]] = []
        self.results: list[str] = []
        self.failures: dict[str, str] = {}

    def step(self, name: str, done: int, total: int, metrics: Mapping[str, float]) -> None:
        self.steps.append((name, done))

    def result(self, name: str, words: str, path: Path) -> None:
        assert path.exists()
        self.results.append(name)

    def failed(self, name: str, reason: str) -> None:
        self.failures[name] = reason


def tiny(item: Item, steps: int = 2) -> Item:
    if not isinstance(item, RunSpec):
        return replace(item, prompts=16)
    run = replace(item, prompts=16, deep_prompts=16, farthest=item.far).with_steps(steps)
    changed = replace(run.experiment.training, log_every=1, batch_size=4)
    return replace(run, experiment=replace(run.experiment, training=changed))


def items_of(figure: str, steps: int = 2) -> list[Item]:
    return [tiny(item, steps) for item in RECIPES[figure].items("tiny")]


def manager_in(folder: Path, **options) -> RunManager:
    return RunManager(folder=folder / "runs", archive=Archive(folder / "results"), workers=1, **options)


@pytest.mark.parametrize("figure", ["fig2", "fig3", "fig4", "fig5", "depth"])
def test_a_whole_figure_is_made_and_the_second_time_nothing_is_trained(figure: str, tmp_path: Path) -> None:
    items, first, second = items_of(figure), Listener(), Listener()
    manager_in(tmp_path).make(items, first)
    assert not first.failures
    manager = manager_in(tmp_path)
    assert {manager.status(item).state for item in items} == {"done"}
    manager.make(items, second)
    assert (second.steps, second.results) == ([], [])
    drawn = dict(RECIPES[figure].draw(manager.archive.by_name(items), "tiny"))
    assert figure in drawn


def test_results_alone_are_enough(tmp_path: Path) -> None:
    items = items_of("fig5")[:1]
    manager_in(tmp_path).make(items, Listener())
    elsewhere = RunManager(folder=tmp_path / "empty", archive=Archive(tmp_path / "results"))
    assert elsewhere.status(items[0]).state == "done"


def test_another_number_of_steps_is_another_run(tmp_path: Path) -> None:
    short, long = items_of("fig5")[0], items_of("fig5", steps=3)[0]
    manager_in(tmp_path).make([short], Listener())
    manager = manager_in(tmp_path)
    status = manager.status(long)
    assert status.state == "other steps"
    assert status.result is not None
    assert status.result.steps == 2
    listener = Listener()
    manager.make([long], listener)
    assert [done for _, done in listener.steps] == [1, 2, 3]


def test_two_names_of_one_configuration_are_trained_once(tmp_path: Path) -> None:
    run = items_of("fig5")[0]
    twin = replace(run, name="else/where")
    listener = Listener()
    manager = manager_in(tmp_path)
    manager.make([run, twin], listener)
    assert len(listener.results) == 1
    assert manager.status(twin).state == "done"


def test_a_slice_of_time_leaves_a_run_that_goes_on(tmp_path: Path) -> None:
    run = items_of("fig5", steps=60)[0]
    assert isinstance(run, RunSpec)
    manager = manager_in(tmp_path, max_minutes=0.002)
    manager.make([run], Listener())
    status = manager.status(run)
    assert (status.state, 0 < status.step < 60) == ("begun", True)
    listener = Listener()
    manager_in(tmp_path).make([run], listener)
    assert listener.steps[0][1] == status.step + 1
    assert listener.results == [run.name]
    whole = train(run.experiment).model
    cut = load_checkpoint(manager.run_folder(run) / "checkpoint.safetensors").model
    for left, right in zip(whole.parameters(), cut.parameters(), strict=True):
        assert torch.equal(left, right)


def test_a_run_that_is_cut_off_and_carried_elsewhere_goes_on_to_the_same_weights(tmp_path: Path) -> None:
    run = items_of("fig5", steps=60)[0]
    assert isinstance(run, RunSpec)
    here, there = tmp_path / "here", tmp_path / "there"
    manager = manager_in(here, max_minutes=0.002)
    manager.make([run], Listener())
    taken = manager.status(run).step
    assert 0 < taken < 60
    files = [path for path in (here / "runs").rglob("*") if path.is_file()]
    for path in files:
        copy = there / path.relative_to(here)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(path.read_bytes())
    shutil.rmtree(here)
    listener = Listener()
    elsewhere = manager_in(there)
    assert elsewhere.status(run).step == taken
    elsewhere.make([run], listener)
    assert listener.steps[0][1] == taken + 1
    whole = train(run.experiment).model
    carried = load_checkpoint(elsewhere.run_folder(run) / "checkpoint.safetensors").model
    for left, right in zip(whole.parameters(), carried.parameters(), strict=True):
        assert torch.equal(left, right)


def test_weights_without_a_result_are_only_measured(tmp_path: Path) -> None:
    run = items_of("fig5")[0]
    assert isinstance(run, RunSpec)
    manager = manager_in(tmp_path)
    train(run.experiment, manager.run_folder(run))
    assert manager.status(run).state == "trained"
    listener = Listener()
    manager.make([run], listener)
    assert (listener.steps, listener.results) == ([], [run.name])


def test_a_run_that_fails_does_not_stop_the_others(tmp_path: Path) -> None:
    bad, good = items_of("fig5")[:2]
    assert isinstance(bad, RunSpec)
    manager = manager_in(tmp_path)
    folder = manager.run_folder(bad)
    folder.parent.mkdir(parents=True)
    folder.write_text("a file where the folder should be")
    listener = Listener()
    manager.make([bad, good], listener)
    assert list(listener.failures) == list(manager.failures) == [bad.name]
    assert listener.results == [good.name]


def test_a_damaged_checkpoint_is_named_with_its_remedy_and_the_others_go_on(tmp_path: Path) -> None:
    bad, good = items_of("fig5")[:2]
    assert isinstance(bad, RunSpec)
    manager = manager_in(tmp_path)
    folder = manager.run_folder(bad)
    train(bad.experiment, folder)
    (folder / "checkpoint.safetensors").write_bytes(b"x" * 100)
    status = manager.status(bad)
    assert (status.state, status.step) == ("damaged", 0)
    listener = Listener()
    manager.make([bad, good], listener)
    assert listener.results == [good.name]
    assert listener.failures == manager.failures == {bad.name: status.problem}
    assert "checkpoint.safetensors is not a checkpoint, or is cut off" in status.problem
    assert status.problem.endswith(f". Remove {folder} to begin the run anew")
    shutil.rmtree(folder)
    again = Listener()
    manager_in(tmp_path).make([bad], again)
    assert again.results == [bad.name]


def test_runs_side_by_side_leave_results_as_they_finish(tmp_path: Path) -> None:
    runs = items_of("fig5")[:2]
    listener = Listener()
    manager = RunManager(folder=tmp_path / "runs", archive=Archive(tmp_path / "results"), workers=2)
    manager.make(runs, listener)
    assert sorted(listener.results) == sorted(run.name for run in runs)


def test_a_run_that_goes_on_keeps_the_command_that_asked_for_it(tmp_path: Path) -> None:
    first, second = (run for run in items_of("fig5", steps=60)[:2] if isinstance(run, RunSpec))
    manager = RunManager(folder=tmp_path / "runs", archive=Archive(tmp_path / "results"), workers=2)
    replace(manager, max_minutes=1e-3, command="at first").make([first, second], Listener())
    assert {manager.status(run).state for run in (first, second)} == {"begun"}
    later = replace(manager_in(tmp_path), command="later")
    third = replace(second.with_steps(2), name="third")
    later.make([second, third], Listener())
    folders = [later.run_folder(run) for run in (second, third)]
    cards = [load_checkpoint(folder / "checkpoint.safetensors").card for folder in folders]
    assert [card["command"] for card in cards] == ["at first", "later"]


@pytest.mark.learning
def test_the_error_of_a_trained_model_falls_with_samples(tmp_path: Path) -> None:
    names = ["representation/algoformer", "representation/oracle"]
    items = choose(RECIPES["fig2"].items("tiny"), names)
    assert isinstance(items[0], RunSpec)
    items[0] = items[0].with_steps(200)
    manager = manager_in(tmp_path)
    manager.make(items, Listener())
    model, oracle = (manager.archive.find(item) for item in items)
    assert model is not None
    assert oracle is not None
    curve, best = (result.main.by_sample[result.trained_depth] for result in (model, oracle))
    assert curve.high[-1] < curve.low[0]
    assert curve.final < 0.5
    assert all(high >= low for high, low in zip(curve.high, best.low, strict=True))


def test_patterns_choose_in_the_order_given() -> None:
    items = RECIPES["fig2"].items("tiny")
    names = [item.name for item in choose(items, ["chain/looped", "chain/*", "chain/looped"])]
    assert names == ["chain/looped", "chain/algoformer", "chain/standard", "chain/oracle"]
    assert choose(items, []) == list(items)


@pytest.mark.parametrize(
    ("pattern", "words"), [("chain/loped", "did you mean 'chain/looped'"), ("x*", "'x*'")]
)
def test_a_name_that_fits_nothing_is_refused(pattern: str, words: str) -> None:
    with pytest.raises(ValueError, match=words.replace("*", r"\*")):
        choose(RECIPES["fig2"].items("tiny"), [pattern])
