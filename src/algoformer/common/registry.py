"""Tables of entries by name that installed packages and users can extend."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib import import_module
from importlib.metadata import entry_points
from typing import Generic, TypeVar, cast

from algoformer.common.names import did_you_mean
from algoformer.common.terminal import short

Entry = TypeVar("Entry")


class Registry(Generic[Entry]):
    """Entries by name: built in, registered by a user, or offered by an installed package as an entry point.

    Args:
        kind: what an entry is called in messages, such as "corpus".
        built_in: the library's entries, or their import paths ("module:attribute"), imported when needed.
        group: the entry point group in which packages offer entries.
        register: the function that users register with, for messages.

    >>> colors = Registry("color", {"red": 1}, group="algoformer.colors", register="paint")
    >>> colors.register("blue", 2)
    >>> colors.find("blue"), colors.names()
    (2, ['red', 'blue'])
    >>> colors.find("bleu")
    Traceback (most recent call last):
    ValueError: unknown color 'bleu' (did you mean 'blue'?); choose from red, blue; add your own with paint
    """

    def __init__(self, kind: str, built_in: Mapping[str, Entry | str], *, group: str, register: str) -> None:
        self.kind, self.group, self.how = kind, group, register
        self.built_in = dict(built_in)
        self.registered: dict[str, Entry] = {}

    def register(self, name: str, entry: Entry) -> None:
        """Add an entry; registering the same one again is allowed.

        Raises:
            ValueError: the name is empty, or belongs to another entry.
        """
        if not isinstance(name, str) or not name:
            raise ValueError(f"the name of a {self.kind} must be a non-empty string, got {short(name)}")
        known = self.registered.get(name, entry)
        if name in self.built_in or _origin(known) != _origin(entry):
            raise ValueError(f"the {self.kind} {name!r} is registered already; choose another name")
        self.registered[name] = entry

    def find(self, name: str, *, others: Iterable[str] = ()) -> Entry:
        """Return the entry of a name.

        Args:
            name: the name.
            others: further names for the message that are known elsewhere.

        Raises:
            ValueError: there is none; the message suggests the nearest name.
        """
        found: object = self.registered.get(name, self.built_in.get(name))
        if isinstance(found, str):
            module, _, attribute = found.partition(":")
            return cast(Entry, getattr(import_module(module), attribute))
        if found is None:
            found = next((one.load() for one in entry_points(group=self.group) if one.name == name), None)
        if found is None:
            names = [*self.names(), *others]
            raise ValueError(
                f"unknown {self.kind} {short(name)}{did_you_mean(str(name)[:200], names)}; "
                f"choose from {', '.join(names)}; add your own with {self.how}"
            )
        return cast(Entry, found)

    def names(self) -> list[str]:
        """Return all known names: built in, registered, and offered by installed packages."""
        offered = [entry.name for entry in entry_points(group=self.group)]
        return list(dict.fromkeys([*self.built_in, *self.registered, *offered]))


def _origin(entry: object) -> object:
    # a function or class that is defined again in a notebook cell is the same one
    named = getattr(entry, "__qualname__", None)
    return entry if named is None else (getattr(entry, "__module__", None), named)
