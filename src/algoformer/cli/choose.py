"""From `--task`, `--program` and `--scale` to an experiment with every setting as an option."""

from __future__ import annotations

import argparse
from dataclasses import make_dataclass, replace
from pathlib import Path
from typing import Annotated, Any, get_args

import tyro

from algoformer.cli.overrides import apply_settings, model_settings
from algoformer.cli.parse import parse
from algoformer.common.names import check_choice
from algoformer.model.presets import PRESETS
from algoformer.model.program import Program, from_data
from algoformer.tasks import TASKS
from algoformer.training.config import Experiment
from algoformer.training.files import read_json
from algoformer.training.presets import Scale, experiment, recommended

FIRST = {
    "task": (str, "linear", f"What to learn: {', '.join(TASKS)}."),
    "program": (str, "algoformer", f"What learns: {', '.join(PRESETS)}, or a JSON file with a program."),
    "scale": (Scale, "smoke", "smoke: two CPU cores; short: minutes on a GPU; paper: 500,000 steps."),
    "config": (Path | None, None, "A run's config.json to start from instead of these three."),
}
"""These decide which further options there are, so they are read first."""


def read_experiment(
    arguments: list[str], *, command: str, description: str, extra: list[tuple[str, Any, Any]]
) -> tuple[Experiment, Any]:
    """The experiment that the options describe, and the object that holds the command's own options."""
    start = _start(arguments)
    model = model_settings(start.program, start.width)
    options = [(name, _option(kind, text), value) for name, (kind, value, text) in FIRST.items()]
    settings_kind = make_dataclass(
        "settings",
        [
            *options,
            *extra,
            ("model", type(model), model),
            ("task_settings", Annotated[type(start.task), tyro.conf.arg(name="data")], start.task),
            ("training", type(start.training), start.training),
        ],
        frozen=True,
    )
    settings = parse(
        settings_kind, arguments, command=command, description=description, default=settings_kind()
    )
    built = Experiment(
        program=apply_settings(start.program, settings.model),
        task=settings.task_settings,
        width=settings.model.width,
        training=settings.training,
    )
    return built, settings


def _start(arguments: list[str]) -> Experiment:
    first = argparse.ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
    for name in FIRST:
        first.add_argument(f"--{name}", nargs="?")
    chosen, _ = first.parse_known_args(arguments)
    if chosen.config is not None:
        return Experiment.from_data(read_json(Path(chosen.config)))
    values: dict[str, Any] = {name: getattr(chosen, name) or FIRST[name][1] for name in FIRST}
    check_choice("scale", values["scale"], get_args(Scale))
    if values["program"].endswith(".json"):
        return _own_program(read_program(Path(values["program"])), values["task"], values["scale"])
    return experiment(values["task"], values["program"], values["scale"])


def _own_program(program: Program, task: str, scale: Scale) -> Experiment:
    like = experiment(task, "algoformer", scale)
    return replace(like, program=program, training=recommended(program, like.task, scale))


def read_program(path: Path) -> Program:
    """A program from a JSON file."""
    return from_data(read_json(path))


def _option(kind: Any, text: str) -> Any:
    return Annotated[kind, tyro.conf.arg(help=text)]
