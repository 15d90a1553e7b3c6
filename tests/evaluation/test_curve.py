import json
import math

import pytest
from hypothesis import given

from algoformer.evaluation import Curve
from evaluation.known import curve_parts, line


@given(curve_parts())
def test_json_gives_the_same_curve_back(parts: dict) -> None:
    curve = Curve(**parts)
    back = Curve.from_json(curve.to_json())
    assert back.to_data() == curve.to_data()
    for name in ("x", "error", "low", "high"):
        for one, other in zip(getattr(back, name), getattr(curve, name), strict=True):
            assert one == other or (math.isnan(one) and math.isnan(other))


@given(curve_parts())
def test_json_is_strict_json(parts: dict) -> None:
    def refuse(word: str) -> float:
        raise AssertionError(f"{word} is not JSON")

    json.loads(Curve(**parts).to_json(), parse_constant=refuse)


@pytest.mark.parametrize(
    "data",
    [
        None,
        [],
        {},
        {"label": "a"},
        line().to_data() | {"more": 1},
        line().to_data() | {"error": 3},
        line().to_data() | {"error": ["big", 1]},
        line().to_data() | {"error": [True, 1.0]},
        line().to_data() | {"error": [1.0]},
        line().to_data() | {"axis": "time"},
        line().to_data() | {"label": 3},
    ],
)
def test_what_is_no_curve_is_refused(data: object, as_a_user: None) -> None:
    with pytest.raises(ValueError, match=r"curve|error|axis|label"):
        Curve.from_data(data)


@pytest.mark.parametrize("text", ["", "{", "[" * 100_000])
def test_what_is_no_json_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not JSON"):
        Curve.from_json(text)


def test_x_must_rise() -> None:
    with pytest.raises(ValueError, match="x must rise"):
        line(x=(1.0, 1.0))
    with pytest.raises(ValueError, match="x must"):
        line(x=(1.0, math.inf))


def test_an_empty_curve_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one point"):
        line(x=(), error=(), low=(), high=())


def test_an_error_is_looked_up_where_it_was_measured() -> None:
    assert line().at(1) == 0.5
    with pytest.raises(ValueError, match=r"not measured at samples = 2"):
        line().at(2)


def test_errors_that_are_not_finite_are_counted() -> None:
    assert line(error=(math.nan, math.inf)).broken == 2
    assert line().broken == 0
