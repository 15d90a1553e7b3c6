import math
from pathlib import Path

import pytest
import torch

from algoformer.training import build_model, load_checkpoint, train
from algoformer.training.optimizer import Average
from algoformer.training.step import raw_model
from training.small import same_weights, small, stepper


def _filled(value: float) -> torch.nn.Module:
    model = build_model(small())
    with torch.no_grad():
        for weight in model.parameters():
            weight.fill_(value)
    return model


@pytest.mark.parametrize("updates", [0, 1, 2, 7, 20])
def test_the_first_weights_are_forgotten_by_the_formula(updates: int) -> None:
    average, later = Average(_filled(1.0), decay=0.9999), _filled(0.0)
    for _ in range(updates):
        average.update(later)
    for weight in average.model.parameters():
        expected = torch.full_like(weight, 1 / math.comb(updates + 9, 9))
        torch.testing.assert_close(weight, expected, rtol=1e-5, atol=1e-7)


def test_from_some_step_on_the_decay_is_the_one_asked_for() -> None:
    # 9 / (10 + t) reaches 1 - 0.5 at t = 8, when the first weights still count for 1 / C(17, 9)
    average, later = Average(_filled(1e6), decay=0.5), _filled(0.0)
    for _ in range(8 + 5):
        average.update(later)
    expected = 1e6 / math.comb(17, 9) / 2**5
    assert next(average.model.parameters()).flatten()[0].item() == pytest.approx(expected, rel=1e-4)


def test_an_average_is_a_copy_that_leaves_the_weights_alone() -> None:
    model = _filled(1.0)
    average = Average(model, decay=0.9)
    average.update(_filled(3.0))
    assert same_weights(model, _filled(1.0))
    assert next(average.model.parameters()).flatten()[0].item() == pytest.approx(0.1 * 1 + 0.9 * 3)


def test_averaging_changes_nothing_in_training_and_averages_what_training_did() -> None:
    experiment = small(ema=0.6)
    step, plain = stepper(experiment), stepper(small())
    expected = {name: weight.detach().double() for name, weight in plain.model.named_parameters()}
    for number in range(12):
        step.run(number)
        plain.run(number)
        keep = min(0.6, (1 + number) / (10 + number))
        for name, weight in plain.model.named_parameters():
            expected[name] = keep * expected[name] + (1 - keep) * weight.detach().double()
    assert same_weights(step.model, plain.model)
    assert step.trained is not step.model
    for name, weight in step.trained.named_parameters():
        torch.testing.assert_close(weight.double(), expected[name], rtol=1e-5, atol=1e-7, msg=name)


def test_the_average_is_the_model_of_the_run_and_of_its_checkpoint(tmp_path: Path) -> None:
    plain, run = train(small(), tmp_path / "plain"), train(small(ema=0.9), tmp_path / "run")
    stored = load_checkpoint(tmp_path / "run" / "checkpoint.safetensors")
    assert stored.card["weights"] == "average"
    assert same_weights(stored.model, run.model)
    assert not same_weights(run.model, plain.model)
    assert same_weights(raw_model(stored), plain.model)
    assert same_weights(stored.model, run.model), "raw_model must not change the checkpoint"
    without = load_checkpoint(tmp_path / "plain" / "checkpoint.safetensors")
    assert without.card["weights"] == "raw"
    assert not any(name.startswith("weights.") for name in without.state)
    assert raw_model(without) is without.model


def test_an_averaged_model_can_be_trained_on() -> None:
    run = train(small(ema=0.9))
    again = train(small(), initial=run.model)
    assert not same_weights(run.model, again.model)
