import pytest

from algoformer.theory import Sizes, error_against_c, error_against_sink, error_by_step

from .linearized import fitted_power, fitted_rate, slope

SMALL = Sizes(dim=4, examples=12, prompts=4, steps=20)


@pytest.mark.theorem
def test_the_error_of_symmetric_heads_is_of_second_order_in_c() -> None:
    points = error_against_c((3e-2, 1e-2, 3e-3, 1e-3), sizes=SMALL)
    assert fitted_power(points) == pytest.approx(2, rel=0.05)


@pytest.mark.theorem
def test_the_error_is_exponentially_small_in_the_sink() -> None:
    points = error_against_sink((6.0, 8.0, 10.0, 12.0, 14.0), sizes=SMALL)
    assert fitted_rate(points) == pytest.approx(-1, rel=0.05)


@pytest.mark.theorem
def test_weights_and_textbook_make_the_same_error_at_every_step() -> None:
    errors = error_by_step(sizes=SMALL, alpha=1 / 60**2)
    for method in ("gradient descent", "Newton"):
        built, textbook = errors[f"{method}, weights"], errors[f"{method}, textbook"]
        assert len(built) == len(textbook) == 20
        assert built == pytest.approx(textbook, rel=1e-5, abs=1e-12)


def test_the_slope_is_that_of_the_line_through_the_points() -> None:
    assert slope([0.0, 1.0, 3.0], [1.0, 3.0, 7.0]) == pytest.approx(2)
