"""Identification names known solvers, and nothing else."""

from __future__ import annotations

import pytest
import torch

from algoformer import AlgoFormer, Layers, Loop, algorithms, programs, tasks
from algoformer.insight import Identification, identify
from algoformer.insight.verdict import RUNS
from algoformer.language.token_model import TokenModel
from tests.insight.controls import BUILT, NULLS, TEXTBOOK, FromWeights, outcome

DIM, EXAMPLES = 4, 12


def identified(name: str, noise: float = 0.0, dim: int = DIM, examples: int = EXAMPLES) -> Identification:
    control = (TEXTBOOK | NULLS | BUILT)[name]
    task = tasks.LinearRegression(dim=dim, points=examples + 1, noise=noise)
    queries = dim + 6 if name in BUILT else dim + 14
    return identify(control.build(dim, examples), task, steps=6, prompts=24, queries=queries)


QUICK = (
    *(
        "GD 0.2",
        "GD optimal",
        "heavy ball 0.2 0.5",
        "Newton fixed",
        "Newton",
        "ridge",
        "least squares",
        "zero",
    ),
    *("conjugate gradients", "Kaczmarz", "GD++", "GD 0.2 + 10 % noise", "Newton from αI + 50 % noise"),
)
"""Controls for every run of the tests; results/insight/controls.json has all of them at several sizes."""


@pytest.mark.parametrize("name", QUICK)
def test_textbook_methods_are_named_with_their_parameters(name: str) -> None:
    found = identified(name, noise=0.5 if len(name) % 2 else 0.0)
    right, off = outcome(TEXTBOOK[name], found, EXAMPLES)
    assert right, str(found)
    assert off < (0.05 if "noise" in name else 0.01)


@pytest.mark.parametrize("name", NULLS)
def test_no_solver_outside_the_families_is_named(name: str) -> None:
    found = identified(name)
    assert found.name is None, str(found)
    if found.status == "resembles":  # every slow method explains what a slow solver leaves, not what it does
        assert found.done is not None
        assert found.done < found.nearest.share > RUNS
        assert f"; but only {found.done:.3f} of what was done" in found.sentence
    else:
        assert found.status in ("none of these", "does not learn")


def test_a_solver_of_labels_that_learns_nothing_is_said_not_to_correlate_with_least_squares() -> None:
    def turned(features: torch.Tensor, labels: torch.Tensor, steps: int) -> torch.Tensor:
        first, second = (torch.linalg.pinv(features) @ labels[..., None])[..., 0].chunk(2, dim=-1)
        return torch.cat([-second, first], dim=-1).expand(steps, -1, -1)  # a right angle to least squares

    task = tasks.LinearRegression(dim=DIM, points=EXAMPLES + 1)
    found = identify(FromWeights(turned), task, steps=3, prompts=24)
    assert found.foreign[0] > 0.1  # it does depend on the labels
    assert found.sentence == "does not learn: its answers hardly correlate with those of least squares."


@pytest.mark.parametrize("step_size", [1.5, 2.5])
def test_gradient_descent_that_diverges_is_named(step_size: float) -> None:
    task = tasks.LinearRegression(dim=DIM, points=EXAMPLES + 1)
    found = identify(algorithms.GradientDescent(step_size=step_size), task, steps=8, prompts=24)
    assert found.error[-1] > 1e4
    assert found.name == "gradient descent", str(found)
    assert found.nearest.parameters["η"] == pytest.approx(step_size, rel=1e-6)


@pytest.mark.parametrize("name", BUILT)
@pytest.mark.theorem
def test_every_hand_built_model_is_named_with_its_parameters(name: str) -> None:
    found = identified(name, dim=3, examples=8)
    right, off = outcome(BUILT[name], found, 8)
    assert right, str(found)
    assert off < 0.01


@pytest.mark.parametrize(("dim", "context", "words"), [(3, 26, "dim=3"), (DIM, 24, "built for context=24")])
def test_a_task_that_the_model_was_not_built_for_is_refused(dim: int, context: int, words: str) -> None:
    model = AlgoFormer(programs.looped(heads=2), dim=dim, out=1, context=context, width=8)
    with pytest.raises(ValueError, match=words):
        identify(model, tasks.LinearRegression(dim=DIM, points=EXAMPLES + 1), steps=3, prompts=24)


def test_a_model_of_text_is_refused() -> None:
    model = TokenModel(Loop(Layers(1, heads=2), steps=2), vocabulary=9, context=8, width=8)
    with pytest.raises(ValueError, match=r"solver must answer prompts, got TokenModel.*algoformer certify"):
        identify(model, tasks.LinearRegression(dim=DIM, points=EXAMPLES + 1))  # type: ignore[arg-type]
