import pytest
import torch

from algoformer.tasks import RobustRegression


def seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_the_share_and_size_of_wrong_labels_are_as_asked() -> None:
    task = RobustRegression(dim=5, outliers=0.3, outlier_scale=2.0)
    prompt = task.sample(1000, generator=seeded(0))
    errors = prompt.part(1)[..., :1] - prompt.targets
    wrong = errors != 0
    assert wrong.float().mean().item() == pytest.approx(0.3, abs=0.01)
    assert errors[wrong].std().item() == pytest.approx(2 * 5**0.5, rel=0.03)


def test_targets_are_the_labels_as_they_should_have_been() -> None:
    prompt = RobustRegression(dim=5, noise=0.1).sample(500, generator=seeded(1))
    assert prompt.clean is not None
    assert (prompt.targets - prompt.clean).std().item() == pytest.approx(0.1, rel=0.03)
    problems = RobustRegression(dim=5).problems(prompt)
    assert torch.equal(problems.labels[:, 0], prompt.part(1)[..., :1])


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        ({"dim": 0}, "dim must be at least 1"),
        ({"points": 0}, "points must be at least 1"),
        ({"noise": -1.0}, "noise is a standard deviation"),
        ({"outliers": 1.0}, r"outliers, the share of wrong labels, must lie in \[0, 1\), got 1.0"),
        ({"outlier_scale": 0.0}, "outlier_scale must be a finite number > 0"),
    ],
)
def test_impossible_tasks_are_refused(broken: dict[str, float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        RobustRegression(**broken)  # type: ignore[arg-type]
