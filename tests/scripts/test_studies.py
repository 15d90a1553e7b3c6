"""The studies compare what they say they compare."""

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from algoformer.evaluation import evaluation_prompts
from algoformer.model.cost import cost
from algoformer.tasks import ChainOfSolves
from algoformer.trace import Unroll
from algoformer.training import build_model
from scripts.studies import chain, puzzles
from scripts.studies.runs import StudyRun, make

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


def test_boards_are_read_by_models_of_equal_flops_and_of_equal_parameters() -> None:
    runs = {run.kind: run for run in puzzles.sudoku_runs("sudoku4", [0], "", None)}
    bills = {
        kind: cost(run.experiment.program, dim=5, out=4, context=16, width=32) for kind, run in runs.items()
    }
    assert bills["looped"].work.layers == bills["standard-equal-flops"].work.layers
    assert bills["looped"].parameters == bills["standard-equal-parameters"].parameters
