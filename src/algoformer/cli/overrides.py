"""A program as options: `--model.loop.steps 30` for any program, derived from the program itself."""

from __future__ import annotations

import inspect
import re
from dataclasses import fields, make_dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, get_type_hints

from algoformer.cli.choose import Field, option
from algoformer.model.injections import INJECTIONS, STARTS
from algoformer.model.program import Layers, Loop, Parallel, Part, Program
from algoformer.nn import ACTIVATIONS, NORMS, POSITIONS

if TYPE_CHECKING:
    from collections.abc import Iterable

STRUCTURE = {"name", "body", "branches"}
"""Fields that say how a program is put together, which options do not change."""


def choices() -> dict[str, tuple[str, ...]]:
    """Return the words that a field of a program may hold, for fields that name an entry of a table."""
    tables = {table.field: tuple(table) for table in (NORMS, ACTIVATIONS, POSITIONS, INJECTIONS)}
    return tables | {"start": ("auto", *STARTS)}


def model_settings(program: Program) -> Any:
    """Return an object with a field for every setting of the program, grouped as its parts are."""
    return make_dataclass("model", _program_fields(program), frozen=True)()


def apply_settings(program: Program, settings: Any) -> Program:
    """Return the program with the values that the settings hold now."""
    return Program(
        *(_apply_part(part, getattr(settings, _word(part, index))) for index, part in enumerate(program))
    )


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
    return [_group(_word(part, index), _part_fields(part)) for index, part in enumerate(program)]


def _group(name: str, kinds: list[Field]) -> Field:
    kind = make_dataclass(name, kinds, frozen=True)
    return name, kind, kind()


def _part_fields(part: Part) -> list[Field]:
    if isinstance(part, Parallel):
        return [
            _group(f"branch{number}", _program_fields(branch)) for number, branch in enumerate(part.branches)
        ]
    own = list(_own_fields(part))
    if not isinstance(part, Loop):
        return own
    alone = _only_layers(part)
    return own + (list(_own_fields(alone)) if alone is not None else _program_fields(part.body))


def _own_fields(part: Part) -> Iterable[Field]:
    hints, texts, words = get_type_hints(type(part)), attribute_docs(type(part)), choices()
    for item in fields(part):
        if item.name not in STRUCTURE:
            value = getattr(part, item.name)
            kind = Literal[words[item.name]] if item.name in words else hints[item.name]
            yield item.name, option(kind, texts.get(item.name, "")), value


def _only_layers(loop: Loop) -> Layers | None:
    """Return the loop's body if it is one unnamed module, whose options stand under the loop's name."""
    first = loop.body.parts[0]
    return first if len(loop.body) == 1 and isinstance(first, Layers) and not first.name else None


def _apply_part(part: Part, settings: Any) -> Part:
    if isinstance(part, Parallel):
        branches = [
            apply_settings(branch, getattr(settings, f"branch{number}"))
            for number, branch in enumerate(part.branches)
        ]
        return Parallel(*branches, name=part.name)
    own = {item.name: getattr(settings, item.name) for item in fields(part) if item.name not in STRUCTURE}
    if not isinstance(part, Loop):
        return replace(part, **own)
    alone = _only_layers(part)
    body = Program(_apply_part(alone, settings)) if alone is not None else apply_settings(part.body, settings)
    return Loop(body, name=part.name, **own)
