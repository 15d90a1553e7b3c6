from dataclasses import replace

import pytest

from algoformer.model.cost import cost
from algoformer.trace import Unroll
from made_up_results import constructed
from paper.estimates import (
    NOMINAL,
    SLOWER,
    STARTING,
    estimate,
    kind_of_device,
    step_flops,
    usual_device,
)
from paper.result import Result
from paper.runs import TrainedRun
from paper.summary import all_items

RUNS = {item.name: item for item in all_items("short") if isinstance(item, TrainedRun)}
STEPS = 6_000
"""Of the chain."""


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


def on_a_core(item: TrainedRun) -> Result:
    return replace(constructed(item), provenance={"device": "cpu (x86)", "seconds": 400.0})


def test_on_a_cpu_where_nothing_was_measured_it_is_a_guess() -> None:
    run = RUNS["chain/looped"]
    found = estimate(run, [], device="cpu", done=STEPS // 2)
    assert found.seconds == pytest.approx(STEPS // 2 * step_flops(run.experiment) / NOMINAL)
    assert found.basis.startswith("guess")


def test_on_a_gpu_there_are_the_milliseconds_of_one_h200() -> None:
    found = {
        name: estimate(RUNS[name], [], device="cuda")
        for name in ("chain/looped", "representation/standard", "linear/algoformer")
    }
    assert found["chain/looped"].seconds == pytest.approx(STARTING + STEPS * 0.013)
    assert found["representation/standard"].seconds == pytest.approx(STARTING + 8_000 * 0.0027)
    assert found["linear/algoformer"].seconds == pytest.approx(STARTING + 20_000 * 0.005)
    assert found["chain/looped"].basis == "as chain/looped on an H200"


def test_fp32_takes_longer_and_fewer_iterations_less_than_what_was_measured() -> None:
    plain, fp32 = (
        estimate(RUNS[f"depth-linear/{name}"], [], device="cuda").seconds for name in ("holding", "fp32")
    )
    assert fp32 - STARTING == pytest.approx(SLOWER * (plain - STARTING))
    long, half = (RUNS[f"linear/{name}"] for name in ("algoformer", "algoformer-10-10"))
    found = estimate(half, [], device="cuda")
    ratio = step_flops(half.experiment) / step_flops(long.experiment)
    assert found.basis == "estimate from linear/algoformer on an H200"
    assert found.seconds == pytest.approx(STARTING + 20_000 * 0.005 * ratio)


def test_what_is_done_already_takes_no_time() -> None:
    run = RUNS["chain/looped"]
    half = estimate(run, [], device="cuda", done=STEPS // 2)
    assert half.seconds == pytest.approx(STARTING + STEPS // 2 * 0.013)


def test_the_same_run_over_other_steps_is_the_best_basis() -> None:
    run = RUNS["chain/looped"]
    known = [on_a_core(run.with_steps(1_000)), on_a_core(RUNS["chain/algoformer"])]
    # 400 s for 1,000 steps; half of 6,000 is left
    found = estimate(run, known, device="cpu", done=STEPS // 2)
    assert (found.seconds, found.basis) == (pytest.approx(1_200), "as chain/looped")


def shared(item: TrainedRun) -> Result:
    result = on_a_core(item)
    return replace(result, provenance={**result.provenance, "runs at once": 2})


def test_runs_side_by_side_are_a_basis_where_there_is_no_other_and_it_is_said() -> None:
    run = RUNS["chain/looped"]
    found = estimate(run, [shared(run.with_steps(1_000))], device="cpu")
    assert (found.seconds, found.basis) == (pytest.approx(2_400), "as chain/looped, 2 runs at once")
    # a run that was alone tells more about one after the other, even if it is less alike
    alone = on_a_core(RUNS["chain/algoformer"])
    assert estimate(run, [shared(run), alone], device="cpu").basis == "estimate from chain/algoformer"
    on_a_gpu = replace(shared(run), provenance={"device": "NVIDIA L4", "seconds": 1.0, "runs at once": 2})
    assert estimate(run, [on_a_gpu], device="cuda").basis == "as chain/looped on an H200"


def test_another_run_is_scaled_by_its_work() -> None:
    run, other = RUNS["chain/algoformer"], RUNS["chain/looped"]
    found = estimate(run, [on_a_core(other)], device="cpu")
    assert found.seconds == pytest.approx(400 * step_flops(run.experiment) / step_flops(other.experiment))
    assert found.basis == "estimate from chain/looped"


def test_runs_on_another_kind_of_device_say_nothing() -> None:
    other = replace(constructed(RUNS["chain/looped"]), provenance={"device": "cpu (x86)", "seconds": 9.0})
    assert estimate(RUNS["chain/looped"], [other], device="cuda").basis == "as chain/looped on an H200"
    assert usual_device([other], "cuda") == "cpu"
    assert usual_device([], "cuda") == "cuda"
    assert kind_of_device("NVIDIA H200") == "cuda"
