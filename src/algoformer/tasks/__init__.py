"""Tasks: distributions over prompts, with their scale and the regression problems inside them."""

from algoformer.tasks.autoregressive import (
    AutoregressiveWithRepresentation as AutoregressiveWithRepresentation,
)
from algoformer.tasks.catalog import TASKS as TASKS
from algoformer.tasks.catalog import find as find
from algoformer.tasks.catalog import from_data as from_data
from algoformer.tasks.catalog import register as register
from algoformer.tasks.catalog import to_data as to_data
from algoformer.tasks.chain import ChainOfThought as ChainOfThought
from algoformer.tasks.linear import LinearRegression as LinearRegression
from algoformer.tasks.linear import RobustRegression as RobustRegression
from algoformer.tasks.matrices import ChainOfSolves as ChainOfSolves
from algoformer.tasks.matrices import LeadingEigenvector as LeadingEigenvector
from algoformer.tasks.matrices import LinearSystem as LinearSystem
from algoformer.tasks.representation import RegressionWithRepresentation as RegressionWithRepresentation
from algoformer.tasks.representation_map import RepresentationMap as RepresentationMap
from algoformer.tasks.sequences import Addition as Addition
from algoformer.tasks.sequences import Copy as Copy
from algoformer.tasks.sequences import Hops as Hops
from algoformer.tasks.sequences import Parity as Parity
from algoformer.tasks.sudoku import Sudoku as Sudoku
from algoformer.tasks.symbols import PuzzleTask as PuzzleTask
from algoformer.tasks.task import Task as Task
