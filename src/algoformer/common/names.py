"""Names: refuse an unknown one and suggest the nearest; tables of entries by name that users can extend."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields, is_dataclass
from difflib import get_close_matches
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import TYPE_CHECKING, Any, TypeVar, cast

from algoformer.common.terminal import short

Class = TypeVar("Class", bound=type)


def check_choice(name: str, value: object, choices: Iterable[str]) -> None:
    """Raise ValueError unless `value` is one of `choices`; the message suggests the nearest of them.

    Args:
        name: what the value is called in the message, such as "task".
        value: what was given.
        choices: what may be given.

    >>> check_choice("task", "linaer", ["linear", "chain"])
    Traceback (most recent call last):
    ValueError: unknown task 'linaer' (did you mean 'linear'?); choose from linear, chain
    """
    known = list(choices)
    if value not in known:
        hint = did_you_mean(value, known)
        raise ValueError(f"unknown {name} {short(value)}{hint}; choose from {', '.join(known)}")


def did_you_mean(value: object, choices: Iterable[str]) -> str:
    """Return a hint in parentheses that names the nearest choice, or nothing if none is near.

    >>> did_you_mean("noize", ["noise", "dim"])
    " (did you mean 'noise'?)"
    """
    near = get_close_matches(str(value)[:200], list(choices), n=1)
    return f" (did you mean {near[0]!r}?)" if near else ""


def suggests_keywords(known_as: Mapping[str, str] | None = None) -> Callable[[Class], Class]:
    """Make a dataclass answer an unknown keyword with the nearest field.

    Args:
        known_as: names from elsewhere that are far from the field in spelling, with the field they mean.

    >>> from dataclasses import dataclass
    >>> @suggests_keywords({"rate": "lr"})
    ... @dataclass(kw_only=True)
    ... class Config:
    ...     lr: float = 1e-3
    >>> Config(rate=0.1)
    Traceback (most recent call last):
        ...
    TypeError: Config has no field 'rate' (did you mean 'lr'?)
    """

    def wrap(cls: Class) -> Class:
        names = [item.name for item in fields(cls)]
        plain: Callable[..., None] = cls.__init__  # type: ignore[misc]

        @functools.wraps(plain)
        def checked(self: Any, *arguments: Any, **keywords: Any) -> None:
            check_keywords(cls.__name__, keywords, names, known_as=known_as)
            plain(self, *arguments, **keywords)

        cls.__init__ = checked  # type: ignore[misc]
        return cls

    return wrap


def check_keywords(
    owner: str, given: Iterable[str], names: list[str], *, known_as: Mapping[str, str] | None = None
) -> None:
    """Raise TypeError unless all given keywords are names of the owner; the message suggests the nearest."""
    elsewhere = known_as or {}
    for name in given:
        if name not in names:
            hint = f" (did you mean {elsewhere[name]!r}?)" if name in elsewhere else did_you_mean(name, names)
            raise TypeError(f"{owner} has no field {name!r}{hint or '; its fields are ' + ', '.join(names)}")


Entry = TypeVar("Entry")

_NAME = re.compile(r"[A-Za-z_][\w.:-]{0,199}")


class Registry(dict[str, Entry]):
    """Entries by name: the library's, registered by a user, or offered by an installed package.

    Args:
        kind: what an entry is called in messages, such as "corpus".
        entries: the library's entries, or their import paths ("module:attribute"), imported when needed.
        register: the function that users register with, for messages.
        group: the entry point group in which packages offer entries; empty for none.
        aliases: other spellings that are still read, such as the booleans of old checkpoints.

    >>> colors = Registry("color", {"red": 1}, register="paint")
    >>> colors.register("blue", 2)
    >>> colors.find("blue"), colors.names()
    (2, ['red', 'blue'])
    >>> colors.find("bleu")
    Traceback (most recent call last):
    ValueError: unknown color 'bleu' (did you mean 'blue'?); choose from red, blue; add your own with paint
    """

    def __init__(
        self,
        kind: str,
        entries: Mapping[str, Entry | str],
        *,
        register: str,
        group: str = "",
        aliases: Mapping[object, str] | None = None,
    ) -> None:
        super().__init__(cast(Mapping[str, Entry], entries))
        self.kind, self.how, self.group, self.aliases = kind, register, group, dict(aliases or {})

    def register(self, name: str, entry: Entry) -> None:
        """Add an entry; the same one may be registered again, but no other under its name."""
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise ValueError(
                f"the name of a {self.kind} begins with a letter and has no spaces, got {short(name)}"
            )
        known = self.get(name, entry)
        if _origin(known) != _origin(entry):
            owner = f", it belongs to {known.__name__}" if isinstance(known, type) else ""
            raise ValueError(f"the {self.kind} {name!r} is registered already{owner}; choose another name")
        self[name] = entry

    def find(self, name: object) -> Entry:
        """Return the entry of a name, or of another spelling of it."""
        known = self.name_of(name)
        found: Any = self.get(known)
        if found is None:
            found = next(offered.load() for offered in self._offered() if offered.name == known)
        elif isinstance(found, str):
            module, _, attribute = found.partition(":")
            found = getattr(import_module(module), attribute)
        return cast(Entry, found)

    def name_of(self, value: object) -> str:
        """Return the name that `value` spells; the message about an unknown one suggests the nearest."""
        name = self.aliases.get(value, value) if isinstance(value, str | bool) else value
        if isinstance(name, str) and (name in self or name in self.names()):
            return name
        names = self.names()
        raise ValueError(
            f"unknown {self.kind} {short(value)}{did_you_mean(value, names)}; "
            f"choose from {', '.join(names)}; add your own with {self.how}"
        )

    def names(self) -> list[str]:
        """Return all known names: the library's, registered ones, and those of installed packages."""
        return list(dict.fromkeys([*self, *(offered.name for offered in self._offered())]))

    def _offered(self) -> Iterable[EntryPoint]:
        return entry_points(group=self.group) if self.group else ()

    def __missing__(self, value: object) -> Entry:
        return self.find(value)

    if TYPE_CHECKING:  # other spellings are looked up too

        def __getitem__(self, value: object) -> Entry: ...


def _origin(entry: object) -> object:
    if is_dataclass(entry) and not isinstance(entry, type):
        return type(entry), *(_origin(getattr(entry, item.name)) for item in fields(entry))
    # a function or class that is defined again in a notebook cell is the same one
    named = getattr(entry, "__qualname__", None)
    return entry if named is None else (getattr(entry, "__module__", None), named)
