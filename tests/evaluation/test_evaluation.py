import pytest
from hypothesis import given
from hypothesis import strategies as st

from algoformer.common.terminal import short
from algoformer.evaluation import Curve, Evaluation
from evaluation.known import curve_parts, line, one

plain = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
)
evaluation_parts = st.fixed_dictionaries(
    {
        "label": st.text(),
        "by_sample": curve_parts("samples"),
        "by_step": curve_parts("iterations"),
        "steps": st.integers(1, 1000),
        "prompts": st.integers(1, 10_000),
        "scale": st.floats(1e-3, 1e3),
        "against": st.sampled_from(["clean", "shown"]),
        "broken": st.integers(0, 10),
        "parameters": st.none() | st.integers(0, 10**9),
        "provenance": st.dictionaries(st.text(), plain, max_size=3),
    }
)


@given(evaluation_parts)
def test_json_gives_the_same_evaluation_back(parts: dict) -> None:
    curves = {name: Curve(**parts[name]) for name in ("by_sample", "by_step")}
    evaluation = Evaluation(**parts | curves)
    assert Evaluation.from_json(evaluation.to_json()).to_data() == evaluation.to_data()


def test_the_error_is_that_of_the_last_sample() -> None:
    assert one().error == 0.5


@pytest.mark.parametrize(
    "change",
    [
        {"steps": "many"},
        {"steps": True},
        {"label": None},
        {"scale": "1"},
        {"provenance": []},
        {"by_step": None},
        {"against": "noisy"},
        {"parameters": 1.5},
        {"extra": 1},
    ],
)
def test_what_is_no_evaluation_is_refused(change: dict, as_a_user: None) -> None:
    with pytest.raises(ValueError, match=r"evaluation|curve|cannot be|against"):
        Evaluation.from_data(one().to_data() | change)


def test_curves_along_the_wrong_axis_are_refused() -> None:
    with pytest.raises(ValueError, match="swapped"):
        Evaluation(
            label="a", by_sample=line(), by_step=line(), steps=1, prompts=1, scale=1.0, against="clean"
        )


def test_an_evaluation_and_its_curves_print_on_one_line() -> None:
    result = one()
    for shown in (repr(result), repr(result.by_sample), repr(result.by_step)):
        assert len(shown) < 160
        assert "\n" not in shown
        assert result.label in shown
    assert f"error {result.error:.3g}" in repr(result)


@pytest.mark.parametrize("value", [10**400, -(10**5000)], ids=short)
@pytest.mark.parametrize("name", ["scale", "error"])
def test_a_number_too_large_for_a_float_is_refused(value: int, name: str) -> None:
    data = one().to_data()
    if name == "scale":
        data["scale"] = value
    else:
        data["by_step"]["error"][0] = value
    with pytest.raises(ValueError, match="too large for a float: an integer of about") as caught:
        Evaluation.from_data(data)
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize("change", [{"label": ["x" * 10**4]}, {"steps": "z" * 10**4}])
def test_a_refusal_never_repeats_a_long_value(change: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=next(iter(change))) as caught:
        Evaluation.from_data(one().to_data() | change)
    assert len(str(caught.value)) < 300
