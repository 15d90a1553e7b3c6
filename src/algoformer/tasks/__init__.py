"""Tasks: distributions over prompts, with their scale and the regression problems inside them."""

from algoformer.tasks.autoregressive import AutoregressiveWithRepresentation
from algoformer.tasks.catalog import TASKS, find, from_data, from_json, register, to_data, to_json
from algoformer.tasks.chain import ChainOfThought
from algoformer.tasks.linear import LinearRegression
from algoformer.tasks.representation import RegressionWithRepresentation
from algoformer.tasks.representation_map import AffineMap, RepresentationMap
from algoformer.tasks.robust import RobustRegression
from algoformer.tasks.task import Task

__all__ = [
    "TASKS",
    "AffineMap",
    "AutoregressiveWithRepresentation",
    "ChainOfThought",
    "LinearRegression",
    "RegressionWithRepresentation",
    "RepresentationMap",
    "RobustRegression",
    "Task",
    "find",
    "from_data",
    "from_json",
    "register",
    "to_data",
    "to_json",
]
