"""`algoformer tasks` and `algoformer programs`: lists of the tasks and of the named programs."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path
from textwrap import indent
from typing import TYPE_CHECKING

import tyro

from algoformer.cli.choose import read_program
from algoformer.cli.new_file import refuse_existing
from algoformer.cli.parse import parse
from algoformer.common.names import check_choice

if TYPE_CHECKING:
    from algoformer.model.program import Program


@dataclass(frozen=True)
class TasksOptions:
    """The tasks with their constants."""

    name: tyro.conf.Positional[str] = ""  # Show only this one.


@dataclass(frozen=True)
class ProgramsOptions:
    """The named programs as outlines."""

    name: tyro.conf.Positional[str] = ""  # Show only this one, or the program of a JSON file.
    svg: Path | None = None  # Also draw the program into this SVG file.
    json: bool = False  # Print it as JSON, to be edited and used as --program.


def run_tasks(arguments: list[str]) -> int:
    """Print the tasks."""
    chosen = parse(
        TasksOptions,
        arguments,
        command="tasks",
        description="List the tasks and their constants.\n\nExample: algoformer tasks chain",
    )
    from algoformer.tasks import TASKS, find

    if chosen.name:
        check_choice("task", chosen.name, TASKS.names())
    for name in TASKS.names():
        if chosen.name in ("", name):
            kind = find(name)
            print(f"{name}\n  {_first_line(kind)}")
            print("  " + ", ".join(f"{item.name}={item.default}" for item in fields(kind)))
    return 0


def run_programs(arguments: list[str]) -> int:
    """Print the programs, or draw one."""
    chosen = parse(
        ProgramsOptions,
        arguments,
        command="programs",
        description="List the programs, or show one.\n\nExample: algoformer programs nested --svg nested.svg",
    )
    if (chosen.svg or chosen.json) and not chosen.name:
        raise ValueError("--svg and --json need the name of a program, or a JSON file")
    if not chosen.name:
        for name, build in _named().items():
            print(f"{name}: {_first_line(build)}\n{indent(str(build()), '  ')}\n")
        return 0
    if chosen.name.endswith(".json"):
        program = read_program(Path(chosen.name), "NAME")
    else:
        check_choice("program", chosen.name, _named())
        program = _named()[chosen.name]()
    if chosen.svg is not None:
        refuse_existing(chosen.svg)
    print(program.to_json() if chosen.json else program)
    if chosen.svg is not None:
        from algoformer.common.files import write_text
        from algoformer.report.diagram import diagram

        write_text(chosen.svg, diagram(program))
    return 0


def _named() -> dict[str, Callable[..., Program]]:
    """Return the named programs and the published loop models."""
    from algoformer.model.presets import LOOP_MODELS, PRESETS

    return {**PRESETS, **LOOP_MODELS}


def _first_line(thing: object) -> str:
    return (inspect.getdoc(thing) or "").splitlines()[0]
