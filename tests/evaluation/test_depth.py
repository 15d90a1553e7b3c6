import pytest
import torch

from algoformer import AlgoFormer, programs
from algoformer.evaluation import depth_sweep, evaluate, evaluation_prompts
from algoformer.tasks import LinearRegression
from evaluation.known import Off, pairs


def test_a_sweep_is_the_evaluation_at_chosen_depths() -> None:
    task = LinearRegression(dim=3, points=5)
    torch.manual_seed(0)
    model = AlgoFormer(programs.algoformer(heads=2), dim=3, out=1, context=task.context, width=8)
    prompt = evaluation_prompts(task, count=16)
    whole = evaluate(model, prompt, steps=12, label="a").by_step
    sweep = depth_sweep(model, prompt, depths=(1, 5, 12), label="a")
    assert sweep.x == (1.0, 5.0, 12.0)
    for name in ("error", "low", "high"):
        chosen = [getattr(whole, name)[depth - 1] for depth in (1, 5, 12)]
        assert getattr(sweep, name) == pytest.approx(chosen, rel=1e-5)


def test_one_state_is_read_for_each_depth() -> None:
    solver = Off((1.0,) * 3)
    depth_sweep(solver, pairs(), depths=(3, 1000))
    assert [(size, unroll.steps, unroll.length) for size, unroll in solver.calls] == [(2, 3, 1), (2, 1000, 1)]


def test_progress_runs_over_all_depths() -> None:
    told: list[tuple[int, int]] = []
    depth_sweep(
        Off((1.0,) * 3),
        pairs(),
        depths=(1, 4),
        batch=1,
        progress=lambda done, total: told.append((done, total)),
    )
    assert told == [(1, 10), (2, 10), (6, 10), (10, 10)]


@pytest.mark.parametrize("depths", [(), (2, 2), (3, 1)])
def test_depths_must_rise(depths: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="depths must be a rising list"):
        depth_sweep(Off((1.0,) * 3), pairs(), depths=depths)


def test_depths_start_at_one() -> None:
    with pytest.raises(ValueError, match="at least once"):
        depth_sweep(Off((1.0,) * 3), pairs(), depths=(0, 1))
