"""Textbook methods as solvers, which answer question i from the pairs before it."""

from algoformer.algorithms.catalog import SOLVERS, ListedSolver, build_solver
from algoformer.algorithms.closed_form import Averaging, LeastSquares, LinearInX, Ridge, Zero
from algoformer.algorithms.gradient_descent import GradientDescent, HeavyBall
from algoformer.algorithms.newton import Newton
from algoformer.algorithms.robust import IterativelyReweighted

__all__ = [
    "SOLVERS",
    "Averaging",
    "GradientDescent",
    "HeavyBall",
    "IterativelyReweighted",
    "LeastSquares",
    "LinearInX",
    "ListedSolver",
    "Newton",
    "Ridge",
    "Zero",
    "build_solver",
]
