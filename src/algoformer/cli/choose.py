"""Turn `--data`, `--program` and `--scale` into an experiment whose every setting is an option.

The options of a program, such as `--model.loop.steps 30`, are derived from the program itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields, make_dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar, get_type_hints

import docstring_parser
import tyro

from algoformer.cli.parse import parse

if TYPE_CHECKING:
    from algoformer.data import Data
    from algoformer.model.program import Part, Program
    from algoformer.training.config import Experiment, Recipe, TrainConfig


@dataclass(frozen=True)
class FirstOptions:
    """The options that name an experiment; the others follow from it, so these are read first."""

    data: tuple[str, ...] = ("linear",)
    """A task, also as package.module:Class, or data that you registered; or a kind of text with your files:
    translation SOURCE TARGET, labels FILE, text FILE ... (the first two also have small built-in corpora)."""
    program: str = "algoformer"  # The architecture: a preset, or a JSON file with a program.
    scale: str = "smoke"  # smoke: two CPU cores; short: minutes on a GPU; paper: the paper's sizes.
    config: Path | None = None  # Start from a run's config.json instead of these three.
    width: int = 0  # Width of the residual stream (d_model).


Own = TypeVar("Own", bound=FirstOptions)

STRUCTURE = {"name", "body", "branches"}
"""Fields that say how a program is put together, which options do not change."""

NAMING = ("data", "program", "scale", "config")
"""The options that name an experiment; each is given once, and the last one in place of the others."""

CURRICULA = ("dims", "samples", "iterations")
"""The settings of training that are curricula."""

Field = tuple[str, Any, Any]


def read_experiment(
    arguments: list[str], own: type[Own], *, command: str, short_help: str
) -> tuple[Experiment, Own]:
    """Return the experiment that the options describe, and the command's own options.

    `--help` prints the short help; `--help-all` prints every option below its first paragraph.
    """
    if "--help" in arguments or "-h" in arguments:  # before anything is read or imported
        print(short_help)
        raise SystemExit(0)
    start = _start(arguments)
    training, rest = _without_curricula(start.training, arguments)
    (_, _, model), data = _group("model", _program_fields(start.program)), _explained(_described(start.data))
    explained = _explained(training)
    kind = make_dataclass(
        "settings",
        [
            ("own", Annotated[own, tyro.conf.arg(name="")], own(width=start.width)),
            ("training", Annotated[type(explained), tyro.conf.arg(name="")], explained),
            ("data_settings", Annotated[type(data), tyro.conf.arg(name="data")], data),
            ("model", type(model), model),
        ],
        frozen=True,
    )
    description = short_help.split("\n\n")[1]
    settings = parse(kind, rest, command=command, description=description, default=kind())
    program, chosen = start.program, start.data
    if settings.model != model:
        program = apply_settings(program, settings.model)
    if settings.data_settings != data:
        chosen = _with_settings(chosen, settings.data_settings)
    training = _fitting(_changed(training, settings.training), start.training, program, arguments)
    from algoformer.training.config import Experiment

    return Experiment(program, chosen, settings.own.width, training), settings.own


def _without_curricula(training: TrainConfig, arguments: list[str]) -> tuple[TrainConfig, list[str]]:
    """Return the training with the curricula that options turn on or off, and the other arguments.

    `--NAME None` turns a curriculum off, `--NAME.start` and the like turn it on.
    """
    from algoformer.config import Ramp

    rest, off = list(arguments), set()
    for name in CURRICULA:
        for words in ([f"--{name}", "None"], [f"--{name}=None"]):
            for place in reversed(range(len(rest))):
                if rest[place : place + len(words)] == words:
                    del rest[place : place + len(words)]
                    off.add(name)
    changes: dict[str, Any] = dict.fromkeys(off)
    for name in CURRICULA:  # one that the recipe does not have begins at 1, unless the options say otherwise
        if getattr(training, name) is None and any(word.startswith(f"--{name}.") for word in rest):
            changes[name] = Ramp(start=1, increment=1)
    return replace(training, **changes) if changes else training, rest


def _fitting(
    training: TrainConfig, start: TrainConfig, program: Program, arguments: list[str]
) -> TrainConfig:
    """Return the training without curricula that nobody asked for and other options rule out."""
    from algoformer.model.program import is_causal

    asked = {name for name in CURRICULA if any(word.startswith(f"--{name}") for word in arguments)}
    if training.burn_in and not start.burn_in and "iterations" not in asked:
        training = replace(training, iterations=None)
    if not is_causal(program) and "samples" not in asked:
        training = replace(training, samples=None)
    return training


def _option(kind: Any, text: str) -> Any:
    return Annotated[kind, tyro.conf.arg(help=text)]


def _start(arguments: list[str]) -> Recipe:
    """Return the recipe that the first options name, before any setting is changed."""
    from algoformer.common.files import read_json
    from algoformer.training.config import Experiment, Recipe
    from algoformer.training.presets import named_recipe

    chosen = _first_words(arguments)
    if "config" in chosen:
        for other in NAMING[:-1]:
            if other in chosen:
                raise ValueError(f"--config stands in place of --{other}; leave one of them out")
        path = Path(chosen["config"][0])
        try:
            found = Experiment.from_data(read_json(path, "--config"))
        except ValueError as error:
            named = str(path) in str(error)
            raise ValueError(error if named else f"{path} is not the config of a run: {error}") from None
        return Recipe(found.program, found.data, found.width, found.training)
    name, *files = chosen.get("data", FirstOptions.data)
    program, scale = (chosen.get(word, [getattr(FirstOptions, word)])[0] for word in ("program", "scale"))
    own = read_program(Path(program), "--program") if program.endswith(".json") else program
    return named_recipe(name, own, scale, files=files)


def _first_words(arguments: list[str]) -> dict[str, list[str]]:
    """Return the values of the first options as they stand in the arguments."""
    found: dict[str, list[str]] = {}
    current: list[str] | None = None
    for word in arguments:
        if word.startswith("--"):
            name, equals, value = word[2:].partition("=")
            if name in found and name in NAMING:
                raise ValueError(f"--{name} is given twice; leave one of them out")
            current = found.setdefault(name, []) if hasattr(FirstOptions, name) else None
            if current is not None and equals:
                current.append(value)
        elif current is not None:
            current.append(word)
    for name, values in found.items():
        if not values:
            raise ValueError(f"--{name} needs a value (see --help)")
    return found


def with_folder(data: Any, folder: str) -> Any:
    """Return the data with another folder for named corpora; refuse data that reads no corpora."""
    if not hasattr(data, "folder"):
        raise ValueError("--data-folder is for named corpora of text; leave it out")
    return replace(data, folder=folder)


def read_program(path: Path, argument: str = "the path") -> Program:
    """Read a program from a JSON file."""
    from algoformer.common.files import read_json
    from algoformer.model.read_program import from_data

    return from_data(read_json(path, argument))


def _described(data: Data) -> Any:
    """Return the dataclass whose fields are the data's settings: the task of prompts, or the data itself."""
    task = getattr(data, "task", None)
    return data if task is None else task


def _explained(own: Any) -> Any:
    """Return an object with the settings of a dataclass, as options with the texts of its fields as help."""
    hints, texts = get_type_hints(type(own)), field_docs(type(own))
    kinds = [
        (item.name, _option(_typed(hints[item.name], value), texts.get(item.name, "")), value)
        for item, value in ((one, getattr(own, one.name)) for one in fields(own))
        if item.init and item.compare  # fields that are not compared are local to this machine
    ]
    text = (type(own).__doc__ or "").partition("\n")[0]
    signature = f"{type(own).__name__}("  # what Python writes where a dataclass has no docstring
    return make_dataclass(
        "settings", kinds, frozen=True, namespace={"__doc__": "" if text.startswith(signature) else text}
    )()


def _typed(hint: Any, value: Any) -> Any:
    """Return the type of an option; paths, which Python users may give in several forms, are words here."""
    if "Path" not in str(hint):
        return hint
    return tuple[str, ...] if isinstance(value, tuple) else str


def _with_settings(data: Data, settings: Any) -> Any:
    changed = _changed(_described(data), settings)
    return changed if _described(data) is data else replace(data, task=changed)  # type: ignore[type-var]


def _changed(own: Any, settings: Any) -> Any:
    """Return a dataclass with the values that the settings hold now."""
    return replace(own, **{item.name: getattr(settings, item.name) for item in fields(settings)})


def field_docs(kind: type) -> dict[str, str]:
    """Return the text of each field of a class, below it or under `Attributes:`, as one sentence."""
    found = {}
    for owner in reversed(kind.__mro__[:-1]):
        for one in docstring_parser.parse_from_object(owner).params:
            text = " ".join((one.description or "").replace("`", "").split())
            found[one.arg_name] = text[:1].upper() + text[1:]
    return found


def choices() -> dict[str, tuple[str, ...]]:
    """Return the words that a field of a program may hold, for fields that name an entry of a table."""
    from algoformer.model.injections import INJECTIONS, STARTS
    from algoformer.nn import ACTIVATIONS, NORMS, POSITIONS

    tables = {table.kind: tuple(table) for table in (NORMS, ACTIVATIONS, POSITIONS, INJECTIONS)}
    return tables | {"start": ("auto", *STARTS)}


def apply_settings(program: Program, settings: Any) -> Program:
    """Return the program with the values that the settings hold now."""
    parts = enumerate(program.parts)
    return type(program)(*(_apply_part(part, getattr(settings, _word(part, index))) for index, part in parts))


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
    hints, texts, words = get_type_hints(type(part)), field_docs(type(part)), choices()
    for item in fields(part):
        if item.name not in STRUCTURE:
            value = getattr(part, item.name)
            kind = Literal[words[item.name]] if item.name in words else hints[item.name]
            yield item.name, _option(kind, texts.get(item.name, "")), value


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
