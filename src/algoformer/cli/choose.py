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

if TYPE_CHECKING:
    from algoformer.data import Data
    from algoformer.model.program import Program
    from algoformer.training import Experiment

FIRST: dict[str, tuple[Any, Any, str]] = {
    "data": (
        tuple[str, ...],
        ("linear",),
        "A task, or a kind of text followed by your files: translation SOURCE TARGET, labels FILE, "
        "text FILE ...; without files, translation and labels use a small corpus of the package. Also a task "
        "of your own as package.module:Class, or data that you registered.",
    ),
    "program": (str, "algoformer", "The architecture: a preset, or a JSON file with a program."),
    "scale": (str, "smoke", "smoke: two CPU cores; short: minutes on a GPU; paper: the paper's sizes."),
    "config": (Path | None, None, "Start from a run's config.json instead of these three."),
}
"""These options decide which others there are, so they are read first."""

TEXT_FILES = {"translation": ("source", "target"), "labels": ("files",), "text": ("files",)}
"""The kinds of text, and the settings that take the files given after `--data KIND`."""

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
    """Build the experiment that the first options name, before any setting is changed."""
    from algoformer.common.files import read_json
    from algoformer.training import Experiment

    chosen = _first_words(arguments)
    if "config" in chosen:
        return Experiment.from_data(read_json(Path(chosen["config"][0])))
    data = chosen.get("data", ["linear"])
    program, scale = (chosen.get(name, [FIRST[name][1]])[0] for name in ("program", "scale"))
    return named_experiment(data[0], program, scale, files=data[1:])


def named_experiment(name: str, program: str, scale: str, *, files: list[str]) -> Experiment:
    """Return the recipe for a task or a kind of text, with the user's own files and program."""
    from algoformer import tasks
    from algoformer.data.registry import BUILT_IN, data_names
    from algoformer.model.program import default_steps
    from algoformer.training import presets, text_recipes

    own = read_program(Path(program)) if program.endswith(".json") else None
    if name in set(data_names()) - set(BUILT_IN):
        return _own_data(name, program, own, scale, files)
    if name not in TEXT_FILES:
        if ":" in name:
            tasks.find(name)  # imports and registers package.module:Class
        if files:
            raise ValueError(f"--data {name} is a task and takes no files, got {files[0]!r}")
        if own is None:
            return presets.experiment(name, program, scale)  # type: ignore[arg-type]
        like = presets.experiment(name, "algoformer", scale)  # type: ignore[arg-type]
        return replace(like, program=own, training=presets.recommended(own, like.task, scale))  # type: ignore[arg-type]
    settings = _file_settings(name, files)
    if own is None:
        return text_recipes.text_experiment(name, program, scale, **settings)  # type: ignore[arg-type]
    like = text_recipes.text_experiment(name, "algoformer", scale, **settings)  # type: ignore[arg-type]
    training = text_recipes.text_training(own, name, scale)  # type: ignore[arg-type]
    return replace(like, program=own, training=replace(training, window=default_steps(own)))


def _own_data(name: str, program: str, own: Program | None, scale: str, files: list[str]) -> Experiment:
    """Return an experiment on a kind of data that was registered from outside, with a recipe for text."""
    from algoformer.data.registry import data_class
    from algoformer.training import Experiment, text_recipes

    shape = text_recipes.SHAPES["text"][scale]  # type: ignore[index]
    built = own or shape.program(program, causal=True)
    kind: Any = data_class(name)
    data = kind(files=tuple(files)) if files else kind()
    training = text_recipes.text_training(built, "text", scale)  # type: ignore[arg-type]
    return Experiment(built, data, width=shape.width, training=training)


def _file_settings(name: str, files: list[str]) -> dict[str, Any]:
    """Assign the files after `--data KIND` to the settings that take them."""
    if not files:
        return {}
    if name == "translation":
        if len(files) != 2:
            raise ValueError(
                f"--data translation takes two files, the source and the target, got {len(files)}; "
                "line n of one is the translation of line n of the other"
            )
        return dict(zip(TEXT_FILES[name], files, strict=True))
    return {"files": tuple(files)}


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
    task = getattr(data, "task", None)
    return data if task is None else task


def _data_settings(data: Data) -> Any:
    """Return an object with a field for every setting of the data."""
    if (described := _described(data)) is not data:
        return described
    own: Any = data  # a dataclass, which the protocol does not say
    hints, texts = get_type_hints(type(data)), field_docs(type(data))
    kinds = [
        (item.name, option(_typed(hints[item.name], value), texts.get(item.name, "")), value)
        for item, value in ((one, getattr(data, one.name)) for one in fields(own))
        if item.compare  # the other fields are local to this machine
    ]
    return make_dataclass("data", kinds, frozen=True)()


def _typed(hint: Any, value: Any) -> Any:
    """Return the type of an option; paths, which Python users may give in several forms, are words here."""
    if "Path" not in str(hint):
        return hint
    return tuple[str, ...] if isinstance(value, tuple) else str


def _with_settings(data: Data, settings: Any) -> Any:
    if _described(data) is not data:
        from algoformer.data import PromptData

        return PromptData(settings)
    own: Any = data
    return replace(own, **{item.name: getattr(settings, item.name) for item in fields(settings)})


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
