from pathlib import Path
from typing import Any

import pytest
import torch

from algoformer.training import load_checkpoint, train
from algoformer.training.precision import HalfBody, matmul_precision
from algoformer.training.schedule import learning_rate, stage, unroll_at
from algoformer.training.step import TrainingStep
from algoformer.training.trainer import prompt_seed
from training.small import same_weights, small, stepper

ENDING_EXACTLY = {"precision": "bf16", "fp32_end": 0.25, "burn_in": (0, 2), "steps": 12, "log_every": 1}


@pytest.mark.parametrize(("name", "inside"), [("fp32", "highest"), ("tf32", "high"), ("bf16", "high")])
def test_products_have_the_precision_asked_for_and_only_inside(name: str, inside: str) -> None:
    before = torch.get_float32_matmul_precision()
    with matmul_precision(name):
        assert torch.get_float32_matmul_precision() == inside
    assert torch.get_float32_matmul_precision() == before


def test_the_precision_is_put_back_after_an_error() -> None:
    before = torch.get_float32_matmul_precision()
    with pytest.raises(RuntimeError, match="stop"), matmul_precision("tf32"):
        raise RuntimeError("stop")
    assert torch.get_float32_matmul_precision() == before


@pytest.mark.usefixtures("as_a_user")
def test_prompts_are_drawn_in_full_precision_whatever_the_model_uses() -> None:
    step = stepper(small(precision="bf16"))
    seen = []

    class Task:
        def sample(self, batch: int, **options: object) -> None:
            seen.append(torch.get_float32_matmul_precision())

    object.__setattr__(step.experiment, "task", Task())
    with matmul_precision("bf16"):
        step.sample()
    assert seen == ["highest"]


def test_half_precision_answers_are_close_to_exact_ones() -> None:
    half, exact = stepper(small(precision="bf16")), stepper(small())
    unroll = unroll_at(small(), 0)
    prompt = exact.sample()
    rounded, answers = half.answer(prompt, unroll), exact.answer(prompt, unroll)
    assert rounded.predictions.dtype == torch.float32
    assert rounded.first_step == answers.first_step
    scale = answers.predictions.abs().max()
    assert 0 < (rounded.predictions - answers.predictions).abs().max() < 0.05 * scale


def test_after_a_step_in_half_precision_the_model_holds_its_own_weights_again() -> None:
    step = stepper(small(precision="bf16"))
    before = list(step.model.parameters())
    step.run(unroll_at(small(), 0))
    after = list(step.model.parameters())
    assert all(one is other for one, other in zip(before, after, strict=True))
    assert all(isinstance(weight, torch.nn.Parameter) for weight in after)


@pytest.mark.usefixtures("as_a_user")
def test_the_end_of_a_run_is_exact_and_everything_goes_on() -> None:
    """Nine steps in bf16 and three in fp32, of the same weights, optimizer and prompts, taken by hand."""
    experiment = small(**ENDING_EXACTLY)
    step = stepper(experiment, seed=prompt_seed(0))
    for number in range(12):
        step.body = HalfBody(step.model) if number < 9 else None
        step.prepare(learning_rate(experiment.training, number), stage(experiment, number))
        step.run(unroll_at(experiment, number))
    assert same_weights(train(experiment).model, step.model)
    assert not same_weights(train(small(**ENDING_EXACTLY | {"fp32_end": 0.0})).model, step.model)


@pytest.mark.usefixtures("as_a_user")
def test_a_run_that_is_stopped_in_its_exact_end_goes_on_exactly(tmp_path: Path) -> None:
    experiment = small(**ENDING_EXACTLY, checkpoint_every=100)

    def stop(done: int, steps: int, metrics: Any) -> None:
        if done == 10:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(experiment, tmp_path, progress=stop)
    assert same_weights(train(experiment, tmp_path, resume=True).model, train(experiment).model)


@pytest.mark.usefixtures("as_a_user")
def test_products_are_exact_from_the_named_step_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []
    run = TrainingStep.run

    def noticed(self: TrainingStep, *arguments: Any) -> None:
        seen.append(torch.get_float32_matmul_precision())
        run(self, *arguments)

    monkeypatch.setattr(TrainingStep, "run", noticed)
    before = torch.get_float32_matmul_precision()
    train(small(**ENDING_EXACTLY), tmp_path)
    assert seen == ["high"] * 9 + ["highest"] * 3
    assert torch.get_float32_matmul_precision() == before
    card = load_checkpoint(tmp_path / "checkpoint.safetensors").card
    assert card["precision"] == "bf16, the last 25 % in fp32"
    assert "then in fp32 engine eager" in card["engine"]
