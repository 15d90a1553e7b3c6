"""Kinds of data by name: those of this library, and those that are registered from outside."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from algoformer.common.registry import Registry
from algoformer.data.protocol import Data

BUILT_IN = {
    "prompts": "algoformer.data.prompts:PromptData",
    "translation": "algoformer.data.translation:TranslationData",
    "labels": "algoformer.data.labelled:LabelledData",
    "text": "algoformer.data.text:TextData",
}
"""The kinds of data of this library, imported when they are first needed."""

_KINDS: Registry[Any] = Registry(
    "kind of data", BUILT_IN, group="algoformer.data", register="algoformer.data.register_data"
)
DataClass = TypeVar("DataClass", bound=type)


def register_data(cls: DataClass) -> DataClass:
    """Make a kind of data known under its `name`, so that checkpoints and commands can name it.

    Use it as a decorator, or name the class in the entry point group `algoformer.data` of a package.

    Raises:
        ValueError: the class has no name, or the name belongs to another class.
    """
    _KINDS.register(getattr(cls, "name", ""), cls)
    return cls


def data_class(name: str) -> Any:
    """Return the class that is registered under a name.

    Raises:
        ValueError: there is none; the message names the nearest one.
    """
    return _KINDS.find(name)


def data_names() -> list[str]:
    """Return the names of all kinds of data that are known here."""
    return _KINDS.names()


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
