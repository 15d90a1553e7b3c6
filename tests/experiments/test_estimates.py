from dataclasses import replace

import pytest

from algoformer.experiments.estimates import NOMINAL, estimate, kind_of_device, step_flops, usual_device
from algoformer.experiments.runs import TrainedRun
from algoformer.experiments.summary import all_items
from algoformer.model.cost import cost
from algoformer.trace import Unroll
from experiments.constructed import constructed

RUNS = {item.name: item for item in all_items("short") if isinstance(item, TrainedRun)}


def test_a_step_costs_the_mean_over_its_burn_in() -> None:
    run = RUNS["representation/algoformer"].experiment
    sizes = {"dim": 20, "out": 1, "context": 82, "width": 256, "batch": 64}
    bills = [
        cost(run.program, unroll=Unroll(steps=20 + extra, window=15, grad_steps=20), **sizes).training
        for extra in (0, 0, 10, 20)
    ]
    assert step_flops(run) == pytest.approx(sum(bills) / 4)


def test_a_model_without_a_loop_runs_once() -> None:
    run = RUNS["representation/standard"].experiment
    bill = cost(run.program, dim=20, out=1, context=82, width=256, batch=64)
    assert step_flops(run) == bill.training


def test_where_nothing_was_measured_it_is_a_guess() -> None:
    run = RUNS["chain/looped"]
    found = estimate(run, [], device="cuda", done=10_000)
    assert found.seconds == pytest.approx(30_000 * step_flops(run.experiment) / NOMINAL["cuda"])
    assert found.basis.startswith("guess")


def test_the_same_run_over_other_steps_is_the_best_basis() -> None:
    run = RUNS["chain/looped"]
    known = [constructed(run.with_steps(1_000)), constructed(RUNS["chain/algoformer"])]
    # 400 s for 1,000 steps; half of 40,000 is left
    found = estimate(run, known, device="cuda", done=20_000)
    assert (found.seconds, found.basis) == (pytest.approx(8_000), "as chain/looped")


def test_another_run_is_scaled_by_its_work() -> None:
    run, other = RUNS["chain/algoformer"], RUNS["chain/looped"]
    found = estimate(run, [constructed(other)], device="cuda")
    assert found.seconds == pytest.approx(400 * step_flops(run.experiment) / step_flops(other.experiment))
    assert found.basis == "estimate from chain/looped"


def test_runs_on_another_kind_of_device_say_nothing() -> None:
    other = replace(constructed(RUNS["chain/looped"]), provenance={"device": "cpu (x86)", "seconds": 9.0})
    assert estimate(RUNS["chain/looped"], [other], device="cuda").basis.startswith("guess")
    assert usual_device([other], "cuda") == "cpu"
    assert usual_device([], "cuda") == "cuda"
    assert kind_of_device("NVIDIA H200") == "cuda"
