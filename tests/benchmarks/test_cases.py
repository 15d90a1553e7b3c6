import pytest
import torch

from algoformer.training.schedule import stage
from benchmarks.cases import CASES, FULL, QUICK, Size, bill, experiment, first_step


def test_the_sizes_are_the_papers() -> None:
    linear, chain = experiment("algoformer_full", FULL), experiment("chain", FULL)
    assert (linear.task.context, chain.task.context) == (80, 287)
    assert stage(linear, first_step(linear)).unroll.grad_steps == 20
    window = experiment("algoformer_window", FULL)
    assert stage(window, first_step(window)).unroll.grad_steps == 15


@pytest.mark.parametrize("case", CASES)
def test_steps_are_timed_when_all_curricula_are_over(case: str) -> None:
    timed = experiment(case, FULL)
    now = stage(timed, first_step(timed))
    assert (now.dims, now.samples) == (timed.task.dim, timed.task.points)


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
