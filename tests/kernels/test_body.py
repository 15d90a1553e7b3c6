"""A body by hand is the same function as the modules it stands for, with the same gradients."""

from typing import Any

import pytest
import torch
from torch import Tensor

from algoformer.kernels import operations
from kernels.bodies import DIFFERENT, Case, by_hand, by_modules


def largest_difference(found: list[Tensor], expected: list[Tensor]) -> float:
    """Relative to the largest entry of each tensor."""
    pairs = zip(found, expected, strict=True)
    return max(float((one - other).abs().max() / other.abs().max()) for one, other in pairs)


@pytest.mark.parametrize("case", DIFFERENT, ids=str)
def test_states_and_all_gradients_are_those_of_the_modules(case: Case) -> None:
    expected, expected_grads = by_modules(case)
    found, grads = by_hand(case, operations)
    assert found.shape == expected.shape
    assert float((found - expected).abs().max()) < 2e-6
    assert largest_difference(grads, expected_grads) < 5e-6


@pytest.mark.parametrize("case", DIFFERENT, ids=str)
def test_half_precision_rounds_products_only(case: Case) -> None:
    expected, expected_grads = by_modules(case)
    found, grads = by_hand(case, operations, torch.bfloat16)
    assert found.dtype == torch.float32
    # bf16 has 8 bits: a relative 2⁻⁸ a product, a few products deep
    assert 1e-5 < float((found - expected).abs().max()) < 0.05
    assert largest_difference(grads, expected_grads) < 0.05
    assert all(grad.dtype == torch.float32 for grad in grads)


def test_iterations_without_gradient_change_nothing_but_the_gradient() -> None:
    whole = Case(layers=1, steps=4, tracked=4, window=2)
    part = Case(layers=1, steps=4, tracked=2, window=2)
    states, grads = by_hand(whole, operations)
    fewer_states, fewer_grads = by_hand(part, operations)
    assert torch.equal(states, fewer_states)
    assert largest_difference(fewer_grads, grads) > 1e-3


def test_a_weights_gradient_is_one_product_however_many_iterations(monkeypatch: Any) -> None:
    calls: list[tuple[int, ...]] = []
    multiply = operations.weight_gradient

    def counted(grads: Tensor, rows: Tensor) -> Tensor:
        calls.append(tuple(grads.shape))
        return multiply(grads, rows)

    monkeypatch.setattr(operations, "weight_gradient", counted)
    by_hand(Case(layers=1, steps=7, tracked=7, window=1), operations)
    assert len(calls) == 4
    assert all(shape[0] == 7 for shape in calls)


def test_rows_that_another_iteration_needs_cannot_be_left_out() -> None:
    with pytest.raises(ValueError, match="every iteration needs all 10 rows, but only 2 are read;"):
        by_hand(Case(layers=1, steps=2, tracked=2, read_rows=(1, 3)), operations)
