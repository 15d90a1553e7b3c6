import math

import pytest
import torch

from algoformer.theory.subspace import quasi_orthogonal


def smallest_gap(codes: torch.Tensor) -> float:
    products = codes @ codes.mT
    gaps = products.diagonal()[:, None] - products
    gaps.fill_diagonal_(math.inf)
    return gaps.min().item()


@pytest.mark.theorem
@pytest.mark.parametrize("epsilon", [1e-3, 1.0, 1.99, 2.0, 7.0, 100.0])
@pytest.mark.parametrize("count", [2, 3, 40, 1000])
def test_a_code_is_closer_to_itself_than_to_any_other_by_more_than_epsilon(
    count: int, epsilon: float
) -> None:
    assert smallest_gap(quasi_orthogonal(count, epsilon=epsilon)) > epsilon


@pytest.mark.theorem
@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 1000, 1024, 1025, 10_000])
def test_the_dimension_is_the_logarithm_of_their_number(count: int) -> None:
    assert quasi_orthogonal(count).shape == (count, max(1, math.ceil(math.log2(count))))


def test_bad_arguments_are_named() -> None:
    with pytest.raises(ValueError, match="count must be at least 1, got 0"):
        quasi_orthogonal(0)
    with pytest.raises(ValueError, match="epsilon must be a positive number, got 0"):
        quasi_orthogonal(4, epsilon=0.0)
