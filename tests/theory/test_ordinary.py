"""What a builder returns is a model like any other: it can be saved, cast and trained further."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from algoformer.algorithms import GradientDescent
from algoformer.checkpoint import Checkpoint, load_checkpoint, save_checkpoint
from algoformer.model import AlgoFormer
from algoformer.prompt import Prompt
from algoformer.tasks import LinearRegression
from algoformer.theory import (
    DOUBLE,
    SINGLE,
    Constants,
    chain,
    decoder_gradient_descent,
    gradient_descent,
)
from algoformer.theory.checks import step_size_limit
from algoformer.trace import Unroll
from algoformer.training.config import Experiment, TrainConfig
from algoformer.training.trainer import train

TASK = LinearRegression(dim=3, points=9)
STEP_SIZE = 0.2


def prompts(batch: int = 32) -> Prompt:
    return TASK.sample(batch, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def built(constants: Constants = DOUBLE, dtype: torch.dtype = torch.float64) -> AlgoFormer:
    return gradient_descent(dim=3, examples=8, step_size=STEP_SIZE, constants=constants, dtype=dtype)


def test_a_built_model_survives_a_checkpoint_bit_for_bit(tmp_path: Path) -> None:
    save_checkpoint(tmp_path / "gd.safetensors", Checkpoint(model=built()))
    loaded = load_checkpoint(tmp_path / "gd.safetensors").model
    unroll, prompt = Unroll(steps=30), prompts().prefix()
    assert torch.equal(loaded(prompt, unroll).predictions, built()(prompt, unroll).predictions)


@pytest.mark.gpu
@pytest.mark.theorem
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")
def test_each_pass_is_one_gradient_step_on_a_gpu() -> None:
    prompt, unroll = prompts().prefix(), Unroll(steps=50)
    expected = GradientDescent(step_size=STEP_SIZE)(prompt, unroll).predictions
    answers = built().to("cuda")(prompt.to("cuda"), unroll).predictions.cpu()
    torch.testing.assert_close(answers, expected, rtol=0, atol=1e-6)


@pytest.mark.theorem
def test_single_precision_with_its_own_constants_keeps_two_digits() -> None:
    prompt, unroll = prompts().prefix(), Unroll(steps=100)
    expected = GradientDescent(step_size=STEP_SIZE)(prompt, unroll).predictions
    assert expected.abs().max() > 4
    answers = built(SINGLE, torch.float32)(prompt.to(torch.float32), unroll).predictions.double()
    assert (answers - expected).abs().max() < 2e-2


def test_single_precision_with_the_constants_of_double_warns() -> None:
    with pytest.warns(UserWarning, match="use float64, or SINGLE"):
        built(DOUBLE, torch.float32)


@pytest.mark.theorem
def test_copies_and_filters_stay_exact_in_single_precision() -> None:
    model = chain(
        dim=2, layers=2, examples=4, step_size=0.1, slope=0.5, constants=SINGLE, dtype=torch.float32
    )
    rows = torch.randn(1, 13, 2, generator=torch.Generator().manual_seed(0))
    prompt = Prompt(rows=rows, targets=rows[:, :1], reads=(12,), parts=3)
    state = model(prompt, Unroll(steps=1, keep=("pre",))).states["pre"]
    feature = state[:, 1:-1, 5:7]
    assert torch.equal(feature[:, ::3], rows[:, ::3])
    assert torch.equal(feature[:, 1::3], torch.zeros(1, 4, 2))


def perturb_rate(model: AlgoFormer) -> None:
    """A step size three times too small: values of the loop's heads."""
    attention = model.body.parts[2].body.parts[0].layers[0].attention  # type: ignore[union-attr,index]
    attention.output.weight.mul_(1 / 3)


def perturb_answer(model: AlgoFormer) -> None:
    model.read_out.weight.mul_(0.7)


@pytest.mark.learning
@pytest.mark.parametrize("perturb", [perturb_rate, perturb_answer])
def test_training_repairs_a_perturbed_construction(
    perturb: Callable[[AlgoFormer], None], tmp_path: Path
) -> None:
    # Adam moves every weight by the learning rate, the zeros among them too, so it must be far below what
    # the values of size e^C / 2c let through: gentle constants, a small rate
    held_out = prompts(256)
    model = decoder_gradient_descent(
        dim=3,
        points=9,
        step_size=0.5 * step_size_limit(TASK.problems(held_out)),
        constants=Constants(c=0.3, sink=7.0, mask=30.0, sharpness=128.0),
        steps=6,
        dtype=torch.float32,
    )
    with torch.no_grad():
        perturb(model)
    training = TrainConfig(steps=30, lr=1e-5, window=6, backprop="full", clip_norm=1.0)
    experiment = Experiment(model.program, TASK, width=model.width, training=training)
    run = train(experiment, tmp_path / "run", initial=model)
    assert held_out_loss(run.model, held_out) < 0.9 * held_out_loss(model, held_out)
    saved = load_checkpoint(tmp_path / "run" / "checkpoint.safetensors").model
    assert held_out_loss(saved, held_out) == held_out_loss(run.model, held_out)


@torch.no_grad()
def held_out_loss(model: AlgoFormer, prompt: Prompt) -> float:
    trace = model(prompt.to(torch.float32), Unroll(steps=6))
    return (trace.predictions - prompt.targets).square().mean().item()
