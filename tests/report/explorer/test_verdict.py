from pathlib import Path

import pytest

from algoformer.insight import Identification
from algoformer.report.explorer import verdict_of

FOUND = Path(__file__).parents[3] / "results" / "insight" / "linear" / "identification.json"


def test_the_verdict_is_the_sentence_of_the_identification() -> None:
    found = Identification.from_json(FOUND.read_text(encoding="utf-8"))
    verdict = verdict_of(found.to_data())["verdict"]
    assert verdict[0].isupper()
    assert verdict.lower() == found.sentence.lower()
    assert verdict_of(found.summary()) == {"verdict": found.sentence, "filters": None}


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
        {"sentence": "s", "curves": [1]},
        {"sentence": "s", "curves": {"eigenvalues": [1.0]}},
        {"sentence": "s", "curves": {"eigenvalues": [1.0, 2.0], "measured": [[1.0]]}},
        {"sentence": "s", "curves": {"eigenvalues": [1.0, 2.0], "measured": [["x", "y"]]}},
    ],
)
def test_what_is_no_identification_is_refused_with_a_remedy(found: object) -> None:
    with pytest.raises(ValueError, match="algoformer identify MODEL --out FOLDER"):
        verdict_of(found)
