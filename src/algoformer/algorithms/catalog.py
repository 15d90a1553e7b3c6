"""The solvers by name, ready for a task at a noise level."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from algoformer.algorithms.closed_form import Averaging, LeastSquares, LinearInX, Ridge, Zero
from algoformer.algorithms.gradient_descent import GradientDescent, HeavyBall
from algoformer.algorithms.newton import Newton
from algoformer.algorithms.robust import IterativelyReweighted
from algoformer.common.names import check_choice
from algoformer.problems import View, pairs
from algoformer.trace import Solver


@dataclass(frozen=True)
class ListedSolver:
    """A solver's builder, which takes a view of the prompts and a noise level, and a one-line description."""

    build: Callable[[View, float], Solver]
    description: str


def _same(method: Callable[..., Solver], **numbers: Any) -> Callable[[View, float], Solver]:
    """Return the builder of a method that is the same at every noise level."""
    return lambda view, noise: method(view=view, **numbers)


def _oracle(view: View, noise: float) -> Solver:
    """Return the posterior mean for labels that are linear in the features, with standard normal weights.

    For a task whose `problems` do not describe it exactly, this is a strong baseline and not Bayes-optimal.
    """
    return Ridge(strength=noise**2, view=view) if noise > 0 else LeastSquares(view=view)


SOLVERS: dict[str, ListedSolver] = {
    "gd": ListedSolver(
        _same(GradientDescent, step_size="practical"),
        "gradient descent with the step 1.8/λ_max of each prefix",
    ),
    "heavy-ball": ListedSolver(_same(HeavyBall), "gradient descent with the best momentum for each prefix"),
    "newton": ListedSolver(_same(Newton), "Newton's iteration for the inverse Gram matrix"),
    "ridge": ListedSolver(
        lambda view, noise: Ridge(strength=noise**2 if noise > 0 else 1.0, view=view),
        "ridge regression with strength noise² (1 where there is no noise)",
    ),
    "least-squares": ListedSolver(_same(LeastSquares), "least squares of smallest norm"),
    "averaging": ListedSolver(_same(Averaging), "the mean of label times features"),
    "zero": ListedSolver(_same(Zero), "zero weights for every prompt"),
    "irls": ListedSolver(
        _same(IterativelyReweighted), "iteratively reweighted least squares, robust to outliers"
    ),
    "oracle": ListedSolver(
        _oracle, "ridge with strength noise² on the task's own features (least squares without noise)"
    ),
    "linear-in-x": ListedSolver(
        lambda view, noise: LinearInX(noise=noise),
        "ridge on the raw x and a constant, without the task's representation",
    ),
}
"""Every solver under the name that the command line uses; add your own here."""


def build_solver(name: str, *, view: View = pairs, noise: float = 0.0) -> Solver:
    """Return the solver of that name, reading prompts through `view` and expecting labels with this noise.

    >>> build_solver("oracle", noise=0.5).strength
    0.25
    """
    check_choice("solver", name, SOLVERS)
    return SOLVERS[name].build(view, noise)
