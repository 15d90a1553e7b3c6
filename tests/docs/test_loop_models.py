"""The pictures of the page "Published loop models"; run this file to draw them again."""

import pytest

from algoformer.model.presets import LOOP_MODELS
from algoformer.model.program import Program
from algoformer.report.diagram import diagram
from tests.docs.pages import ROOT

FOLDER = ROOT / "docs" / "pictures" / "loop-models"


def drawn(name: str) -> Program:
    return LOOP_MODELS[name](core=3) if name == "mor_sequence" else LOOP_MODELS[name]()


@pytest.mark.parametrize("name", LOOP_MODELS)
def test_the_page_shows_the_diagram_of_the_preset(name: str) -> None:
    assert (FOLDER / f"{name}.svg").read_text(encoding="utf-8") == diagram(drawn(name))
    page = (ROOT / "docs" / "loop-models.md").read_text(encoding="utf-8")
    assert f"](pictures/loop-models/{name}.svg)" in page


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for each in LOOP_MODELS:
        (FOLDER / f"{each}.svg").write_text(diagram(drawn(each)), encoding="utf-8")
