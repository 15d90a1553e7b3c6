"""Types that a task's field may have, how they are written as plain data, and how they are read back."""

from __future__ import annotations

import types
from dataclasses import fields
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from algoformer.common.terminal import short

_PLAIN = (bool, int, float, str, types.NoneType)


def field_types(kind: type) -> dict[str, Any]:
    """Return the annotated types of a dataclass, with names in annotations resolved."""
    try:
        return get_type_hints(kind)
    except (NameError, TypeError) as error:
        raise ValueError(
            f"the field types of {kind.__name__} cannot be resolved: {error}; "
            "define the class at module level"
        ) from None


def check_fields(kind: type) -> None:
    """Refuse a class one of whose fields could not be stored in a checkpoint."""
    hints = field_types(kind)
    for field in fields(kind):
        if field.init and not _can_be_stored(hints[field.name]):
            raise ValueError(
                f"{kind.__name__}.{field.name} has type {type_name(hints[field.name])}, which cannot be "
                "stored; "
                "use bool, int, float, str, Literal, None, a union or a tuple of these, or field(init=False)"
            )


def plain_value(value: object) -> Any:
    """Return a field's value as JSON has it: tuples become lists, everything else stays."""
    return [plain_value(item) for item in value] if isinstance(value, tuple) else value


def typed_value(field: str, value: object, kind: Any) -> Any:
    """Read one field back as `kind`; raise ValueError for a value of another type.

    An integer is accepted for a float, because some writers of JSON shorten 1.0 to 1. A bool is never
    accepted for a number.
    """
    origin, inner = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        return _first_that_fits(field, value, kind)
    if origin is Literal:
        fits = [option for option in inner if option == value and type(option) is type(value)]
        if fits:
            return fits[0]
    elif origin is tuple and isinstance(value, list | tuple):
        kinds = (inner[0],) * len(value) if inner[1:] == (Ellipsis,) else inner
        if len(kinds) == len(value):
            return tuple(
                typed_value(f"{field}[{place}]", item, one)
                for place, (item, one) in enumerate(zip(value, kinds, strict=True))
            )
    elif kind is float and isinstance(value, int) and not isinstance(value, bool):
        try:
            return float(value)
        except OverflowError:
            raise ValueError(f"{field} is too large for a float: {short(value)}") from None
    elif kind in _PLAIN and type(value) is kind:
        return value
    raise ValueError(
        f"{field} must be of type {type_name(kind)}, got {short(value)} of type {type(value).__name__}"
    )


def type_name(kind: Any) -> str:
    """Return a type as it is written in code."""
    return kind.__name__ if type(kind) is type else str(kind).replace("typing.", "")


def _first_that_fits(field: str, value: object, kind: Any) -> Any:
    # an exact match first: 1 in `int | float` stays an int
    options = sorted(get_args(kind), key=lambda option: option is not type(value))
    for option in options:
        try:
            return typed_value(field, value, option)
        except ValueError:
            continue
    raise ValueError(
        f"{field} must be of type {type_name(kind)}, got {short(value)} of type {type(value).__name__}"
    )


def _can_be_stored(kind: Any) -> bool:
    origin, inner = get_origin(kind), get_args(kind)
    if origin is Literal:
        return all(type(option) in _PLAIN for option in inner)
    if origin is tuple:
        return bool(inner) and all(_can_be_stored(one) for one in inner if one is not Ellipsis)
    if origin in (Union, types.UnionType):
        return all(_can_be_stored(one) for one in inner)
    return kind in _PLAIN
