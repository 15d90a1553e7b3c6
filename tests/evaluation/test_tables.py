import math
from dataclasses import replace

import pytest

from algoformer.common.tables import show
from algoformer.evaluation import Table, compare, depth_table, summary_table
from evaluation.known import Off, line, one, pairs


def test_a_summary_shows_a_quarter_a_half_and_all_of_the_samples() -> None:
    x = tuple(float(count) for count in range(41))
    curve = line(x=x, error=tuple(1 / (1 + v) for v in x), low=x, high=x)
    result = replace(one(), label="model", by_sample=curve, parameters=7, steps=20)
    table = summary_table([result])
    assert table.columns == (
        "solver", "parameters", "iterations", "10 samples", "20 samples", "40 samples", "5 %", "95 %",
    )  # fmt: skip
    assert table.rows == (("model", 7, 20, 1 / 11, 1 / 21, 1 / 41, 40.0, 40.0),)


def test_samples_may_be_chosen_and_may_be_missing() -> None:
    table = summary_table([one()], samples=(0, 1, 5))
    assert table.rows[0][3:6] == (1.0, 0.5, None)


def test_the_note_says_what_was_measured_and_what_broke() -> None:
    note = summary_table([replace(one(), broken=2, against="shown")]).note
    assert "noise included" in note
    assert "a: not a finite number on 2 of 3 prompts" in note


def test_no_evaluations_are_refused() -> None:
    with pytest.raises(ValueError, match="at least one evaluation"):
        summary_table([])


def test_depths_are_set_against_the_trained_one() -> None:
    curve = line(axis="iterations", x=(20.0, 200.0), error=(0.5, 0.75))
    table = depth_table([curve], trained=20, depths=(200, 1000))
    assert table.columns == ("solver", "T = 20", "T = 200", "200 ÷ 20", "T = 1000", "1000 ÷ 20")
    assert table.rows == (("a", 0.5, 0.75, 1.5, None, None),)


@pytest.mark.parametrize(("start", "ratio"), [(0.0, None), (math.nan, math.nan), (math.inf, 0.0)])
def test_a_ratio_to_nothing_is_left_out(start: float, ratio: float | None) -> None:
    curve = line(axis="iterations", x=(20.0, 200.0), error=(start, 0.5))
    found = depth_table([curve], trained=20).column("200 ÷ 20")[0]
    assert found == ratio or (isinstance(found, float) and math.isnan(found))


def test_a_curve_along_samples_has_no_depth() -> None:
    with pytest.raises(ValueError, match="runs along samples"):
        depth_table([line()], trained=1)


def test_every_row_fills_every_column() -> None:
    with pytest.raises(ValueError, match="2 columns"):
        Table(columns=("a", "b"), rows=((1,),))
    with pytest.raises(ValueError, match="at least one column"):
        Table(columns=(), rows=())
    with pytest.raises(ValueError, match="no column 'c'"):
        Table(columns=("a",), rows=()).column("c")


def test_a_comparison_prints_as_its_table() -> None:
    results = compare({"exact": Off((0.0,) * 3), "off\x1b": Off((2.0,) * 3)}, pairs(), steps=2)
    lines = str(results).splitlines()
    assert repr(results) == str(results)
    assert len(lines) == 3
    assert lines[0].split()[:3] == ["solver", "parameters", "iterations"]
    # an error of (2 / 2)² divided by the dim of 4
    assert lines[1].split()[:4] == ["exact", "–", "2", "0"]
    assert lines[2].split()[:4] == ["off\\x1b", "–", "2", "0.250"]
    assert len({line.index("2") for line in lines[1:]}) == 1
    assert isinstance(results, list)


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
