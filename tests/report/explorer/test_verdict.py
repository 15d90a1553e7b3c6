from typing import Any

import pytest

from algoformer.report.explorer import verdict_of

NEWTON = {"name": "Newton from αI", "share": 0.55}


@pytest.mark.parametrize(
    ("found", "words"),
    [
        ({"sentence": "It runs Newton.", "status": "runs"}, "It runs Newton."),
        (
            {"status": "runs", "families": [NEWTON]},
            "Runs Newton from αI, which explains 0.550 of what is left.",
        ),
        (
            {"status": "none of these", "families": [NEWTON, {"name": "zero", "share": 0.0}]},
            "None of these; nearest is Newton from αI, which explains 0.550 of what is left.",
        ),
    ],
)
def test_the_verdict_is_a_sentence(found: dict[str, Any], words: str) -> None:
    assert verdict_of(found) == {"verdict": words, "filters": None}


def test_filters_are_those_of_the_model_and_its_candidates() -> None:
    curves = {"eigenvalues": [0.5, 1.0], "measured": [[1.0, 0.9], [0.5, 0.2]], "candidates": {"a": [[1, 1]]}}
    found = verdict_of({"sentence": "s", "curves": curves})["filters"]
    assert found == {"eigenvalues": [0.5, 1.0], "series": {"the model": curves["measured"], "a": [[1, 1]]}}


@pytest.mark.parametrize(
    "found",
    [
        None,
        [],
        {},
        {"status": "runs"},
        {"status": 3, "families": [NEWTON]},
        {"status": "runs", "families": [{"name": "a", "share": None}]},
        {"sentence": "s", "curves": [1]},
        {"sentence": "s", "curves": {"eigenvalues": [1.0]}},
        {"sentence": "s", "curves": {"eigenvalues": [1.0, 2.0], "measured": [[1.0]]}},
        {"sentence": "s", "curves": {"eigenvalues": [1.0, 2.0], "measured": [["x", "y"]]}},
    ],
)
def test_what_is_no_identification_is_refused_with_a_remedy(found: object) -> None:
    with pytest.raises(ValueError, match="algoformer identify MODEL --out FOLDER"):
        verdict_of(found)
