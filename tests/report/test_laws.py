import math

import pytest

from algoformer.report.plots import exponential_law, power_law, weights_beside_textbook


def line(figure, label: str):
    return next(line for line in figure.axes[0].get_lines() if line.get_label() == label)


def test_a_power_law_is_drawn_beside_what_was_measured() -> None:
    points = [(0.1, 3e-2), (0.01, 3.3e-4)]
    figure = power_law(points, name="c", power=2)
    assert list(line(figure, "measured, float64").get_ydata()) == [3e-2, 3.3e-4]
    law = line(figure, "the law: c^2").get_ydata()
    assert law[0] == pytest.approx(3e-2)
    assert law[1] == pytest.approx(3e-4)
    assert figure.axes[0].get_xscale() == figure.axes[0].get_yscale() == "log"


def test_an_exponential_law_starts_where_the_measurement_starts() -> None:
    points = [(6.0, 1e-2), (8.0, 1.4e-3)]
    law = line(exponential_law(points, name="C", rate=-1), "the law: exp(-C)").get_ydata()
    assert law[0] == pytest.approx(1e-2)
    assert law[1] == pytest.approx(1e-2 * math.exp(-2))


def test_every_solver_has_its_line_from_the_first_step_on() -> None:
    figure = weights_beside_textbook({"Newton, weights": [1.0, 0.1], "Newton, textbook": [1.0, 0.1]})
    for label in ("Newton, weights", "Newton, textbook"):
        assert list(line(figure, label).get_xdata()) == [1, 2]
        assert list(line(figure, label).get_ydata()) == [1.0, 0.1]
    with pytest.raises(ValueError, match="no solver to draw"):
        weights_beside_textbook({})
