from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from algoformer.evaluation import errors_at, evaluate, evaluation_prompts
from algoformer.model.presets import algoformer, standard
from algoformer.tasks import ChainOfThought, LinearRegression
from algoformer.training import build_model, train
from paper.measuring import (
    measure_model,
    measure_reference,
    measure_run,
    read_at,
)
from paper.runs import BaselineSpec, RunSpec, trained
from paper.summary import all_items

CHAIN = ChainOfThought(dim=2, points=5, layers=2)


def small(program=None, task=CHAIN, **changes) -> RunSpec:
    run = trained("a/b", "label", task, program or algoformer(heads=2, steps=3), "tiny", window=2)
    return replace(run, prompts=16, deep_prompts=8, **changes).with_steps(2)


def test_everything_early_and_then_less_is_read() -> None:
    assert read_at(20, 200)[:31] == [*range(1, 31), 35]
    assert read_at(20, 200)[-2:] == [199, 200]
    assert read_at(6, 12) == list(range(1, 13))
    assert read_at(250, 200)[-1] == 250


@pytest.mark.parametrize("deep_prompts", [8, 16], ids=["fewer prompts far away", "one pass"])
def test_a_model_is_measured_as_evaluate_measures_it(deep_prompts: int) -> None:
    run = replace(small(), deep_prompts=deep_prompts, far=40, farthest=100)
    model = build_model(run.experiment).eval()
    found = measure_model(run, model)["clean"]
    prompt = evaluation_prompts(run.task, count=16)
    for depth in (3, 40):
        expected = evaluate(model, prompt, steps=depth, window=1).by_sample
        np.testing.assert_allclose(found.by_sample[depth].error, expected.error, rtol=1e-4)
        np.testing.assert_allclose(found.by_sample[depth].high, expected.high, rtol=1e-4)
    every = evaluate(model, prompt, steps=30).by_step
    assert found.by_step.x[:30] == every.x
    np.testing.assert_allclose(found.by_step.error[:30], every.error, rtol=1e-4)
    few = prompt.select(slice(0, deep_prompts))
    sweep = errors_at(model, few, depths=(3, 40, 50, 100))["clean"].by_depth
    assert found.deep is not None
    assert found.deep.x == sweep.x
    np.testing.assert_allclose(found.deep.error, sweep.error, rtol=1e-4)


@pytest.mark.parametrize("program", [algoformer(heads=2, steps=3), standard(1, heads=2)])
def test_the_error_of_each_prompt_is_kept(program) -> None:
    run = small(program=program)
    model = build_model(run.experiment).eval()
    found = measure_model(run, model)["clean"]
    assert len(found.by_prompt) == 16
    alone = evaluation_prompts(run.task, count=16).select(slice(5, 6))
    expected = evaluate(model, alone, steps=run.trained_depth, window=1).error
    assert found.by_prompt[5] == pytest.approx(expected, rel=1e-4)
    assert np.mean(found.by_prompt) == pytest.approx(found.by_sample[run.trained_depth].final, rel=1e-5)


def test_a_model_without_a_loop_is_measured_once() -> None:
    run = small(program=standard(1, heads=2))
    found = measure_model(run, build_model(run.experiment).eval())["clean"]
    assert tuple(found.by_sample) == (1,)
    assert found.by_step.x == (1,)
    assert found.deep is None


def test_where_there_is_noise_both_kinds_of_answers_count() -> None:
    task = LinearRegression(dim=2, points=5, noise=1.0)
    run = replace(small(task=task), prompts=512, deep_prompts=512, far=4, farthest=4)
    found = measure_model(run, build_model(run.experiment).eval())
    # noise of variance 1 on the answers, divided by dim = 2
    difference = found["shown"].by_step.final - found["clean"].by_step.final
    assert difference == pytest.approx(0.5, abs=0.15)


def test_a_run_that_is_not_finished_is_not_measured(tmp_path: Path) -> None:
    run = small().with_steps(500)
    train(run.experiment, tmp_path / "run", max_minutes=1e-6)
    with pytest.raises(ValueError, match=r"is at step \d+ of 500: train it first"):
        measure_run(run, tmp_path / "run", device="cpu", command="")


def test_the_result_says_where_it_comes_from(tmp_path: Path) -> None:
    run = small()
    train(run.experiment, tmp_path / "run")
    result = measure_run(run, tmp_path / "run", device="cpu", command="python -m paper it")
    facts = result.provenance
    assert facts["command"] == "python -m paper it"
    assert (facts["seed"], facts["steps"], facts["precision"]) == (0, 2, "fp32")
    assert str(facts["device"]).startswith("cpu")
    assert facts["commit"]
    assert float(facts["seconds"] or 0) > 0
    assert result.history["step"] == (2,)
    assert result.experiment == run.experiment


ITEMS = {item.name: item for item in all_items("tiny")}
REFERENCES = {name: item for name, item in ITEMS.items() if isinstance(item, BaselineSpec)}


@pytest.fixture(scope="module")
def references():
    return {name: measure_reference(item, command="") for name, item in REFERENCES.items()}


def test_newton_reaches_rounding_and_gradient_descent_does_not(references) -> None:
    newton, descent = (references[f"linear/{name}"].main.by_step for name in ("newton", "fixed-step"))
    assert newton.at(30) < 1e-10
    assert descent.at(20) < descent.at(5) < descent.at(1)
    assert newton.at(30) < descent.at(30)


def test_no_reference_beats_the_oracle_beyond_its_band(references) -> None:
    for name, result in references.items():
        oracle = references.get(f"{name.split('/')[0]}/oracle")
        curve = result.main.by_sample[result.trained_depth]
        if oracle is None or oracle is result:
            continue
        best = oracle.main.by_sample[oracle.trained_depth]
        for x, high in zip(curve.x, curve.high, strict=True):
            assert high >= best.low[best.x.index(x)] - 1e-12, f"{name} at {x} samples"


def test_the_oracles_error_falls_with_samples(references) -> None:
    for name, result in references.items():
        # a short series of two coordinates is mostly noise: what its oracle gains is within the band
        if name.endswith("/oracle") and not name.startswith("autoregressive"):
            curve = result.main.by_sample[result.trained_depth]
            assert curve.final < curve.low[0], name


def test_a_series_is_scored_with_its_noise_and_without(references) -> None:
    zero = references["autoregressive/zero"]
    assert zero.against == "shown"
    # the noise has variance 1 in each coordinate, and predicting zero misses the signal too
    assert zero.errors["shown"].by_step.final > 1.0
    assert zero.errors["clean"].by_step.final < zero.errors["shown"].by_step.final
