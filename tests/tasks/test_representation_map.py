import pytest
import torch

from algoformer.tasks import RepresentationMap


def seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize(("in_dim", "mean_square"), [(20, 20.0), (60, 0.36)])
def test_the_mean_square_is_the_one_asked_for(in_dim: int, mean_square: float, seed: int) -> None:
    phi = RepresentationMap(in_dim=in_dim, out_dim=20, mean_square=mean_square, seed=seed)
    inputs = torch.randn(2**16, in_dim, generator=seeded(99))
    squares = torch.cat([phi(inputs), phi(-inputs)]).square().sum(dim=-1)
    # this check has a standard error of about 0.3 % of its own; the constant is right to about 0.05 %
    assert squares.mean().item() == pytest.approx(mean_square, rel=0.012)


@pytest.mark.parametrize("shape", [(5, 5), (12, 4), (3, 7)])
def test_weights_are_orthogonal_along_their_shorter_side(shape: tuple[int, int]) -> None:
    phi = RepresentationMap(in_dim=shape[0], out_dim=shape[1], mean_square=1.0)
    first = phi.weights()[0]
    gram = first.T @ first if shape[0] >= shape[1] else first @ first.T
    torch.testing.assert_close(gram, torch.eye(min(shape), dtype=torch.float64), rtol=0, atol=1e-12)


def test_the_map_is_its_weights_with_a_leaky_relu_after_every_layer() -> None:
    phi = RepresentationMap(in_dim=6, out_dim=4, mean_square=4.0, layers=2, slope=0.1)
    inputs = torch.randn(7, 6, generator=seeded(1), dtype=torch.float64)
    first, second = phi.weights()
    hidden = inputs @ first
    hidden = torch.maximum(hidden, 0.1 * hidden) @ second
    torch.testing.assert_close(phi(inputs), torch.maximum(hidden, 0.1 * hidden), rtol=1e-12, atol=0)


def test_the_seed_decides_the_map_and_nothing_else_does() -> None:
    inputs = torch.randn(3, 5, generator=seeded(0))
    torch.manual_seed(1)
    one = RepresentationMap(in_dim=5, out_dim=5, mean_square=5.0, seed=3)(inputs)
    torch.manual_seed(2)
    same = RepresentationMap(in_dim=5, out_dim=5, mean_square=5.0, seed=3)(inputs)
    other = RepresentationMap(in_dim=5, out_dim=5, mean_square=5.0, seed=4)(inputs)
    assert torch.equal(one, same)
    assert not torch.allclose(one, other)


def test_a_map_first_used_in_inference_mode_can_still_be_trained_through() -> None:
    phi = RepresentationMap(in_dim=4, out_dim=4, mean_square=4.0, seed=1234)
    with torch.inference_mode():
        phi(torch.ones(1, 4))
    inputs = torch.ones(1, 4, requires_grad=True)
    phi(inputs).sum().backward()
    assert inputs.grad is not None


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        ({"in_dim": 0}, "in_dim must be at least 1, got 0"),
        ({"out_dim": 0}, "out_dim must be at least 1"),
        ({"layers": 0}, "layers must be at least 1"),
        ({"seed": -1}, "seed of the representation must be at least 0"),
        ({"mean_square": 0.0}, "mean_square must be a finite number > 0"),
        ({"slope": 0.0}, "slope of a leaky ReLU"),
    ],
)
def test_impossible_maps_are_refused(broken: dict[str, float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        RepresentationMap(**{"in_dim": 3, "out_dim": 3, "mean_square": 3.0} | broken)  # type: ignore[arg-type]
