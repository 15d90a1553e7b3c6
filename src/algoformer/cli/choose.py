"""Turn `--data`, `--program` and `--scale` into an experiment whose every setting is an option.

The options of a program, such as `--model.loop.steps 30`, are derived from the program itself.
"""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from collections.abc import Iterator
from dataclasses import fields, is_dataclass, make_dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_type_hints

import tyro

from algoformer.cli.parse import parse

if TYPE_CHECKING:
    from algoformer.data import Data
    from algoformer.model.program import Part, Program
    from algoformer.training.config import Experiment

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

STRUCTURE = {"name", "body", "branches"}
"""Fields that say how a program is put together, which options do not change."""

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
    from algoformer.training.config import Experiment

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
        program=start.program if settings.model == model else apply_settings(start.program, settings.model),
        data=start.data
        if settings.data_settings == data
        else _with_settings(start.data, settings.data_settings),
        width=settings.width,
        training=settings.training,
    )
    return built, settings


def _start(arguments: list[str]) -> Experiment:
    """Build the experiment that the first options name, before any setting is changed."""
    from algoformer.training.config import Experiment
    from algoformer.training.presets import named_experiment

    chosen = _first_words(arguments)
    if "config" in chosen:
        from algoformer.common.files import read_json

        return Experiment.from_data(read_json(Path(chosen["config"][0])))
    name, *files = chosen.get("data", ["linear"])
    program, scale = (chosen.get(word, [FIRST[word][1]])[0] for word in ("program", "scale"))
    own = read_program(Path(program)) if program.endswith(".json") else program
    return named_experiment(name, own, scale, files=files)


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


def with_folder(data: Any, folder: str) -> Any:
    """Return the data with another folder for named corpora; refuse data that reads no corpora."""
    if not hasattr(data, "folder"):
        raise ValueError("--data-folder is for named corpora of text; leave it out")
    return replace(data, folder=folder)


def read_program(path: Path) -> Program:
    """Read a program from a JSON file."""
    from algoformer.common.files import read_json
    from algoformer.model.read_program import from_data

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
        from algoformer.data.prompts import PromptData

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


def choices() -> dict[str, tuple[str, ...]]:
    """Return the words that a field of a program may hold, for fields that name an entry of a table."""
    from algoformer.model.injections import INJECTIONS, STARTS
    from algoformer.nn import ACTIVATIONS, NORMS, POSITIONS

    tables = {table.kind: tuple(table) for table in (NORMS, ACTIVATIONS, POSITIONS, INJECTIONS)}
    return tables | {"start": ("auto", *STARTS)}


def model_settings(program: Program) -> Any:
    """Return an object with a field for every setting of the program, grouped as its parts are."""
    return make_dataclass("model", _program_fields(program), frozen=True)()


def apply_settings(program: Program, settings: Any) -> Program:
    """Return the program with the values that the settings hold now."""
    parts = enumerate(program.parts)
    return type(program)(*(_apply_part(part, getattr(settings, _word(part, index))) for index, part in parts))


def attribute_docs(kind: type) -> dict[str, str]:
    """Return the text of each entry under `Attributes:` in the docstring of a class."""
    _, _, section = (inspect.getdoc(kind) or "").partition("Attributes:\n")
    entries = re.findall(r"^    (\w+): (.*(?:\n        .*)*)", section, flags=re.MULTILINE)
    return {name: _sentence(" ".join(text.split())) for name, text in entries}


def _sentence(text: str) -> str:
    text = re.sub(r"`([^`]*)`", r"\1", text)
    return text[:1].upper() + text[1:]


def _word(part: Part, index: int) -> str:
    return part.name or f"part{index}"


def _program_fields(program: Program) -> list[Field]:
    return [_group(_word(part, index), _part_fields(part)) for index, part in enumerate(program.parts)]


def _group(name: str, kinds: list[Field]) -> Field:
    kind = make_dataclass(name, kinds, frozen=True)
    return name, kind, kind()


def _part_fields(part: Part) -> list[Field]:
    if len(part.bodies) > 1:
        branches = enumerate(part.bodies)
        return [_group(f"branch{number}", _program_fields(branch)) for number, branch in branches]
    own = list(_own_fields(part))
    for body in part.bodies:  # the body of a loop
        alone = _only_layers(body)
        own += _program_fields(body) if alone is None else _own_fields(alone)
    return own


def _own_fields(part: Part) -> Iterator[Field]:
    hints, texts, words = get_type_hints(type(part)), attribute_docs(type(part)), choices()
    for item in fields(part):
        if item.name not in STRUCTURE:
            value = getattr(part, item.name)
            kind = Literal[words[item.name]] if item.name in words else hints[item.name]
            yield item.name, option(kind, texts.get(item.name, "")), value


def _only_layers(body: Program) -> Part | None:
    """Return what is in a loop if it is one unnamed module, whose options stand under the loop's name."""
    first = body.parts[0]
    return first if len(body.parts) == 1 and not first.bodies and not first.name else None


def _apply_part(part: Part, settings: Any) -> Part:
    kind: Any = type(part)
    if len(part.bodies) > 1:
        branches = (getattr(settings, f"branch{number}") for number in range(len(part.bodies)))
        return kind(*map(apply_settings, part.bodies, branches), name=part.name)
    own = {item.name: getattr(settings, item.name) for item in fields(part) if item.name not in STRUCTURE}
    if not part.bodies:
        return replace(part, **own)
    (body,) = part.bodies
    alone = _only_layers(body)
    changed = apply_settings(body, settings) if alone is None else _apply_part(alone, settings)
    return kind(changed, name=part.name, **own)
