import pytest
from hypothesis import given
from hypothesis import strategies as st

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
