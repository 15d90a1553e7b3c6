import pytest
import torch

from algoformer.algorithms import SOLVERS, LeastSquares, LinearInX, Ridge, build_solver
from algoformer.problems import pairs
from algoformer.tasks import LinearRegression
from algoformer.trace import Unroll


@pytest.mark.parametrize("name", SOLVERS)
@pytest.mark.parametrize("noise", [0.0, 0.5])
def test_every_listed_solver_solves(name: str, noise: float) -> None:
    prompt = LinearRegression(dim=3, points=5).sample(2, generator=torch.Generator().manual_seed(0))
    trace = build_solver(name, view=pairs, noise=noise)(prompt, Unroll(steps=3))
    assert trace.predictions.shape == (3, 2, 5, 1)
    assert SOLVERS[name].description


def test_the_oracle_knows_the_noise() -> None:
    assert build_solver("oracle", noise=0.5) == Ridge(strength=0.25)
    assert build_solver("oracle") == LeastSquares()
    assert build_solver("linear-in-x", noise=0.5) == LinearInX(noise=0.5)


def test_an_unknown_solver_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(ValueError, match=r"'newtno' \(did you mean 'newton'\?\); choose from gd, "):
        build_solver("newtno")
    with pytest.raises(ValueError, match="unknown solver 'xyz'; choose from gd"):
        build_solver("xyz")
