"""Tasks: distributions over prompts, with their scale and the regression problems inside them."""

from algoformer.tasks.autoregressive import AutoregressiveWithRepresentation
from algoformer.tasks.catalog import TASKS, find, from_data, register, to_data
from algoformer.tasks.chain import ChainOfThought
from algoformer.tasks.linear import LinearRegression, RobustRegression
from algoformer.tasks.matrices import ChainOfSolves, LeadingEigenvector, LinearSystem
from algoformer.tasks.representation import RegressionWithRepresentation
from algoformer.tasks.representation_map import AffineMap, RepresentationMap
from algoformer.tasks.sequences import Addition, Copy, Hops, Parity
from algoformer.tasks.sudoku import Sudoku
from algoformer.tasks.symbols import PuzzleTask
from algoformer.tasks.task import Task

__all__ = [
    "TASKS",
    "Addition",
    "AffineMap",
    "AutoregressiveWithRepresentation",
    "ChainOfSolves",
    "ChainOfThought",
    "Copy",
    "Hops",
    "LeadingEigenvector",
    "LinearRegression",
    "LinearSystem",
    "Parity",
    "PuzzleTask",
    "RegressionWithRepresentation",
    "RepresentationMap",
    "RobustRegression",
    "Sudoku",
    "Task",
    "find",
    "from_data",
    "register",
    "to_data",
]
