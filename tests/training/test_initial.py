"""Runs that begin with a model of one's own."""

from pathlib import Path

import pytest
import torch

from algoformer import programs
from algoformer.training import build_model, load_checkpoint, train
from training.small import small, told


def weights(model) -> torch.Tensor:
    return torch.cat([weight.detach().flatten() for weight in model.parameters()])


def test_a_run_begins_with_the_weights_it_is_given_and_leaves_them_alone() -> None:
    experiment = small(steps=1, lr=1e-12)
    initial = build_model(small(seed=5))
    before = weights(initial).clone()
    run = train(experiment, initial=initial)
    torch.testing.assert_close(weights(run.model), before, rtol=0, atol=1e-9)
    assert torch.equal(weights(initial), before)
    assert not torch.equal(before, weights(build_model(experiment)))


def test_such_a_run_resumes_from_its_checkpoint_alone(tmp_path: Path) -> None:
    experiment, initial = small(), build_model(small(seed=5))
    whole = train(experiment, tmp_path / "whole", initial=initial)

    def stop(done: int, total: int, metrics) -> None:
        if done == 5:
            raise InterruptedError

    with pytest.raises(InterruptedError):
        train(experiment, str(tmp_path / "cut"), initial=initial, callbacks=told(stop))
    resumed = train(experiment, str(tmp_path / "cut"), resume=True)
    assert torch.equal(weights(whole.model), weights(resumed.model))


def test_a_run_that_begins_with_a_checkpoint_tells_what_that_was(tmp_path: Path) -> None:
    train(small(seed=5), tmp_path / "first")
    first = load_checkpoint(tmp_path / "first" / "checkpoint.safetensors")
    experiment = small(steps=8, log_every=1)
    again = train(experiment, tmp_path / "second", initial=first)
    assert torch.equal(weights(again.model), weights(train(experiment, initial=first.model).model))
    told = load_checkpoint(tmp_path / "second" / "checkpoint.safetensors").card["initial"]
    assert told["step"] == 12
    assert told["experiment"] == small(seed=5).to_data()
    assert "initial" not in first.card


def test_what_a_run_began_with_is_remembered_when_it_goes_on(tmp_path: Path) -> None:
    train(small(seed=5), tmp_path / "first")
    first = load_checkpoint(tmp_path / "first" / "checkpoint.safetensors")

    def stop(done: int, total: int, metrics) -> None:
        raise InterruptedError

    with pytest.raises(InterruptedError):
        train(small(), tmp_path / "second", initial=first, callbacks=told(stop))
    train(small(), tmp_path / "second", resume=True)
    second = load_checkpoint(tmp_path / "second" / "checkpoint.safetensors")
    assert (second.card["step"], second.card["initial"]["step"]) == (12, 12)
    train(small(), tmp_path / "third", initial=second)
    third = load_checkpoint(tmp_path / "third" / "checkpoint.safetensors").card
    assert third["initial"]["initial"] == second.card["initial"]


def test_a_model_of_another_program_or_for_other_prompts_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="another program or width"):
        train(small(), initial=build_model(small(programs.looped(steps=3, heads=2))))
    from algoformer import tasks

    with pytest.raises(ValueError, match="the task has dim=3"):
        train(small(task=tasks.LinearRegression(dim=3, points=4)), initial=build_model(small()))
    with pytest.raises(ValueError, match="room for 8 rows, a prompt has 10"):
        train(
            small(task=tasks.LinearRegression(dim=2, points=5)),
            tmp_path / "run",
            initial=build_model(small()),
        )
    assert not (tmp_path / "run").exists()


@pytest.mark.usefixtures("as_a_user")
def test_what_is_no_model_is_not_begun_with() -> None:
    run = train(small())
    for other in (run, "linear"):
        with pytest.raises(
            ValueError, match=f"a model or a checkpoint, got {type(other).__name__}; see af.load"
        ):
            train(small(), initial=other)  # type: ignore[arg-type]
    assert train(small(), initial=run.checkpoint).finished


def test_an_encoder_learns_from_the_last_question_alone(tmp_path: Path) -> None:
    experiment = small(programs.algoformer(steps=3, heads=2, causal=False), steps=2, log_every=1)
    run = train(experiment, tmp_path / "run")
    assert run.finished
    assert all(weight.grad is None or weight.grad.abs().sum() > 0 for weight in run.model.parameters())
    stored = load_checkpoint(tmp_path / "run" / "checkpoint.safetensors")
    assert not stored.model.causal
    assert stored.card["commit"]


def test_double_precision_stays_double() -> None:
    experiment = small(steps=2)
    run = train(experiment, initial=build_model(experiment).double())
    assert {weight.dtype for weight in run.model.parameters()} == {torch.float64}
