"""What we are compared with does the same: same loss, same steps, same prompts."""

import pytest
import torch
from torch import nn

from algoformer.data.objective import window_loss
from algoformer.training.config import unroll_at
from benchmarks.cases import CASES, QUICK, experiment
from benchmarks.contestants import Ours, Plain
from benchmarks.plain import PlainData, copy_weights

CPU = torch.device("cpu")


@pytest.mark.parametrize("case", CASES)
def test_the_plain_step_is_our_step(case: str) -> None:
    timed = experiment(case, QUICK)
    ours, plain = Ours(timed, "eager", CPU), Plain(timed, CPU)
    copy_weights(ours.training.model, plain.model)
    unroll = unroll_at(timed.program, timed.training, ours.step)
    for _ in range(3):
        ours.training.batches.select(ours.step)
        prompt = ours.training.batches.current().prompt
        loss = window_loss(ours.training.model(prompt, unroll), prompt)
        (taken,) = ours.losses(1)
        by_hand = plain.learn(prompt.rows, prompt.targets)
        # all questions count at this point of the run, so that the step's loss is the loss of all
        assert taken == pytest.approx(loss.item(), rel=1e-6)
        assert by_hand.item() == pytest.approx(taken, rel=1e-5)
    weights = nn.utils.parameters_to_vector(ours.training.model.parameters())
    assert torch.allclose(nn.utils.parameters_to_vector(plain.model.parameters()), weights, atol=1e-5)


@pytest.mark.parametrize("case", ["standard", "chain"])
def test_plain_prompts_are_those_of_the_task(case: str) -> None:
    timed = experiment(case, QUICK)
    expected = timed.task.sample(QUICK.batch, generator=torch.Generator().manual_seed(5))
    data = PlainData(timed, torch.Generator().manual_seed(5))
    rows, targets = data.sample()
    assert tuple(data.reads.tolist()) == expected.reads
    assert torch.allclose(rows, expected.rows, atol=1e-6)
    assert torch.allclose(targets, expected.targets, atol=1e-6)
