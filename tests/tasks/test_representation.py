import pytest
import torch

from algoformer.tasks import RegressionWithRepresentation


def seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize("phi_seed", [0, 1, 2])
def test_labels_have_the_variance_of_linear_regression(phi_seed: int) -> None:
    labels = RegressionWithRepresentation(phi_seed=phi_seed).sample(4000, generator=seeded(0)).targets
    # Φ* has one strong direction, so the labels of a prompt rise and fall together: 2 to 3 % of error
    assert labels.square().mean().item() == pytest.approx(20, rel=0.08)


def test_the_problems_are_linear_in_the_features() -> None:
    task = RegressionWithRepresentation(dim=4, points=12, slope=0.5)
    prompt = task.sample(2, generator=seeded(1), dtype=torch.float64)
    problems = task.problems(prompt)
    features, labels = problems.features[:, 0], problems.labels[:, 0]
    weights = torch.linalg.lstsq(features[:, :6], labels[:, :6]).solution
    torch.testing.assert_close(features @ weights, prompt.targets)


def test_rows_show_the_raw_inputs() -> None:
    task = RegressionWithRepresentation(dim=4, points=3)
    prompt = task.sample(2, generator=seeded(2))
    torch.testing.assert_close(task.phi(prompt.part(0)), task.problems(prompt).features[:, 0])
    assert (prompt.part(0) < -0.5).any()


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        ({"dim": 0}, "dim must be at least 1"),
        ({"points": 0}, "points must be at least 1"),
        ({"noise": -1.0}, "noise is a standard deviation"),
        ({"layers": 0}, "layers must be at least 1"),
        ({"slope": 1.5}, r"slope .* must lie in \(0, 1\], got 1.5"),
        ({"phi_seed": -1}, "seed of the representation must be at least 0"),
    ],
)
def test_impossible_tasks_are_refused(broken: dict[str, float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        RegressionWithRepresentation(**broken)  # type: ignore[arg-type]
