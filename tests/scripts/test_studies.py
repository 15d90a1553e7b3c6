"""The studies compare what they say they compare."""

import argparse
import json
import math
import time
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from algoformer.checkpoint import LATEST
from algoformer.common.files import append_line
from algoformer.evaluation import evaluation_prompts
from algoformer.model.cost import cost
from algoformer.tasks import ChainOfSolves
from algoformer.trace import Unroll
from algoformer.training import Callback, build_model, load_checkpoint, train
from scripts.studies import chain, puzzles
from scripts.studies.runs import StudyRun, claimed, folder_of, kept_file, make

TINY = chain.Size(
    dim=3, smallest=0.4, rounds=2, pairs=3, width=8, heads=2, training={"steps": 2, "batch_size": 4}
)


@pytest.mark.parametrize("size", chain.SIZES)
def test_all_kinds_of_loop_have_the_same_parameters_and_flops(size: str) -> None:
    sizes = chain.SIZES[size]
    shape: dict[str, Any] = {
        "dim": sizes.dim + 1,
        "out": 1,
        "context": sizes.dim,
        "width": sizes.width,
    }
    bills = [cost(chain.program_of(kind, sizes), **shape) for kind in chain.KINDS]
    assert len({bill.parameters for bill in bills}) == 1
    assert len({bill.work.layers for bill in bills}) == 1


def test_all_kinds_draw_the_same_numbers_of_layer_calls() -> None:
    for size in chain.SIZES.values():
        inner = chain.training_of("nested-random", size, 0).inner_depth
        depth = chain.training_of("flat-random", size, 0).depth
        assert inner is not None
        assert depth is not None
        calls = [size.rounds * (1 + steps) for steps in inner.choices]
        assert calls == [2 * steps for steps in depth.choices]


@pytest.mark.parametrize("kind", ["nested", "flat"])
def test_errors_are_those_after_each_round(kind: str) -> None:
    run = next(run for run in chain.study_runs(TINY, [0]) if run.kind == kind)
    model = build_model(run.experiment).eval()
    found = chain.errors_of(model, run, 3)
    prompt = evaluation_prompts(ChainOfSolves(size=3, rounds=4), count=chain.PROMPTS)
    assert prompt.stages is not None
    with torch.no_grad():
        for outer in range(1, 5):
            steps = outer if kind == "nested" else 3 * outer
            wrong = model(prompt, Unroll(steps=steps, window=1)).final - prompt.stages[outer - 1]
            expected = wrong.square().mean(dim=(1, 2)).double().numpy()
            np.testing.assert_allclose(found[outer - 1], expected, rtol=1e-4, atol=1e-7)


def test_a_study_continues_where_it_was_stopped(tmp_path: Path) -> None:
    runs = [run for run in chain.study_runs(TINY, [0]) if run.kind in ("nested", "flat")]
    measured: list[str] = []

    def measure(run: StudyRun, model: Any) -> dict[str, Any]:
        measured.append(run.name)
        return {"summary": {"parameters": sum(weight.numel() for weight in model.parameters())}}

    options = argparse.Namespace(only=["nested/*"], list=False, steps=None, runs=tmp_path, device="cpu")
    make(runs, measure, options, tmp_path / "found.json")
    options.only = ["*"]
    make(runs, measure, options, tmp_path / "found.json")
    assert measured == ["nested/seed0", "flat/seed0"]
    found = json.loads((tmp_path / "found.json").read_text())["runs"]
    assert found["nested/seed0"]["parameters"] == found["flat/seed0"]["parameters"]
    assert found["flat/seed0"]["provenance"]["step"] == 2


def share(folder: Path) -> None:
    """Make the tiny study in a folder, as one of several processes; note every run that is measured."""
    torch.set_num_threads(1)

    def measure(run: StudyRun, model: Any) -> dict[str, Any]:
        append_line(folder / "measured.txt", run.name)
        return {"summary": {}}

    options = argparse.Namespace(only=["*"], list=False, steps=None, runs=folder, device="cpu")
    make(list(chain.study_runs(TINY, [0])), measure, options, folder / "found.json")


def test_two_processes_share_a_study_and_make_every_run_once(tmp_path: Path) -> None:
    names = [run.name for run in chain.study_runs(TINY, [0])]
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as workers:
        list(workers.map(share, [tmp_path, tmp_path]))
    assert sorted((tmp_path / "measured.txt").read_text().split()) == sorted(names)
    assert set(json.loads((tmp_path / "found.json").read_text())["runs"]) == set(names)


def test_a_run_of_another_process_is_left_to_it(tmp_path: Path) -> None:
    runs = [run for run in chain.study_runs(TINY, [0]) if run.kind in {"nested", "flat"}]
    late = time.monotonic()
    options = argparse.Namespace(only=["*"], list=False, steps=None, runs=tmp_path, device="cpu", until=late)
    file = tmp_path / "found.json"
    with claimed(tmp_path / "found" / "nested-seed0") as mine:
        assert mine
        with pytest.raises(SystemExit, match="the same command continues"):
            make(runs, lambda run, model: {}, options, file)
        assert set(json.loads(file.read_text())["runs"]) == {"flat/seed0"}
    options.until = math.inf
    make(runs, lambda run, model: {}, options, file)
    assert set(json.loads(file.read_text())["runs"]) == {"flat/seed0", "nested/seed0"}


def test_a_study_that_is_out_of_time_stops_inside_a_run_and_continues_there(tmp_path: Path) -> None:
    long = replace(TINY, training={"steps": 10**6, "batch_size": 4})
    late = time.monotonic()
    options = argparse.Namespace(only=["*"], list=False, steps=None, runs=tmp_path, device="cpu", until=late)
    steps = []
    for _ in range(2):
        with pytest.raises(SystemExit, match="the time is over"):
            make(list(chain.study_runs(long, [0])), pytest.fail, options, tmp_path / "found.json")
        card = load_checkpoint(tmp_path / "found" / "nested-seed0" / "checkpoint.safetensors").card
        steps.append(card["step"])
    assert 0 < steps[0] < steps[1] < 10**6
    assert not (tmp_path / "found.json").exists()


@pytest.mark.parametrize("size", ["sudoku4", "hops-small", "addition-small"])
def test_puzzles_are_answered_by_models_of_equal_flops_and_of_equal_parameters(size: str) -> None:
    runs = {run.kind: run for run in puzzles.puzzle_runs(size, [0], "", None)}
    task, width = puzzles.SIZES[size].task(""), puzzles.SIZES[size].width
    bills = {
        kind: cost(run.experiment.program, dim=task.dim, out=task.out, context=task.context, width=width)
        for kind, run in runs.items()
    }
    assert bills["looped"].work.layers == bills["standard-equal-flops"].work.layers
    assert bills["looped"].work.layers == bills["two-states"].work.layers
    assert bills["looped"].parameters == bills["standard-equal-parameters"].parameters
    # two states begin with a learned vector each
    assert bills["two-states"].parameters == bills["looped"].parameters + 2 * width


@pytest.mark.parametrize("size", ["hops-full", "addition-full"])
def test_where_every_stage_has_a_target_the_loop_has_iterations_for_all_of_them(size: str) -> None:
    runs = {run.kind: run.experiment for run in puzzles.puzzle_runs(size, [0], "", None)}
    looped, plain = runs["looped"], runs["standard-equal-parameters"]
    stages = looped.task.hops if size.startswith("hops") else looped.task.numbers
    assert looped.training.stage_steps is not None
    assert puzzles.SIZES[size].steps == stages * looped.training.stage_steps == looped.training.window
    assert plain.training.loss == "mean"
    assert len(runs) == 2


def test_a_curriculum_trains_on_with_the_weights_of_the_part_before(tmp_path: Path) -> None:
    options = argparse.Namespace(only=["*"], list=False, steps=None, runs=tmp_path, device="cpu")
    (run,) = puzzles.parity_runs([0], 1)
    file = tmp_path / "parity.json"
    measure = partial(puzzles.measure_parity, prompts=16)
    found = make([run], measure, options, file)["runs"]["looped/seed0"]
    assert [part["data"]["task"]["length"] for part in found["before"]] == [8]
    assert set(found["summary"]) == {"20", "40", "100"}
    assert len(puzzles.table_of({"looped/seed0": found}).rows) == 3
    # one step of each part, from the weights of the seed
    model = build_model(run.experiment)
    for part in (*run.before, run.experiment):
        model = train(part, initial=model).model
    last = load_checkpoint(tmp_path / "parity" / "looped-seed0" / "checkpoint.safetensors").model
    for name, weight in model.state_dict().items():
        torch.testing.assert_close(last.state_dict()[name], weight)
    # nothing is trained again, and another curriculum is another run
    assert make([run], pytest.fail, options, file)["runs"]["looped/seed0"] == found


def test_checkpoints_of_wanted_steps_are_kept(tmp_path: Path) -> None:
    run = next(chain.study_runs(TINY, [0]))
    training = replace(run.experiment.training, steps=9, checkpoint_every=2, log_every=1)
    run = replace(run, experiment=replace(run.experiment, training=training), keep=(2, 6))
    chosen = argparse.Namespace(only=["*"], list=False, steps=None, device="cpu", runs=tmp_path)
    make([run], lambda *_: {}, chosen, tmp_path / "study.json")
    folder = folder_of(run, tmp_path, tmp_path / "study.json")
    kept = {path.name: load_checkpoint(path) for path in folder.glob("kept-*")}
    assert {name: one.card["step"] for name, one in kept.items()} == {
        kept_file(folder, step).name: step for step in (2, 6)
    }

    class StopAtSix(Callback):
        def on_log(self, step: int, metrics: Mapping[str, float]) -> None:
            if step == 6:
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(run.experiment, tmp_path / "stopped", callbacks=(StopAtSix(),), tensorboard=False)
    stopped = load_checkpoint(tmp_path / "stopped" / LATEST)
    assert stopped.card["step"] == 6
    there = kept["kept-6.safetensors"].model.parameters()
    assert all(torch.equal(*pair) for pair in zip(there, stopped.model.parameters(), strict=True))
