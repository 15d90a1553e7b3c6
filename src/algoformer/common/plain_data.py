"""Dataclasses of plain values as JSON, and back from JSON that may hold anything."""

from __future__ import annotations

import types
import typing
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any, Literal, TypeVar

Kind = TypeVar("Kind")

MOST = 10**12
"""No count of a run is larger: what is read from a file must not overflow later."""


def as_data(value: object) -> Any:
    """A dataclass of plain values as plain JSON types."""
    if is_dataclass(value):
        return {item.name: as_data(getattr(value, item.name)) for item in fields(value)}
    return list(value) if isinstance(value, tuple) else value


def read_dataclass(kind: type[Kind], data: object) -> Kind:
    """Build a dataclass of plain values from JSON; unknown, missing or mistyped fields raise ValueError."""
    if not isinstance(data, Mapping):
        raise ValueError(f"{kind.__name__} must be an object, got {type(data).__name__}")
    hints = typing.get_type_hints(kind)
    strange = sorted(set(map(str, data)) - set(hints))
    if strange:
        raise ValueError(f"{kind.__name__} has no field {strange[0]!r}")
    values = {name: _read_value(f"{kind.__name__}.{name}", hints[name], data[name]) for name in data}
    try:
        return kind(**values)
    except TypeError as error:
        raise ValueError(f"{kind.__name__} cannot be read: {error}") from None


def _read_union(name: str, kinds: tuple[Any, ...], value: Any) -> Any:
    """Return the value as the first kind that it fits."""
    if value is None and type(None) in kinds:
        return None
    refused: ValueError | None = None
    for kind in kinds:
        if kind is not type(None):
            try:
                return _read_value(name, kind, value)
            except ValueError as error:
                refused = refused or error
    assert refused is not None
    raise refused


def _read_value(name: str, hint: Any, value: Any) -> Any:
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return _read_union(name, inner, value)
    if origin is Literal:
        if value not in inner:
            raise ValueError(f"{name} must be one of {', '.join(map(str, inner))}, got {value!r}")
        return value
    if origin is tuple:
        if not isinstance(value, list | tuple):
            raise ValueError(f"{name} must be a list, got {value!r}")
        return tuple(_read_value(name, inner[0], item) for item in value)
    if is_dataclass(hint):
        return read_dataclass(typing.cast(type, hint), value)
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        if abs(value) > MOST:
            raise ValueError(f"{name} is too large")
        return float(value)
    if not isinstance(value, hint) or (isinstance(value, bool) and hint is not bool):
        raise ValueError(f"{name} must be of type {hint.__name__}, got {value!r}")
    return value
