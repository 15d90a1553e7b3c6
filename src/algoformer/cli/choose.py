"""Turn `--data`, `--program` and `--scale` into an experiment whose every setting is an option."""

from __future__ import annotations

import ast
import inspect
import textwrap
from dataclasses import fields, is_dataclass, make_dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import tyro

from algoformer.cli.parse import parse
<<<<<<< HEAD
=======
from algoformer.common.names import check_choice
from algoformer.model.presets import PRESETS
from algoformer.model.program import Program, from_data
from algoformer.tasks import TASKS
from algoformer.training.config import Experiment
from algoformer.training.files import read_json
from algoformer.training.presets import Scale, experiment, recommended
>>>>>>> main

if TYPE_CHECKING:
    from algoformer.data import Data
    from algoformer.model.program import Program
    from algoformer.training import Experiment

FIRST: dict[str, tuple[Any, Any, str]] = {
    "data": (
        tuple[str, ...],
        ("linear",),
        "The task, or the kind of data followed by your files: translation SOURCE TARGET, labels FILE, "
        "text FILE... Without files, translation and labels use a small corpus of the package.",
    ),
    "program": (str, "algoformer", "The architecture: a preset's name, or a JSON file with a program."),
    "scale": (str, "smoke", "smoke: two CPU cores; short: minutes on a GPU; paper: the paper's sizes."),
    "config": (Path | None, None, "Start from a run's config.json instead of these three."),
}
"""These options decide which others there are, so they are read first."""

Field = tuple[str, Any, Any]


def option(kind: Any, text: str) -> Any:
    """Return the type of an option together with its help."""
    return Annotated[kind, tyro.conf.arg(help=text)]


def read_experiment(
    arguments: list[str], *, command: str, description: str, extra: list[Field], short_help: str
) -> tuple[Experiment, Any]:
    """Return the experiment that the options describe, and the object with the command's own options."""
    if "--help" in arguments or "-h" in arguments:  # before anything is read or imported
        print(short_help)
        raise SystemExit(0)
    from algoformer.cli.overrides import apply_settings, model_settings
    from algoformer.training import Experiment

    start = _start(arguments)
    model, data = model_settings(start.program), _data_settings(start.data)
    settings_kind = make_dataclass(
        "settings",
        [
            *((name, option(kind, text), value) for name, (kind, value, text) in FIRST.items()),
            *extra,
            ("width", option(int, "Width of the residual stream (d_model)."), start.width),
            ("training", Annotated[type(start.training), tyro.conf.arg(name="")], start.training),
            ("data_settings", Annotated[type(data), tyro.conf.arg(name="data")], data),
            ("model", type(model), model),
        ],
        frozen=True,
    )
    settings = parse(
        settings_kind, arguments, command=command, description=description, default=settings_kind()
    )
    built = Experiment(
        program=apply_settings(start.program, settings.model),
        data=_with_settings(start.data, settings.data_settings),
        width=settings.width,
        training=settings.training,
    )
    return built, settings


def _start(arguments: list[str]) -> Experiment:
<<<<<<< HEAD
    """Build the experiment that the first options name, before any setting is changed."""
    from algoformer.common.files import read_json
    from algoformer.training import Experiment
    from algoformer.training.presets import experiment

    chosen = _first_words(arguments)
    if "config" in chosen:
        return Experiment.from_data(read_json(Path(chosen["config"][0])))
    values = {name: chosen.get(name) or _listed(FIRST[name][1]) for name in ("data", "program", "scale")}
    name, *files = values["data"]
    program = values["program"][0]
    if program.endswith(".json"):
        return experiment(name, read_program(Path(program)), values["scale"][0], files=files)
    return experiment(name, program, values["scale"][0], files=files)
=======
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
>>>>>>> main


def _listed(value: Any) -> list[str]:
    return list(value) if isinstance(value, tuple) else [value]


def _first_words(arguments: list[str]) -> dict[str, list[str]]:
    """Return the values of the first options as they stand in the arguments."""
    found: dict[str, list[str]] = {}
    current: list[str] | None = None
    for word in arguments:
        if word.startswith("--"):
            name, equals, value = word[2:].partition("=")
            current = found.setdefault(name, []) if name in FIRST else None
            if current is not None and equals:
                current.append(value)
        elif current is not None:
            current.append(word)
    return {name: values for name, values in found.items() if values}


def read_program(path: Path) -> Program:
    """Read a program from a JSON file."""
    from algoformer.common.files import read_json
    from algoformer.model.program import from_data

    return from_data(read_json(path))


def _described(data: Data) -> Any:
    """Return the object whose fields are the data's settings: the task of prompts, or the data itself."""
    return getattr(data, "task", data)


def _data_settings(data: Data) -> Any:
    """Return an object with a field for every setting of the data."""
    described = _described(data)
    if described is not data:
        return described
    hints, texts = get_type_hints(type(data)), field_docs(type(data))
    kinds = [
        (item.name, option(hints[item.name], texts.get(item.name, "")), getattr(data, item.name))
        for item in fields(data)  # type: ignore[arg-type]
        if item.metadata.get("stored")  # the other fields are local to this machine
    ]
    return make_dataclass("data", kinds, frozen=True)()


def _with_settings(data: Data, settings: Any) -> Data:
    described = _described(data)
    values = {item.name: getattr(settings, item.name) for item in fields(settings)}
    changed = replace(described, **values)
    if described is data:
        return changed  # type: ignore[no-any-return]
    return replace(data, task=changed)  # type: ignore[type-var]


def field_docs(kind: type) -> dict[str, str]:
    """Return the docstring below each field of a dataclass, on one line."""
    found: dict[str, str] = {}
    for owner in reversed([one for one in kind.__mro__ if is_dataclass(one)]):
        (body,) = ast.parse(textwrap.dedent(inspect.getsource(owner))).body
        assert isinstance(body, ast.ClassDef)
        for item, below in pairwise(body.body):
            if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name):
                text = below.value if isinstance(below, ast.Expr) else None
                if isinstance(text, ast.Constant) and isinstance(text.value, str):
                    found[item.target.id] = " ".join(text.value.split())
    return found
