"""Textbook methods as solvers, which answer question i from the pairs before it."""

from algoformer.algorithms.catalog import SOLVERS as SOLVERS
from algoformer.algorithms.catalog import ListedSolver as ListedSolver
from algoformer.algorithms.catalog import build_solver as build_solver
from algoformer.algorithms.closed_form import Averaging as Averaging
from algoformer.algorithms.closed_form import LeastSquares as LeastSquares
from algoformer.algorithms.closed_form import LinearInX as LinearInX
from algoformer.algorithms.closed_form import Ridge as Ridge
from algoformer.algorithms.closed_form import Zero as Zero
from algoformer.algorithms.gradient_descent import GradientDescent as GradientDescent
from algoformer.algorithms.gradient_descent import HeavyBall as HeavyBall
from algoformer.algorithms.newton import Newton as Newton
from algoformer.algorithms.robust import IterativelyReweighted as IterativelyReweighted
