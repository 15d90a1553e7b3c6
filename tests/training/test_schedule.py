import itertools
import math
from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from algoformer import programs, tasks
from algoformer.config import learning_rate, ramp_value
from algoformer.training import Ramp, TrainConfig, train
from algoformer.training.config import unroll_at
from small_tasks import small_task
from training.small import small, stepper


def yang(start: int, end: int, increment: int, interval: int, steps: int) -> list[int]:
    """Yang et al.'s curriculum, as protocol.md 1.1 tells it: `update()` once after each step."""
    value, values = start, []
    for updates in range(1, steps + 1):
        values.append(value)
        if updates % interval == 0:
            value = min(value + increment, end)
    return values


@pytest.mark.parametrize(("start", "end", "increment"), [(5, 20, 1), (11, 41, 2), (15, 20, 2), (26, 101, 5)])
@pytest.mark.parametrize("interval", [0.01, 0.07, 0.1, 0.001])
def test_a_ramp_is_yangs_curriculum(start: int, end: int, increment: int, interval: float) -> None:
    steps = 2000
    expected = yang(start, end, increment, round(interval * steps), steps)
    ramp = Ramp(start=start, increment=increment, interval=interval)
    assert [ramp_value(ramp, step, steps=steps, end=end) for step in range(steps)] == expected


@pytest.mark.parametrize(("interval", "steps"), [(0.07, 100), (0.29, 100), (0.1, 30), (0.01, 700)])
def test_rounding_does_not_delay_a_ramp(interval: float, steps: int) -> None:
    # 0.07 * 100 is a little more than 7, and 7 divided by it a little less than 1
    ramp = Ramp(start=1, increment=1, interval=interval)
    expected = yang(1, 50, 1, round(interval * steps), steps)
    assert [ramp_value(ramp, step, steps=steps, end=50) for step in range(steps)] == expected


@given(st.integers(0, 99), st.integers(1, 40), st.integers(0, 99))
def test_a_late_ramp_is_the_same_ramp_later(waits: int, interval: int, step: int) -> None:
    ramp = Ramp(start=2, increment=3, interval=interval / 100)
    late = replace(ramp, delay=waits / 100)
    before = ramp_value(ramp, max(0, step - waits), steps=100, end=20)
    assert ramp_value(late, step, steps=100, end=20) == before


def test_a_shorter_run_has_the_same_curriculum_squeezed() -> None:
    ramp = Ramp(start=5, increment=1)
    long = [ramp_value(ramp, step, steps=50_000, end=20) for step in range(0, 50_000, 100)]
    short = [ramp_value(ramp, step, steps=500, end=20) for step in range(500)]
    assert long == short


@given(st.integers(1, 50), st.integers(1, 9), st.floats(1e-300, 1), st.integers(1, 10**9), st.data())
def test_a_ramp_never_falls_and_never_leaves_its_bounds(start, increment, interval, steps, data) -> None:
    ramp = Ramp(start=start, increment=increment, interval=interval)
    end = data.draw(st.integers(start, 100))
    moments = sorted(data.draw(st.lists(st.integers(0, steps - 1), min_size=2, max_size=5)))
    values = [ramp_value(ramp, step, steps=steps, end=end) for step in moments]
    assert values == sorted(values)
    assert all(start <= value <= end for value in values)
    assert ramp_value(ramp, 0, steps=steps, end=end) == start


def test_no_ramp_stands_at_its_end_and_a_start_beyond_it_too() -> None:
    assert ramp_value(None, 0, steps=10, end=7) == 7
    assert ramp_value(Ramp(start=9, increment=1), 0, steps=10, end=7) == 7


@given(st.integers(1, 1000), st.floats(0, 0.9), st.floats(0, 1))
def test_the_cosine_follows_its_formula(steps: int, warmup: float, final: float) -> None:
    config = TrainConfig(steps=steps, lr=0.5, schedule="cosine", warmup=warmup, min_lr_ratio=final, window=1)
    warm = warmup * steps
    for step in {0, steps // 3, steps // 2, steps - 1}:
        if step < warm:
            expected = 0.5 * min(1, (step + 1) / warm)
        else:
            progress = (step - warm) / max(1.0, steps - warm)
            expected = 0.5 * (final + (1 - final) * (1 + math.cos(math.pi * progress)) / 2)
        assert learning_rate(config, step) == pytest.approx(expected, rel=1e-12)


@given(st.integers(1, 1000), st.floats(0, 0.5), st.floats(0.01, 0.5), st.floats(0, 1))
def test_wsd_follows_its_formula(steps: int, warmup: float, cooldown: float, final: float) -> None:
    config = TrainConfig(
        steps=steps,
        lr=0.5,
        schedule="wsd",
        warmup=warmup,
        cooldown=cooldown,
        min_lr_ratio=final,
        window=1,
    )
    for step in {0, steps // 3, steps // 2, 2 * steps // 3, steps - 1}:
        left = (steps - step) / (cooldown * steps)  # of the cooldown, as a fraction of it
        if step < warmup * steps:
            expected = 0.5 * min(1, (step + 1) / (warmup * steps))
        elif left >= 1:
            expected = 0.5
        else:
            expected = 0.5 * (1 - (1 - final) * math.sqrt(1 - left))
        assert learning_rate(config, step) == pytest.approx(expected, rel=1e-6)


def test_wsd_is_constant_until_its_cooldown_and_falls_at_each_step_of_it() -> None:
    config = TrainConfig(steps=100, lr=2.0, schedule="wsd", warmup=0.1, cooldown=0.2, min_lr_ratio=0.1)
    rates = [learning_rate(config, step) for step in range(100)]
    assert set(rates[10:81]) == {2.0}
    assert all(later < before for before, later in itertools.pairwise(rates[80:]))
    assert 0.2 < rates[-1] < 0.2 + 1.8 / (2 * 19)  # 1 - √(19/20) is a little more than 1/40
    assert rates[85] == pytest.approx(2 * (0.1 + 0.9 * (1 - math.sqrt(5 / 20))))


def test_the_warm_up_rises_in_a_line_and_a_constant_rate_stays() -> None:
    config = TrainConfig(steps=100, lr=2.0, warmup=0.1)
    assert [learning_rate(config, step) for step in range(10)] == pytest.approx(
        [0.2 * i for i in range(1, 11)]
    )
    assert {learning_rate(config, step) for step in range(10, 100)} == {2.0}


@pytest.mark.parametrize("warmup", [0.05, 0.15, 0.25, 0.37])
def test_a_warm_up_that_is_no_whole_number_of_steps_never_exceeds_the_rate(warmup: float) -> None:
    config = TrainConfig(steps=10, lr=1.0, warmup=warmup)
    assert max(learning_rate(config, step) for step in range(10)) == 1.0


def test_a_window_larger_than_the_early_loops_shrinks_with_them() -> None:
    experiment = small(
        programs.algoformer(steps=20, heads=2), window=15, steps=100, iterations=Ramp(start=4, increment=8)
    )
    first = unroll_at(experiment.program, experiment.training, 0)
    assert (first.steps, first.window, first.grad_steps) == (4, 4, 4)
    second = unroll_at(experiment.program, experiment.training, 1)
    assert (second.steps, second.window, second.grad_steps) == (12, 12, 12)
    last = unroll_at(experiment.program, experiment.training, 99)
    assert (last.steps, last.window, last.grad_steps) == (20, 15, 15)


def test_the_full_gradient_goes_through_all_loops_but_not_through_the_burn_in() -> None:
    experiment = small(window=2, backprop="full", burn_in=(7,))
    unroll = unroll_at(experiment.program, experiment.training, 0)
    assert (unroll.steps, unroll.window, unroll.grad_steps) == (10, 2, 3)


def test_the_burn_in_depends_on_seed_and_step_alone() -> None:
    experiment = small(burn_in=(0, 5, 9), steps=300)
    extras = [unroll_at(experiment.program, experiment.training, step).steps - 3 for step in range(300)]
    assert extras == [
        unroll_at(experiment.program, experiment.training, step).steps - 3 for step in range(300)
    ]
    assert all(count > 70 for count in Counter(extras).values())
    assert set(extras) == {0, 5, 9}
    other = small(burn_in=(0, 5, 9), steps=300, seed=1)
    assert extras != [unroll_at(other.program, other.training, step).steps - 3 for step in range(300)]


def test_a_program_without_a_loop_is_read_once() -> None:
    experiment = small(programs.standard(1, heads=2))
    unroll = unroll_at(experiment.program, experiment.training, 0)
    assert (unroll.steps, unroll.window) == (1, 1)


def test_the_metrics_say_where_all_curricula_stand() -> None:
    experiment = small(
        task=tasks.LinearRegression(dim=6, points=9),
        steps=100,
        dims=Ramp(start=2, increment=1, interval=0.1),
        samples=Ramp(start=3, increment=2, interval=0.2),
    )
    batches = stepper(experiment).batches
    assert batches.metrics(0) == {"dims": 2, "samples": 3}
    assert batches.metrics(20) == {"dims": 4, "samples": 5}
    assert batches.metrics(99) == {"dims": 6, "samples": 9}


@pytest.mark.parametrize("name", tasks.TASKS)
def test_samples_are_counted_as_prompts_show_them(name: str) -> None:
    import torch

    task = small_task(name)
    prompt = task.sample(1, generator=torch.Generator().manual_seed(0))
    assert -(-task.context // task.parts) == prompt.samples


@pytest.mark.parametrize(("name", "first"), [("autoregressive", 3), ("parity", 21)])
def test_the_samples_of_a_curriculum_begin_with_a_question(name: str, first: int) -> None:
    task = tasks.find(name)()

    def run(start: int) -> float:
        ramp = Ramp(start=start, increment=1, interval=1.0)
        return train(small(task=task, samples=ramp, steps=1)).metrics[0]["loss"]

    words = f"is about sample {first}; start there or later, got start={first - 1}"
    with pytest.raises(ValueError, match=words):
        run(first - 1)
    assert run(first) > 0
