"""Look tasks up by name, register tasks from outside, and turn tasks into plain data and back."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from importlib import import_module
from typing import Any, TypeVar

from algoformer.common.names import Registry, did_you_mean
from algoformer.common.plain_data import as_data, check_storable, field_types, read_value
from algoformer.common.terminal import short
from algoformer.tasks.autoregressive import AutoregressiveWithRepresentation
from algoformer.tasks.chain import ChainOfThought
from algoformer.tasks.linear import LinearRegression, RobustRegression
from algoformer.tasks.matrices import ChainOfSolves, LeadingEigenvector, LinearSystem
from algoformer.tasks.representation import RegressionWithRepresentation
from algoformer.tasks.sequences import Addition, Copy, Hops, Parity
from algoformer.tasks.sudoku import Sudoku
from algoformer.tasks.task import Task

ENTRY_POINTS = "algoformer.tasks"
"""The entry point group under which an installed package offers tasks by name."""

TASKS: Registry[type] = Registry(
    "task",
    {
        "linear": LinearRegression,
        "representation": RegressionWithRepresentation,
        "autoregressive": AutoregressiveWithRepresentation,
        "chain": ChainOfThought,
        "robust": RobustRegression,
        "sudoku": Sudoku,
        "hops": Hops,
        "addition": Addition,
        "parity": Parity,
        "copy": Copy,
        "linear_system": LinearSystem,
        "eigenvector": LeadingEigenvector,
        "chain_of_solves": ChainOfSolves,
    },
    register="tasks.register",
    group=ENTRY_POINTS,
)
"""Every registered task under the name that the command line and checkpoints use."""

TaskType = TypeVar("TaskType", bound=type)


def register(kind: TaskType, *, name: str | None = None) -> TaskType:
    """Make a task class known by name, so that runs on it can be saved and loaded.

    Use it as a decorator (`@tasks.register`) or call it with a name of your choice. Registering the same
    class again is allowed.

    Args:
        kind: a dataclass with the members of `Task`. Its fields are what a checkpoint stores; they may be
            bool, int, float, str, Literal, None, unions of these, and tuples of these.
        name: the name in checkpoints; None means the class name in snake case.

    Raises:
        ValueError: the class is not a dataclass, a field cannot be stored, or the name belongs to another
            class.
    """
    if not (isinstance(kind, type) and is_dataclass(kind)):
        raise ValueError(
            f"a task is a dataclass, got {short(kind)}; decorate it with @dataclass(frozen=True)"
        )
    check_storable(kind)
    if name is None:
        name = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", kind.__name__).lower()
    TASKS.register(name, kind)
    return kind


def find(name: str) -> type:
    """Return the task class of that name: registered, offered by an installed package, or at an import path.

    An import path is `package.module:Class`; the module is imported and the class is registered under its
    path. Call this with names that a user typed, never with names from a file: a file must not decide what
    is imported.

    >>> find("linear").__name__
    'LinearRegression'
    """
    if name not in TASKS and ":" in name:
        register(_imported(name), name=name)
    return _known(name)


def to_data(task: Task) -> dict[str, Any]:
    """Return the task as plain JSON types: its registered name, and every field.

    >>> to_data(LinearRegression(dim=3, points=5))
    {'name': 'linear', 'dim': 3, 'points': 5, 'noise': 0.0}
    """
    name = next((name for name, kind in TASKS.items() if kind is type(task)), None)
    if name is None:
        raise ValueError(
            f"{type(task).__name__} is not a registered task, so a checkpoint could not name it; "
            f"call tasks.register({type(task).__name__}) first. Registered: {', '.join(TASKS)}"
        )
    return {"name": name} | as_data(task)


def from_data(stored: Mapping[str, Any]) -> Task:
    """Rebuild a task from what `to_data` returned; nothing but registered code is run.

    >>> from_data({"name": "linear", "dim": 3, "points": 5, "noise": 0.0})
    LinearRegression(dim=3, points=5, noise=0.0)

    Raises:
        ValueError: the name is not registered, a field is missing, unknown or of a wrong type, or the task
            refuses its constants.
    """
    if not isinstance(stored, Mapping):
        raise ValueError(f"a stored task is an object with a name and its fields, got {short(stored)}")
    constants = dict(stored)
    name = constants.pop("name", None)
    if not isinstance(name, str):
        raise ValueError(f"unknown task {short(name)}; known: {', '.join(TASKS)}")
    kind = _known(name)
    known = [field.name for field in fields(kind) if field.init]
    for field in constants:
        if field not in known:
            raise ValueError(
                f"task {name!r} has no field {short(field)}{did_you_mean(str(field)[:200], known)}"
            )
    missing = [field for field in known if field not in constants]
    if missing:
        raise ValueError(f"task {name!r} needs every field, missing: {', '.join(missing)}")
    hints = field_types(kind)
    return kind(**{field: read_value(field, hints[field], constants[field]) for field in known})


def _known(name: str) -> type:
    """Return a registered class, registering it first if an installed package offers it under this name."""
    found = TASKS.find(name)
    return found if name in TASKS else register(found, name=name)


def _imported(path: str) -> type:
    module, _, attribute = path.partition(":")
    try:
        found = getattr(import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        raise ValueError(
            f"cannot import the task {short(path)}: {error}; give package.module:Class"
        ) from None
    if not isinstance(found, type):
        raise ValueError(f"{short(path)} is not a class, and a task must be one")
    return found
