"""Kinds of data by name: those of this library, and those that are registered from outside."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any, TypeVar

from algoformer.common.names import did_you_mean
from algoformer.data.protocol import Data

GROUP = "algoformer.data"
"""The entry point group by which an installed package offers its own kinds of data."""

BUILT_IN = {
    "prompts": "algoformer.data.prompts:PromptData",
    "translation": "algoformer.data.translation:TranslationData",
    "labels": "algoformer.data.labelled:LabelledData",
    "text": "algoformer.data.text:TextData",
}
"""The kinds of data of this library, imported when they are first needed."""

_REGISTERED: dict[str, type] = {}
DataClass = TypeVar("DataClass", bound=type)


def register_data(cls: DataClass) -> DataClass:
    """Make a kind of data known under its `name`, so that checkpoints and commands can name it.

    Use it as a decorator, or name the class in the entry point group `algoformer.data` of a package.

    Raises:
        ValueError: the class has no name, or the name belongs to another class.
    """
    name = getattr(cls, "name", None)
    if not isinstance(name, str) or not name:
        raise ValueError(f"{cls.__name__} needs a class attribute `name`, a non-empty string")
    known = _REGISTERED.get(name)
    if name in BUILT_IN or (known is not None and known is not cls):
        raise ValueError(f"data named {name!r} is registered already; choose another name")
    _REGISTERED[name] = cls
    return cls


def data_class(name: str) -> Any:
    """Return the class that is registered under a name.

    Raises:
        ValueError: there is none; the message names the nearest one.
    """
    if name in BUILT_IN:
        module, _, attribute = BUILT_IN[name].partition(":")
        return getattr(import_module(module), attribute)
    if name in _REGISTERED:
        return _REGISTERED[name]
    for entry in entry_points(group=GROUP):
        if entry.name == name:
            return entry.load()
    names = data_names()
    raise ValueError(
        f"unknown kind of data {name[:60]!r}{did_you_mean(name, names)}; known are {', '.join(names)}; "
        "register your own with algoformer.data.register_data"
    )


def data_names() -> list[str]:
    """Return the names of all kinds of data that are known here."""
    outside = [entry.name for entry in entry_points(group=GROUP)]
    return list(dict.fromkeys([*BUILT_IN, *_REGISTERED, *outside]))


def data_from_header(header: object) -> Data:
    """Rebuild a data object from its header or settings.

    Raises:
        ValueError: the header is damaged, or of a kind that is not registered here.
    """
    if not isinstance(header, Mapping) or not isinstance(header.get("name"), str):
        raise ValueError(f"data must be an object with a name, got {str(header)[:60]}")
    found: Data = data_class(header["name"]).from_header(header)
    return found


def as_data_object(value: Any) -> Data:
    """Return a data object: the value itself, or a bare task wrapped into `PromptData`.

    Raises:
        ValueError: it is neither.
    """
    if isinstance(value, Data):
        return value
    from algoformer.tasks import Task

    if isinstance(value, Task):
        from algoformer.data.prompts import PromptData

        return PromptData(value)
    raise ValueError(
        f"data must be a task or a data object such as TextData(files=...), got {type(value).__name__}"
    )
