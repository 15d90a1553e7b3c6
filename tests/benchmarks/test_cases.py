import pytest
import torch

from algoformer.config import ramp_value
from algoformer.trace import Unroll
from algoformer.training import Experiment
from algoformer.training.config import unroll_at
from benchmarks.cases import CASES, FULL, QUICK, Size, bill, experiment, first_step


def timed_unroll(timed: Experiment) -> Unroll:
    return unroll_at(timed.program, timed.training, first_step(timed))


def test_the_sizes_are_the_papers() -> None:
    linear, chain = experiment("algoformer_full", FULL), experiment("chain", FULL)
    assert (linear.task.context, chain.task.context) == (80, 287)
    assert timed_unroll(linear).grad_steps == 20
    window = experiment("algoformer_window", FULL)
    assert timed_unroll(window).grad_steps == 15


@pytest.mark.parametrize("case", CASES)
def test_steps_are_timed_when_all_curricula_are_over(case: str) -> None:
    timed = experiment(case, FULL)
    config, step = timed.training, first_step(timed)
    for ramp, end in ((config.dims, timed.task.dim), (config.samples, timed.task.points)):
        assert ramp_value(ramp, step, steps=config.steps, end=end) == end


@pytest.mark.parametrize("case", ["algoformer_full", "chain"])
def test_the_bill_counts_the_questions_that_a_prompt_asks(case: str) -> None:
    timed = experiment(case, FULL)
    prompt = timed.task.sample(1, generator=torch.Generator().manual_seed(0))
    answers = FULL.window * FULL.batch * prompt.points
    assert bill(timed).parts[-1].work.forward == 2 * answers * FULL.width * prompt.out


def test_an_unknown_case_is_refused() -> None:
    with pytest.raises(ValueError, match=r"cases are algoformer_full, .*, got 'gpt'"):
        experiment("gpt", FULL)


@pytest.mark.parametrize("size", [FULL, QUICK], ids=["full", "quick"])
def test_every_depth_whose_memory_is_measured_can_be_trained(size: Size) -> None:
    for steps in size.depths:
        for case in ("algoformer_window", "algoformer_full"):
            assert bill(experiment(case, size, steps=steps)).activation_bytes > 0
