import dataclasses

import pytest
import torch

from algoformer.theory.constants import DOUBLE, SINGLE, Constants


@pytest.mark.parametrize("name", [field.name for field in dataclasses.fields(Constants)])
@pytest.mark.parametrize("value", [0.0, -1.0, float("nan"), float("inf")])
def test_every_constant_is_a_positive_number(name: str, value: float) -> None:
    with pytest.raises(ValueError, match=f"{name} must be a positive number, got {value}"):
        Constants(**{name: value})


def test_c_must_be_small() -> None:
    with pytest.raises(ValueError, match=r"c must be at most 1.*got 2.0"):
        Constants(c=2.0)


@pytest.mark.parametrize(
    ("constants", "dtype", "words"),
    [
        (Constants(sharpness=700.0), torch.float64, "sharpness must exceed 745.2"),
        (Constants(sharpness=100.0), torch.float32, "sharpness must exceed 104.0"),
        (Constants(c=0.1, sink=90.0), torch.float32, "sink must be at most 60 in float32"),
        (DOUBLE, torch.float16, "dtype must be torch.float64 or torch.float32"),
    ],
)
def test_constants_that_break_a_precision_are_refused(
    constants: Constants, dtype: torch.dtype, words: str
) -> None:
    with pytest.raises(ValueError, match=words):
        constants.check(dtype)


def test_too_large_a_sink_is_refused() -> None:
    with pytest.raises(ValueError, match=r"sink must be at most 300.*got 400"):
        Constants(sink=400.0)


def test_single_precision_with_the_constants_of_double_warns() -> None:
    with pytest.warns(UserWarning, match=r"c=0.0001 in torch.float32 adds a relative rounding error"):
        DOUBLE.check(torch.float32)


def test_the_presets_suit_their_precision() -> None:
    DOUBLE.check(torch.float64)
    SINGLE.check(torch.float32)


def test_underflow_is_exact_where_the_check_draws_the_line() -> None:
    assert torch.exp(torch.tensor(-745.2, dtype=torch.float64)) == 0
    assert torch.exp(torch.tensor(-104.0, dtype=torch.float32)) == 0
