import math

import pytest

from paper.dots import Dot, Rows, dot_figure

NEAR = Dot(error=1.15, low=1.13, high=1.17)
FAR = Dot(error=1e-3, low=5e-4, high=2e-3, beyond=4e-2)


def test_rows_stand_in_one_order_and_are_named_once() -> None:
    shown = [
        Rows(title="one", dots={"AlgoFormer": [FAR], "standard": [FAR]}),
        Rows(title="two", dots={"AlgoFormer": [NEAR], "looped": [NEAR], "standard": [NEAR]}),
    ]
    left, right = dot_figure(shown, title="").axes
    assert [tick.get_text() for tick in left.get_yticklabels()] == ["AlgoFormer", "looped", "standard"]
    assert not any(tick.get_text() for tick in right.get_yticklabels())
    assert left.get_ylim() == right.get_ylim()
    assert left.yaxis_inverted(), "the first row is on top"


def test_a_dot_lies_on_its_band_and_its_ring_where_the_loop_ends() -> None:
    (axes,) = dot_figure([Rows(title="", dots={"looped": [FAR]})], title="").axes
    band, ring, dot = (list(line.get_xdata()) for line in axes.get_lines())
    assert (band, ring, dot) == ([5e-4, 2e-3], [4e-2], [1e-3])
    assert len({line.get_color() for line in axes.get_lines()}) == 1
    low, high = axes.get_xlim()
    assert low < 5e-4
    assert high > 4e-2


def test_seeds_of_a_row_do_not_hide_each_other() -> None:
    shown = [Rows(title="", dots={"looped": [NEAR, NEAR, NEAR], "standard": [NEAR]})]
    (axes,) = dot_figure(shown, title="").axes
    heights = [float(line.get_ydata()[0]) for line in axes.get_lines()[1::2]]
    assert len(set(heights)) == 4
    assert sum(heights[:3]) == pytest.approx(0), "around the middle of row 0"
    assert max(abs(height) for height in heights[:3]) < 0.5
    assert heights[3] == 1


@pytest.mark.parametrize(("dots", "scale"), [([NEAR], "linear"), ([NEAR, FAR], "log")])
def test_errors_of_one_size_have_a_linear_axis(dots: list[Dot], scale: str) -> None:
    (axes,) = dot_figure([Rows(title="", dots={"looped": dots})], title="").axes
    assert axes.get_xscale() == scale


def test_a_level_is_inside_the_axis() -> None:
    (axes,) = dot_figure([Rows(title="", dots={"looped": [NEAR]}, level=1.0)], title="").axes
    assert axes.get_xlim()[0] < 1.0
    assert list(axes.get_lines()[-1].get_xdata()) == [1.0, 1.0]


def test_what_is_not_finite_does_not_decide_the_axis() -> None:
    broken = Dot(error=math.nan, low=math.nan, high=math.inf)
    (axes,) = dot_figure([Rows(title="", dots={"looped": [broken, NEAR]})], title="").axes
    assert axes.get_xlim()[1] < 2
    dot_figure([Rows(title="", dots={"looped": [broken]})], title="")


def test_no_dots_are_refused() -> None:
    with pytest.raises(ValueError, match="no dot to draw"):
        dot_figure([Rows(title="", dots={})], title="")
