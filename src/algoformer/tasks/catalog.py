"""The tasks by name, and as plain data that can be stored."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, get_type_hints

from algoformer.common.names import check_choice, did_you_mean
from algoformer.tasks.autoregressive import AutoregressiveWithRepresentation
from algoformer.tasks.chain import ChainOfThought
from algoformer.tasks.linear import LinearRegression
from algoformer.tasks.representation import RegressionWithRepresentation
from algoformer.tasks.robust import RobustRegression
from algoformer.tasks.task import Task

TASKS: dict[str, type] = {
    "linear": LinearRegression,
    "representation": RegressionWithRepresentation,
    "autoregressive": AutoregressiveWithRepresentation,
    "chain": ChainOfThought,
    "robust": RobustRegression,
}
"""Every task of this library under the name that the command line and checkpoints use."""


def to_json(task: Task) -> dict[str, Any]:
    """The task as plain JSON types, with every constant spelled out.

    >>> to_json(LinearRegression(dim=3, points=5))
    {'name': 'linear', 'dim': 3, 'points': 5, 'noise': 0.0}
    """
    names = {kind: name for name, kind in TASKS.items()}
    name = names.get(type(task))
    if name is None:
        raise ValueError(f"only the tasks {', '.join(TASKS)} can be stored, got {type(task).__name__}")
    return {"name": name} | {field.name: getattr(task, field.name) for field in fields(TASKS[name])}


def from_json(stored: Mapping[str, Any]) -> Task:
    """Rebuild a task from what `to_json` gave; refuse anything else, for the data may come from anywhere.

    >>> from_json({"name": "linear", "dim": 3, "points": 5, "noise": 0.0})
    LinearRegression(dim=3, points=5, noise=0.0)
    """
    constants = dict(stored)
    name = constants.pop("name", None)
    check_choice("task", name, TASKS)
    kind = TASKS[name]
    known = [field.name for field in fields(kind)]
    for field in constants:
        if field not in known:
            raise ValueError(f"task {name!r} has no field {field!r}{did_you_mean(field, known)}")
    missing = [field for field in known if field not in constants]
    if missing:
        raise ValueError(f"task {name!r} needs every field, missing: {', '.join(missing)}")
    hints = get_type_hints(kind)
    task: Task = kind(**{field: _typed(field, constants[field], hints[field]) for field in known})
    return task


def _typed(field: str, value: object, kind: type) -> int | float:
    # JSON writes 1.0 as 1 in some hands, and Python counts True as an int: accept the first, not the second
    if kind is float and isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    if kind is int and isinstance(value, int) and not isinstance(value, bool):
        return value
    raise ValueError(f"{field} must be of type {kind.__name__}, got {value!r} of type {type(value).__name__}")
