"""Results as JSON: one reader and writer for all of them."""

from __future__ import annotations

import json
import re
from typing import Any, TypeVar

from algoformer.common.plain_data import UNREADABLE, as_data, read_dataclass, read_object
from algoformer.common.terminal import short

Result = TypeVar("Result", bound="Stored")


class Stored:
    """A base of frozen dataclasses that can be written as JSON and read back.

    Numbers that are not finite are written as text, which every JSON reader accepts.
    """

    def to_data(self) -> dict[str, Any]:
        """Return plain data that JSON can hold."""
        found: dict[str, Any] = as_data(self)
        return found

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
