"""Corpora: sentences with translations, and texts with labels, in splits."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, ClassVar, Generic, TypeVar


def plain(text: str) -> str:
    """Normalize to NFC and collapse white space, including line breaks; applied to every text.

    >>> plain("  Za\\u0308hne\\r\\n putzen ")
    'Zähne putzen'
    """
    return " ".join(unicodedata.normalize("NFC", text).split())


class Columns:
    """The base of dataclasses whose fields, but for `notes`, are columns with as many entries each."""

    def __post_init__(self) -> None:
        counts = {name: len(column) for name, column in self.by_name().items()}
        if len(set(counts.values())) > 1:
            found = " and ".join(map(str, counts.values()))
            raise ValueError(f"{' and '.join(counts)} must pair line by line, got {found}")

    def __len__(self) -> int:
        return len(next(iter(self.by_name().values())))

    def by_name(self) -> dict[str, Any]:
        """Return the columns by their names."""
        return {one.name: getattr(self, one.name) for one in fields(self) if one.name != "notes"}  # type: ignore[arg-type]


Kind = TypeVar("Kind", bound="TextSplit")


class TextSplit(Columns):
    """The base of the splits of a corpus."""

    text_columns: ClassVar[tuple[str, ...]]

    def take(self: Kind, rows: Iterable[int]) -> Kind:
        """Return the rows with these numbers, in this order."""
        chosen = list(rows)
        return type(self)(
            **{name: tuple(column[row] for row in chosen) for name, column in self.by_name().items()}
        )

    def mapped(self: Kind, change: Callable[[str], str]) -> Kind:
        """Return the rows with every text changed."""
        changed = {name: tuple(map(change, getattr(self, name))) for name in self.text_columns}
        return type(self)(**{**self.by_name(), **changed})

    def columns(self) -> tuple[tuple[str, ...], ...]:
        """Return every column of text: what must not leak from one split into another."""
        return tuple(getattr(self, name) for name in self.text_columns)


@dataclass(frozen=True, kw_only=True)
class ParallelText(TextSplit):
    """Sentences and their translations, line by line.

    Attributes:
        source: the sentences that are given.
        target: their translations; number i translates source number i.
    """

    source: tuple[str, ...]
    target: tuple[str, ...]

    text_columns: ClassVar[tuple[str, ...]] = ("source", "target")


@dataclass(frozen=True, kw_only=True)
class LabelledText(TextSplit):
    """Texts and the number of the class of each."""

    texts: tuple[str, ...]
    labels: tuple[int, ...]

    text_columns: ClassVar[tuple[str, ...]] = ("texts",)


Split = TypeVar("Split", ParallelText, LabelledText)


@dataclass(frozen=True, kw_only=True)
class Corpus(Generic[Split]):
    """A set of text in splits that share no text with each other.

    Attributes:
        name: the name under which it is loaded.
        train: the split that a model and its tokenizer learn from.
        valid: the split that settings are chosen by.
        test: the split that scores are reported on.
        further: other splits by name; those that begin with `test` are as held out as `test`.
        classes: the names of the labels; empty for translation.
        files: sha256 of every file that was read, by its path inside the data folder.
        notes: what was left out or repaired on the way, in sentences; nothing is done silently.
        terms: what the text may be used for.
        credits: the attribution that a model trained on the text must carry, if the terms ask for one.
        spelling: undoes tokenization, for a corpus that is distributed as tokens; it is applied when a model
            learns from the corpus.
    """

    name: str
    train: Split
    valid: Split
    test: Split
    further: Mapping[str, Split] = field(default_factory=dict)
    classes: tuple[str, ...] = ()
    files: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    terms: str = ""
    credits: tuple[str, ...] = ()
    spelling: Callable[[str], str] | None = None

    def __post_init__(self) -> None:
        for name, split in self.splits().items():
            if isinstance(split, LabelledText):
                wrong = next((label for label in split.labels if not 0 <= label < len(self.classes)), None)
                if wrong is not None:
                    raise ValueError(
                        f"split {name!r} of {self.name} has label {wrong}; "
                        f"there are {len(self.classes)} classes, counted from 0"
                    )

    def splits(self) -> dict[str, Split]:
        """Return every split by its name."""
        return {"train": self.train, "valid": self.valid, "test": self.test, **self.further}

    def mapped(self, change: Callable[[str], str], *, note: str) -> Corpus[Split]:
        """Return the corpus with every text of every split changed, references included.

        Args:
            change: applied to each text, say `str.lower`.
            note: what that does, for `notes`: a score on changed references is another score.
        """
        changed: Any = {name: split.mapped(change) for name, split in self.splits().items()}
        given = {name: changed.pop(name) for name in ("train", "valid", "test")}
        return replace(self, **given, further=changed, notes=(*self.notes, note))
