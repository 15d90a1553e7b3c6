import pytest
import torch

from algoformer.tasks import LinearRegression


def seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_labels_have_the_variance_that_the_scale_says() -> None:
    task = LinearRegression()
    labels = task.sample(4000, generator=seeded(0)).targets
    # Var(y) = d = 20; labels of one prompt share w, so 4000 prompts give a relative error of about 1 %
    assert labels.square().mean().item() == pytest.approx(task.scale, rel=0.04)


def test_labels_are_linear_in_the_inputs() -> None:
    prompt = LinearRegression(dim=3, points=9).sample(2, generator=seeded(1), dtype=torch.float64)
    xs, ys = prompt.part(0), prompt.targets
    weights = torch.linalg.lstsq(xs[:, :4], ys[:, :4]).solution
    torch.testing.assert_close(xs @ weights, ys)


def test_noise_is_on_labels_and_targets_but_not_on_clean() -> None:
    quiet = LinearRegression().sample(2000, generator=seeded(2))
    noisy = LinearRegression(noise=0.5).sample(2000, generator=seeded(2))
    assert noisy.clean is not None
    torch.testing.assert_close(noisy.clean, quiet.targets)
    assert (noisy.targets - noisy.clean).std().item() == pytest.approx(0.5, rel=0.02)
    torch.testing.assert_close(noisy.part(1)[..., :1], noisy.targets)


def test_switched_off_coordinates_are_zero_and_do_not_enter_the_labels() -> None:
    task = LinearRegression(dim=6, points=8)
    whole = task.sample(3, generator=seeded(3))
    masked = task.sample(3, generator=seeded(3), active_dims=2)
    assert not masked.part(0)[..., 2:].any()
    assert torch.equal(masked.part(0)[..., :2], whole.part(0)[..., :2])
    assert not torch.allclose(masked.targets, whole.targets)


@pytest.mark.parametrize("active_dims", [0, 7, -1])
def test_more_or_fewer_coordinates_than_there_are_cannot_be_active(active_dims: int) -> None:
    with pytest.raises(ValueError, match=rf"active_dims must lie in 1\.\.6 .* got {active_dims}"):
        LinearRegression(dim=6).sample(1, generator=seeded(0), active_dims=active_dims)


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        ({"dim": 0}, "dim must be at least 1, got 0"),
        ({"points": 0}, "points must be at least 1, got 0"),
        ({"noise": -0.1}, "noise is a standard deviation"),
        ({"noise": float("nan")}, "noise is a standard deviation"),
    ],
)
def test_impossible_tasks_are_refused(broken: dict[str, float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        LinearRegression(**broken)  # type: ignore[arg-type]
