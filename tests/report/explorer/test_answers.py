"""Answers computed in advance: when they settle, what is refused, and what the page shows."""

import json
from pathlib import Path

import pytest
import torch

from algoformer.report import Page
from algoformer.report.explorer.answers import Answers, answers_of, answers_page
from report.explorer.browser import Browser

EVIL = "</script><script>window.broken = 1</script>&amp;"


def board() -> Answers:
    scores = torch.zeros(3, 4, 2)
    # the first cell changes at iteration 3, the second at 2, the others never
    scores[:, :, 0] = torch.tensor([[1.0, 1, 1, 0], [1, 0, 1, 0], [0, 0, 1, 0]])
    scores[:, :, 1] = 1 - scores[:, :, 0]
    names = ["A1", "A2", EVIL, "B2"]
    return answers_of(
        scores, ["x", "o"], title="a board", names=names, targets=("o", "o", "o", "o"), grid=(2, 2)
    )


def test_an_answer_settles_where_it_changes_for_the_last_time() -> None:
    found = board()
    assert found.exits == (3, 2, 1, 1)
    assert found.answers[0] == ("x", "x", "x", "o")
    assert found.probabilities[0][0] == pytest.approx(torch.tensor(1.0).sigmoid().item())


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"answers": ()}, "a row for each iteration, got 0 and 1"),
        ({"answers": (("a", "b"),)}, "all 1 positions, got 2"),
        ({"targets": ("a", "b")}, "name 1 classes, got 2"),
        ({"grid": (2, 3)}, "2 × 3 cells cannot show 1 positions"),
    ],
)
def test_answers_that_do_not_fit_are_refused(change: dict, words: str) -> None:
    given = {"title": "t", "names": ("n",), "answers": (("a",),), "probabilities": ((0.5,),)}
    with pytest.raises(ValueError, match=words):
        Answers(**given | change)


def test_the_page_shows_the_answers_of_its_iteration_on_a_board(browser: Browser, tmp_path: Path) -> None:
    file = tmp_path / "board.html"
    text = answers_page(Page(title=EVIL, lead=EVIL), [board()], trained=2, hint="h")
    file.write_text(text, encoding="utf-8")
    page = browser.page(file, width=375)

    def shown() -> list[str]:
        return page.run("Array.from(document.querySelectorAll('.cell b'), (cell) => cell.textContent)")

    assert shown() == ["x", "o", "x", "o"], "the page opens at the trained depth"
    page.run("explorer.setIteration(3)")
    assert shown() == ["o", "o", "x", "o"]
    assert page.run("document.querySelectorAll('.cell.settled').length") == 4
    assert page.run("document.querySelectorAll('.cell.wrong').length") == 1
    assert "3 of 4 are right" in page.run("document.getElementById('now').textContent")
    columns = page.run("getComputedStyle(document.getElementById('cells')).gridTemplateColumns")
    assert len(columns.split()) == 2
    page.click(".cell")
    rows = page.run("Array.from(document.querySelectorAll('#answers tr'), (row) => row.innerText)")
    assert [row.split("\t")[0] for row in rows] == ["1 to 2", "3"]
    assert page.run("document.documentElement.scrollWidth <= innerWidth")
    assert page.run("window.broken") is None
    assert page.run("document.querySelector('h1').textContent") == EVIL
    assert json.loads(page.run("JSON.stringify(explorer.inputs[0].exits)")) == [3, 2, 1, 1]
    assert page.problems() == []
    assert page.requests() == []
    page.close()
