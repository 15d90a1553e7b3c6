"""Tables of words: everything the library knows about a kind of norm, position, activation or injection."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

Kind = TypeVar("Kind")


@dataclass(frozen=True, kw_only=True)
class LayerSizes:
    """What a builder of a table entry is told.

    Attributes:
        width: width of the residual stream.
        head_width: width of one attention head.
        context: the most tokens of a sequence.
        norm_eps: what a norm adds to the mean square before it takes the root.
        settings: the `Layers` of the program, for kinds with fields of their own; None for a single layer.
    """

    width: int
    head_width: int = 0
    context: int = 0
    norm_eps: float = 1e-5
    settings: Any = None


class Table(Mapping[str, Kind], Generic[Kind]):
    """Entries by name. A program names them; modules, costs, outlines, diagrams and kernels read them.

    Args:
        field: the field of a program that holds a name of this table.
        entries: the entries the library comes with.
        aliases: other spellings that are still read, such as the booleans of old checkpoints.
    """

    def __init__(
        self, field: str, entries: Mapping[str, Kind], *, aliases: Mapping[object, str] | None = None
    ) -> None:
        self.field = field
        self._entries = dict(entries)
        self._aliases = dict(aliases or {})

    def register(self, name: str, kind: Kind) -> None:
        """Add an entry; programs can name it from now on.

        Raises:
            ValueError: the name is taken, or is not an identifier.
        """
        if not isinstance(name, str) or not name.isidentifier():
            raise ValueError(f"a name for {self.field} must be an identifier, got {name!r}")
        if name in self._entries:
            raise ValueError(f"{self.field} {name!r} is registered already; choose another name")
        self._entries[name] = kind

    def name_of(self, value: object) -> str:
        """Return the name that `value` spells.

        Raises:
            ValueError: there is no such entry; the message lists those that exist.
        """
        known = isinstance(value, str | bool)
        name = self._aliases.get(value, value) if known else value
        if not isinstance(name, str) or name not in self._entries:
            words = ", ".join(self._entries)
            shown = repr(value) if len(repr(value)) <= 60 else f"{repr(value)[:60]}…"
            raise ValueError(
                f"{self.field} must be one of {words}, got {shown}; "
                f"a kind of your own must be registered first (register_{self.field})"
            )
        return name

    def __getitem__(self, value: object) -> Kind:
        return self._entries[self.name_of(value)]

    def __contains__(self, value: object) -> bool:
        return isinstance(value, str) and value in self._entries

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)
