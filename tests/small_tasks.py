"""A small task of every registered kind."""

from __future__ import annotations

from dataclasses import fields

from algoformer import tasks

SIZES = {"dim": 3, "points": 6, "length": 5, "symbols": 2, "hops": 2, "numbers": 2, "digits": 1}
"""Values of the fields that make a task large. `size` is left alone: boards exist only in two sizes."""


def small_task(name: str) -> tasks.Task:
    kind = tasks.TASKS[name]
    task: tasks.Task = kind(
        **{field.name: SIZES[field.name] for field in fields(kind) if field.name in SIZES}
    )
    return task
