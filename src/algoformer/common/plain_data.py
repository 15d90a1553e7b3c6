"""Dataclasses of plain values as JSON, and back from JSON that may hold anything."""

from __future__ import annotations

import json
import types
import typing
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any, Literal, TypeVar

from algoformer.common.terminal import short

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
        raise ValueError(f"{kind.__name__} has no field {short(strange[0])}")
    values = {name: _read_value(f"{kind.__name__}.{name}", hints[name], data[name]) for name in data}
    try:
        return kind(**values)
    except TypeError as error:
        raise ValueError(f"{kind.__name__} cannot be read: {error}") from None


UNREADABLE = (ValueError, TypeError, LookupError, AttributeError, ArithmeticError)
"""What goes wrong when something is built from JSON of other types or sizes."""


def read_object(text: str) -> dict[str, Any]:
    """Parse JSON text that holds an object; anything else raises ValueError."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"this is not JSON: {short(str(error))}") from None
    if not isinstance(found, dict):
        raise ValueError(f"this must be a JSON object, got {type(found).__name__}")
    return found


def check_types(value: Any) -> None:
    """Raise ValueError unless every field of a dataclass of plain values has the type that it declares.

    >>> from algoformer.config import Ramp
    >>> check_types(Ramp(start=1, increment=1, interval=1.0))
    """
    hints = typing.get_type_hints(type(value))
    for item in fields(value):
        if not _fits(hints[item.name], getattr(value, item.name)):
            found = short(getattr(value, item.name))
            raise ValueError(f"{type(value).__name__}.{item.name} must be {hints[item.name]}, got {found}")


def _fits(hint: Any, value: Any) -> bool:
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if hint is Any:
        return True
    if origin in (typing.Union, types.UnionType):
        return any(_fits(one, value) for one in inner)
    if origin is Literal:
        return value in inner
    if origin is tuple:
        if not isinstance(value, tuple):
            return False
        if len(inner) == 2 and inner[1] is Ellipsis:
            return all(_fits(inner[0], one) for one in value)
        return len(inner) == len(value) and all(map(_fits, inner, value))
    if origin is list:
        return isinstance(value, list) and all(_fits(inner[0], one) for one in value)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        pairs = value.items() if isinstance(value, Mapping) else [(None, None)]
        return all(_fits(inner[0], key) and _fits(inner[1], one) for key, one in pairs)
    if is_dataclass(hint):
        if isinstance(value, typing.cast(type, hint)):
            check_types(value)
        return isinstance(value, typing.cast(type, hint))
    if hint is float:
        return isinstance(value, float) or (type(value) is int and abs(value) <= MOST)
    if hint is int:
        return type(value) is int and abs(value) <= MOST
    return isinstance(value, hint)


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
            raise ValueError(f"{name} must be one of {', '.join(map(str, inner))}, got {short(value)}")
        return value
    if origin in (tuple, list, Sequence):
        if not isinstance(value, list | tuple):
            raise ValueError(f"{name} must be a list, got {short(value)}")
        return tuple(_read_value(name, inner[0], item) for item in value)
    if is_dataclass(hint):
        return read_dataclass(typing.cast(type, hint), value)
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        if abs(value) > MOST:
            raise ValueError(f"{name} is too large")
        return float(value)
    if origin is not None:
        raise ValueError(f"{name} cannot be read from plain data")
    if not isinstance(value, hint) or (isinstance(value, bool) and hint is not bool):
        raise ValueError(f"{name} must be of type {hint.__name__}, got {short(value)}")
    return value
