"""Dataclasses of plain values as JSON, and back from JSON that may hold anything."""

from __future__ import annotations

import json
import math
import re
import types
import typing
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any, Literal, TypeVar

from algoformer.common.terminal import short

Kind = TypeVar("Kind")

_PLAIN = (bool, int, float, str, types.NoneType)

MOST = 10**12
"""No count of a run is larger: what is read from a file must not overflow later."""


def as_data(value: object) -> Any:
    """Return plain values in plain JSON types; a dataclass is an object of the fields that `init` takes.

    JSON has no word for numbers that are not finite, so they are written as "nan", "inf" and "-inf".
    """
    if is_dataclass(value):
        return {item.name: as_data(getattr(value, item.name)) for item in fields(value) if item.init}
    if isinstance(value, Mapping):
        return {key: as_data(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [as_data(item) for item in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def read_dataclass(kind: type[Kind], data: object) -> Kind:
    """Build a dataclass of plain values from JSON; unknown, missing or mistyped fields raise ValueError."""
    if not isinstance(data, Mapping):
        raise ValueError(f"{kind.__name__} must be an object, got {type(data).__name__}")
    hints = field_types(kind)
    strange = sorted(set(map(str, data)) - set(hints))
    if strange:
        raise ValueError(f"{kind.__name__} has no field {short(strange[0])}")
    values = {name: read_value(f"{kind.__name__}.{name}", hints[name], data[name]) for name in data}
    try:
        return kind(**values)
    except TypeError as error:
        raise ValueError(f"{kind.__name__} cannot be read: {error}") from None


UNREADABLE = (ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RecursionError)
"""The errors that come up when something is built from JSON of other types, sizes or depth."""


def read_object(text: str, what: str = "this") -> dict[str, Any]:
    """Parse JSON text that holds an object; anything else raises ValueError, which says what the text is."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{what} is not JSON: {short(str(error))}") from None
    if not isinstance(found, dict):
        raise ValueError(f"{what} must be a JSON object, got {type(found).__name__}")
    return found


def check_types(value: Any) -> None:
    """Raise ValueError unless every field of a dataclass of plain values has the type that it declares.

    >>> from algoformer.config import Ramp
    >>> check_types(Ramp(start=1, increment=1, interval=1.0))
    """
    hints = field_types(type(value))
    for item in fields(value):
        name, found = f"{type(value).__name__}.{item.name}", getattr(value, item.name)
        if read_value(name, hints[item.name], found) != found:  # a list was read as a tuple, say
            raise ValueError(f"{name} must be of type {_type_name(hints[item.name])}, got {short(found)}")


def field_types(kind: type) -> dict[str, Any]:
    """Return the annotated types of a dataclass, with names in annotations resolved."""
    try:
        return typing.get_type_hints(kind)
    except (NameError, TypeError) as error:
        raise ValueError(
            f"the field types of {kind.__name__} cannot be resolved: {error}; "
            "define the class at module level"
        ) from None


def check_storable(kind: type) -> None:
    """Refuse a dataclass one of whose fields could not be stored in a checkpoint."""
    hints = field_types(kind)
    for field in fields(kind):
        if field.init and not _can_be_stored(hints[field.name]):
            raise ValueError(
                f"{kind.__name__}.{field.name} has type {_type_name(hints[field.name])}, which cannot be "
                "stored; "
                "use bool, int, float, str, Literal, None, a union or a tuple of these, or field(init=False)"
            )


def read_value(name: str, hint: Any, value: Any) -> Any:
    """Read a value of JSON as the type `hint`; raise ValueError for a value of another type.

    Lists become tuples. An integer is accepted for a float, because some writers of JSON shorten 1.0 to 1,
    and so are the words "nan", "inf" and "-inf". A bool is never accepted for a number.
    """
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if hint is Any:
        return value
    if origin in (typing.Union, types.UnionType):
        return _first_that_fits(name, hint, value)
    if origin is Literal:
        if any(option == value and type(option) is type(value) for option in inner):
            return value
        raise ValueError(f"{name} must be one of {', '.join(map(str, inner))}, got {short(value)}")
    if is_dataclass(hint):
        if not isinstance(value, typing.cast(type, hint)):
            return read_dataclass(typing.cast(type, hint), value)
        check_types(value)
        return value
    if isinstance(origin, type) and issubclass(origin, Mapping) and isinstance(value, Mapping):
        return {
            read_value(f"a key of {name}", inner[0], key): read_value(f"{name}[{short(key)}]", inner[1], item)
            for key, item in value.items()
        }
    if origin in (tuple, list, Sequence) and isinstance(value, list | tuple):
        kinds = inner if origin is tuple and inner[-1] is not Ellipsis else inner[:1] * len(value)
        if len(kinds) == len(value):
            return tuple(
                read_value(f"{name}[{place}]", kind, item)
                for place, (kind, item) in enumerate(zip(kinds, value, strict=True))
            )
    elif hint is float and value in ("inf", "-inf", "nan"):
        return float(value)
    elif hint is float and type(value) is int:
        try:
            return float(value)
        except OverflowError:
            raise ValueError(f"{name} is too large for a float: {short(value)}") from None
    elif hint is int and type(value) is int and not -(2**63) <= value < 2**63:
        raise ValueError(f"{name} must be an integer of at most 64 bits, got {short(value)}")
    elif origin is None and (type(value) is hint or (hint not in _PLAIN and isinstance(value, hint))):
        return value
    raise ValueError(
        f"{name} must be of type {_type_name(hint)}, got {short(value)} of type {type(value).__name__}"
    )


def _first_that_fits(name: str, hint: Any, value: Any) -> Any:
    # an exact match first: 1 in `int | float` stays an int
    refused: ValueError | None = None
    for kind in sorted(typing.get_args(hint), key=lambda kind: kind is not type(value)):
        try:
            return read_value(name, kind, value)
        except ValueError as error:
            # what is inside an object says more than that the object does not fit
            refused = error if is_dataclass(kind) and isinstance(value, Mapping) else refused
    raise refused or ValueError(
        f"{name} must be of type {_type_name(hint)}, got {short(value)} of type {type(value).__name__}"
    )


def _can_be_stored(hint: Any) -> bool:
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin is Literal:
        return all(type(option) in _PLAIN for option in inner)
    if origin in (tuple, typing.Union, types.UnionType):
        return bool(inner) and all(_can_be_stored(one) for one in inner if one is not Ellipsis)
    return hint in _PLAIN


def _type_name(hint: Any) -> str:
    """Return a type as it is written in code."""
    return hint.__name__ if type(hint) is type else str(hint).replace("typing.", "")


Result = TypeVar("Result", bound="Stored")


class Stored:
    """A base of frozen dataclasses that can be written as JSON and read back.

    Numbers that are not finite are written as text, which every JSON reader accepts.
    """

    def to_data(self) -> dict[str, Any]:
        """Return plain data that JSON can hold."""
        return as_data(self)

    def to_json(self) -> str:
        """Return the result as JSON text."""
        return json.dumps(self.to_data(), ensure_ascii=False, indent=1)

    @classmethod
    def from_data(cls: type[Result], data: object) -> Result:
        """Rebuild a result from plain data.

        Raises:
            ValueError: fields are missing, unknown or of another type.
        """
        try:
            found = read_dataclass(cls, data)
            str(found)  # lists of different lengths are noticed here, not when somebody prints it
        except UNREADABLE as error:
            words = re.sub(r"(?<!^)(?=[A-Z])", " ", cls.__name__).lower()
            article = "an" if words[0] in "aeiou" else "a"
            raise ValueError(f"this is not {article} {words}: {short(str(error), 160)}") from None
        return found

    @classmethod
    def from_json(cls: type[Result], text: str) -> Result:
        """Rebuild a result from JSON text."""
        return cls.from_data(read_object(text))
