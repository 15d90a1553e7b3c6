"""The checks at run time refuse what the annotations exclude, and nothing else."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
import torch
from jaxtyping import Float
from torch import Tensor

from algoformer import AlgoFormer, programs
from runtime_types import checked

if TYPE_CHECKING:
    from nowhere import Unknown


@checked
def product(
    left: Float[Tensor, "rows inner"], right: Float[Tensor, "inner columns"]
) -> Float[Tensor, "rows columns"]:
    return left @ right


@checked
def wrong_result(left: Float[Tensor, "rows columns"]) -> Float[Tensor, "columns rows"]:
    return left


@checked
def count(number: int, other: Unknown = None) -> int:
    return number


@checked
@dataclass
class Pair:
    left: Float[Tensor, " n"]
    right: Float[Tensor, " n"]

    @classmethod
    @checked
    def twice(cls, values: Float[Tensor, " n"]) -> Pair:
        return cls(values, values)


def test_what_fits_passes_and_sizes_are_forgotten_between_calls() -> None:
    for size in (2, 3):
        assert product(torch.ones(size, 4), torch.ones(4, 5)).shape == (size, 5)
        assert Pair.twice(torch.ones(size)).right.shape == (size,)
    assert count(3, other="anything, as its type is unknown here") == 3
    assert wrong_result(torch.ones(2, 2)).shape == (2, 2)


@pytest.mark.parametrize(
    ("function", "arguments"),
    [
        (product, (torch.ones(2, 3), torch.ones(4, 5))),
        (product, (torch.ones(2, 3), torch.ones(3))),
        (product, (torch.ones(2, 3), torch.ones(3, 4, dtype=torch.int64))),
        (wrong_result, (torch.ones(2, 3),)),
        (count, ("three",)),
        (Pair, (torch.ones(2), torch.ones(3))),
    ],
)
def test_what_does_not_fit_is_refused(function: Any, arguments: Any) -> None:
    with pytest.raises(TypeError, match="violates"):
        function(*arguments)


@pytest.mark.usefixtures("as_a_user")
def test_checks_can_be_switched_off() -> None:
    assert count("three") == "three"  # type: ignore[arg-type]
    assert wrong_result(torch.ones(2, 3)).shape == (2, 3)


def test_the_library_is_checked() -> None:
    with pytest.raises(TypeError, match="violates"):
        AlgoFormer(programs.algoformer(), dim="three", out=1, context=8)  # type: ignore[arg-type]
