import pytest

from algoformer.evaluation.numbers import show


@pytest.mark.parametrize(
    ("cell", "text"),
    [
        (0, "0"),
        (0.0, "0"),
        (-1234567, "-1,234,567"),
        (123.456, "123"),
        (9999.0, "9999"),
        (12345.0, "1.23e4"),
        (1e-3, "0.00100"),
        (9.99e-4, "9.99e-4"),
        (-0.5, "-0.500"),
        (float("inf"), "∞"),
        (float("-inf"), "-∞"),
        ("", ""),
    ],
)
def test_numbers_have_three_digits(cell: float | int | str, text: str) -> None:
    assert show(cell) == text
