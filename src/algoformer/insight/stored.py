"""Results of this room as JSON and as text: one reader and writer for all of them."""

from __future__ import annotations

import json
import math
import re
import textwrap
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, TypeVar

from algoformer.common.plain_data import MOST, UNREADABLE, read_dataclass, read_object
from algoformer.common.terminal import short

Result = TypeVar("Result", bound="Stored")

WIDTH = 80
"""Characters in a line of text."""


class Stored:
    """A base of frozen dataclasses that can be written as JSON and read back.

    Numbers that are not finite are written as text, which every JSON reader accepts.
    """

    def to_data(self) -> dict[str, Any]:
        """Return plain data that JSON can hold."""
        found: dict[str, Any] = _plain(asdict(self))  # type: ignore[call-overload]
        return found

    def to_json(self) -> str:
        """Return the result as JSON text."""
        return json.dumps(self.to_data(), ensure_ascii=False, indent=1)

    @classmethod
    def from_data(cls: type[Result], data: Mapping[str, Any]) -> Result:
        """Rebuild a result from plain data.

        Raises:
            ValueError: fields are missing, unknown or of another type.
        """
        try:
            found = read_dataclass(cls, data)
            if _largest([value for name, value in data.items() if name != "setting"]) > MOST:
                raise ValueError(f"it holds an integer above {MOST}")
            str(found)  # lists of different lengths are noticed here, not when somebody prints it
        except UNREADABLE as error:
            words = re.sub(r"(?<!^)(?=[A-Z])", " ", cls.__name__).lower()
            article = "an" if words[0] in "aeiou" else "a"
            raise ValueError(f"this is not {article} {words}: {short(str(error))}") from None
        return found

    @classmethod
    def from_json(cls: type[Result], text: str) -> Result:
        """Rebuild a result from JSON text."""
        return cls.from_data(read_object(text))


def filled(text: str) -> str:
    """Return a paragraph in lines that fit a terminal; further lines are indented."""
    return textwrap.fill(text, WIDTH, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def _largest(value: Any) -> int:
    """Return the largest size of an integer anywhere in plain data."""
    inner = list(value.values()) if isinstance(value, Mapping) else value
    if isinstance(inner, list | tuple):
        return max(map(_largest, inner), default=0)
    return abs(inner) if type(inner) is int else 0
