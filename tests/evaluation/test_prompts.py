import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from algoformer.data.prompts import prompt_seed
from algoformer.evaluation import evaluation_prompts, held_out_seed
from algoformer.tasks import TASKS, LinearRegression

LOW = 2**32


@given(st.integers(0, 2**31 - 1), st.integers(0, 2**31 - 1), st.integers(0, 10**9))
def test_no_training_stream_is_an_evaluation_stream(held_out: int, training: int, step: int) -> None:
    assert held_out_seed(held_out) % LOW != prompt_seed(training, step) % LOW


@given(st.integers(0, 2**31 - 1), st.integers(0, 2**31 - 1))
def test_two_evaluation_seeds_are_two_streams(one: int, other: int) -> None:
    assert (one == other) == (held_out_seed(one) % LOW == held_out_seed(other) % LOW)


def test_the_generator_sees_only_the_low_32_bits() -> None:
    # if this ever fails, the rule about seeds can be loosened
    one, far = torch.Generator().manual_seed(5), torch.Generator().manual_seed(5 + LOW)
    assert torch.equal(torch.randn(9, generator=one), torch.randn(9, generator=far))


def test_training_prompts_are_other_prompts() -> None:
    task = LinearRegression(dim=3, points=4)
    shown = evaluation_prompts(task, count=8, seed=0)
    for seed in range(20):
        trained = task.sample(8, generator=torch.Generator().manual_seed(prompt_seed(seed, 0)))
        assert not torch.equal(trained.rows, shown.rows)


@pytest.mark.parametrize("name", TASKS)
def test_the_prompts_are_always_the_same(name: str) -> None:
    one, again = (evaluation_prompts(TASKS[name](), count=4, seed=3) for _ in range(2))
    assert torch.equal(one.rows, again.rows)
    assert torch.equal(one.targets, again.targets)
    assert one.rows.dtype == torch.float32
    assert one.rows.device.type == "cpu"
    assert not torch.equal(evaluation_prompts(TASKS[name](), count=4, seed=4).rows, one.rows)


def test_the_global_generator_is_left_alone() -> None:
    before = torch.get_rng_state()
    evaluation_prompts(LinearRegression(dim=3, points=4), count=2)
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("seed", [-1, 2**31])
def test_a_seed_out_of_range_is_refused(seed: int) -> None:
    with pytest.raises(ValueError, match="seed must lie"):
        held_out_seed(seed)


def test_no_prompts_are_refused() -> None:
    with pytest.raises(ValueError, match="count"):
        evaluation_prompts(LinearRegression(), count=0)
