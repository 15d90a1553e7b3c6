import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from algoformer.prompt import Prompt
from algoformer.tasks import AutoregressiveWithRepresentation


def seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def peaks(prompt: Prompt) -> torch.Tensor:
    series = torch.cat([prompt.rows, prompt.targets[:, -1:]], dim=1)
    return series.square().mean(dim=-1).amax(dim=1)


def test_about_three_in_a_hundred_series_are_redrawn() -> None:
    shares = []
    for phi_seed in range(4):
        unbounded = AutoregressiveWithRepresentation(phi_seed=phi_seed, bound=1e30)
        shares.append((peaks(unbounded.sample(1200, generator=seeded(phi_seed))) > 10).float().mean())
    # protocol 3C says 2.8 %; single Φ* range from 1.7 to 4.4 %, and 1200 series add 0.5 % each
    assert 0.015 < torch.stack(shares).mean().item() < 0.045


@given(
    batch=st.integers(1, 40),
    signal=st.sampled_from([0.3, 0.6, 1.0]),
    bound=st.sampled_from([3.0, 5.0, 10.0]),
    seed=st.integers(0, 1000),
)
def test_no_series_that_leaves_the_bound_is_ever_returned(
    batch: int, signal: float, bound: float, seed: int
) -> None:
    task = AutoregressiveWithRepresentation(dim=6, points=12, signal=signal, bound=bound)
    reached = peaks(task.sample(batch, generator=seeded(seed), dtype=torch.float64))
    assert reached.shape == (batch,)
    assert (reached.isnan() | (reached <= bound)).all()
    assert not reached.isnan().any() or reached.isnan().all()


def test_where_few_series_stay_in_bounds_they_come_again() -> None:
    task = AutoregressiveWithRepresentation(dim=20, points=41, signal=1.0)
    prompt = task.sample(200, generator=seeded(0))
    assert (peaks(prompt) <= 10).all()
    # at signal 1 some two thirds explode, so 266 draws leave fewer than 200 different series
    assert len(prompt.rows[:, 0].unique(dim=0)) < 200


def test_where_no_series_stays_in_bounds_the_prompts_are_not_a_number() -> None:
    task = AutoregressiveWithRepresentation(dim=20, points=41, bound=0.01)
    prompt = task.sample(2, generator=seeded(0))
    assert prompt.rows.isnan().all()
    assert prompt.targets.isnan().all()


def test_each_state_follows_from_the_last_ones() -> None:
    task = AutoregressiveWithRepresentation(dim=4, points=20, order=2, noise=0.0, slope=0.5)
    prompt = task.sample(3, generator=seeded(1), dtype=torch.float64)
    problems = task.problems(prompt)
    features, labels = problems.features[:, 0, :-1], problems.labels[:, 0, :-1]
    matrices = torch.linalg.lstsq(features, labels).solution
    torch.testing.assert_close(problems.features[:, 0] @ matrices, prompt.targets, rtol=1e-6, atol=1e-8)


def test_windows_are_put_in_the_order_of_time() -> None:
    task = AutoregressiveWithRepresentation(dim=4, points=9, order=3)
    prompt = task.sample(2, generator=seeded(1))
    window = torch.cat([prompt.rows[:, 2], prompt.rows[:, 3], prompt.rows[:, 4]], dim=-1)
    torch.testing.assert_close(task.problems(prompt).features[:, 0, 2], task.phi(window))


def test_shown_states_are_the_targets_of_the_questions_before_them() -> None:
    task = AutoregressiveWithRepresentation()
    prompt = task.sample(2, generator=seeded(1))
    assert prompt.rows.shape == (2, 40, 20)
    assert prompt.points == 38
    assert prompt.reads[0] == 2
    assert prompt.reads[-1] == 39
    assert torch.equal(prompt.targets[:, :-1], prompt.rows[:, 3:])


def test_noise_is_what_targets_have_over_clean() -> None:
    prompt = AutoregressiveWithRepresentation().sample(300, generator=seeded(1))
    assert prompt.clean is not None
    assert (prompt.targets - prompt.clean).std().item() == pytest.approx(1.0, rel=0.01)


def test_a_series_is_not_read_from_a_prompt_of_pairs() -> None:
    pairs = Prompt.of_pairs(torch.ones(1, 5, 20), torch.ones(1, 5, 1))
    with pytest.raises(ValueError, match="a series has rows of dim=20, one in a sample"):
        AutoregressiveWithRepresentation().problems(pairs)


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        ({"dim": 0}, "dim must be at least 1"),
        ({"order": 0}, "order must be at least 1"),
        ({"points": 3}, "points must exceed order=3 to leave a question, got 3"),
        ({"noise": -1.0}, "noise is a standard deviation"),
        ({"signal": 0.0}, "signal must be a finite number > 0"),
        ({"bound": float("inf")}, "bound must be a finite number > 0"),
        ({"layers": 0}, "layers must be at least 1"),
        ({"slope": 0.0}, "slope of a leaky ReLU"),
        ({"phi_seed": -1}, "seed of the representation must be at least 0"),
    ],
)
def test_impossible_tasks_are_refused(broken: dict[str, float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        AutoregressiveWithRepresentation(**broken)  # type: ignore[arg-type]
