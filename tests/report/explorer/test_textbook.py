"""Textbook methods in the page, beside trained and hand-built models."""

import pytest
import torch

from algoformer import programs, theory
from algoformer.algorithms import GradientDescent, LeastSquares, Newton
from algoformer.prompt import Prompt
from algoformer.report.explorer import Exploration
from algoformer.trace import Solver, Unroll
from report.explorer.conftest import Open
from report.explorer.models import random_model, relative_error
from report.explorer.reader import rows_of, set_value, settled
from scripts.browser import Page

RIVALS = {"step_size": 0.3, "alpha": 0.001}


def textbook(page: Page, solver: Solver, steps: int) -> torch.Tensor:
    rows = torch.tensor([rows_of(page)], dtype=torch.float64)
    prompt = Prompt(rows=rows, targets=rows[:, :1, :1], reads=(rows.shape[1] - 1,), parts=2)
    return solver(prompt, Unroll(steps=steps)).predictions[:, 0, 0]


@pytest.mark.parametrize("dim", [1, 3])
def test_textbook_methods_in_the_page_are_those_of_the_library(dim: int, open_page: Open) -> None:
    model = random_model(programs.algoformer(heads=2, steps=4), dim=dim, context=9)
    rivals = RIVALS if dim == 1 else {}
    page = open_page(model, Exploration(title="a model", rivals=rivals))
    settled(page)
    for examples in (4, 2):  # in three dimensions two examples leave a null space
        set_value(page, "examples", examples)
        settled(page)
        solvers = {
            "descent": GradientDescent(step_size=rivals.get("step_size", "practical")),
            "newton": Newton(alpha=rivals.get("alpha")),
        }
        for name, solver in solvers.items():
            found = page.run(f"explorer.methods.{name}.map((answers) => [answers[0]])")
            assert relative_error(found, textbook(page, solver, 20)) < 1e-9
        least = page.run("explorer.least[0]")
        assert least == pytest.approx(textbook(page, LeastSquares(), 1).item(), rel=1e-9)


def test_a_theorem_page_shows_how_far_the_weights_are_from_the_textbook(open_page: Open) -> None:
    model = theory.newton(dim=1, examples=5, alpha=1 / 45**2)
    constants = {"method": "newton", "alpha": 1 / 45**2}
    page = open_page(model, Exploration(title="Newton", textbook=constants))
    for examples in (5, 3):  # fewer are brought to five by empty ones
        set_value(page, "examples", examples)
        settled(page)
        found = page.run("explorer.answers.map((answers) => [answers[0]])")
        wanted = textbook(page, Newton(alpha=1 / 45**2), len(found))
        assert relative_error(found, wanted) < 1e-6
        most = max(abs(one - other.item()) for (one,), other in zip(found[:20], wanted[:20], strict=True))
        sentence = page.run("document.getElementById('now').textContent")
        assert "differ by at most" in sentence
        said = float(sentence.split("at most ")[1].split(" ")[0].replace("−", "-"))
        assert most <= 1.05 * said < 1e-6
