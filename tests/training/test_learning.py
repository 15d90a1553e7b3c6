from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from algoformer import programs, tasks
from algoformer.data.prompts import VALIDATION_SEED, prompt_seed
from algoformer.evaluation.prompts import evaluation_prompts, held_out_seed
from algoformer.training import train
from training.small import small


@given(st.integers(0, 2**31 - 1), st.integers(0, 10**12), st.integers(0, 2**31 - 1))
def test_training_and_evaluation_never_draw_from_the_same_seed(seed: int, step: int, evaluation: int) -> None:
    # PyTorch's CPU generator looks at 32 bits
    assert prompt_seed(seed, step) % 2**32 != held_out_seed(evaluation) % 2**32
    assert prompt_seed(seed, step) < 2**32
    assert held_out_seed(VALIDATION_SEED) < 2**32


def test_a_run_is_not_trained_on_the_prompts_it_is_measured_on() -> None:
    task = tasks.LinearRegression(dim=2, points=4)
    held_out = evaluation_prompts(task, count=64).rows.flatten(1)
    trained = task.sample(64, generator=torch.Generator().manual_seed(prompt_seed(0, 0))).rows.flatten(1)
    assert torch.cdist(held_out, trained).min() > 1e-3


@pytest.mark.learning
@pytest.mark.usefixtures("as_a_user")
def test_a_tiny_algoformer_learns_to_regress_in_context() -> None:
    experiment = small(
        programs.algoformer(steps=3, heads=4),
        tasks.LinearRegression(dim=2, points=8),
        steps=550,
        batch_size=64,
        lr=5e-3,
        schedule="cosine",
        warmup=0.05,
        clip_norm=1.0,
        log_every=100,
    )
    model = train(replace(experiment, width=32)).model
    prompts = evaluation_prompts(experiment.task, count=512)
    with torch.no_grad():
        answers = model(prompts).final
    error = (answers - prompts.targets).square().mean(0).squeeze(-1) / experiment.task.scale
    # predicting zero costs 1 everywhere; 0.35 was seen
    assert error[-4:].mean() < 0.5, error.tolist()
