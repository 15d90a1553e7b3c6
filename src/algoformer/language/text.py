"""Corpora: sentences with translations, and texts with labels, in splits."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Generic, TypeVar


@dataclass(frozen=True, kw_only=True)
class ParallelText:
    """Sentences and their translations, line by line.

    Attributes:
        source: the sentences that are given.
        target: their translations; number i translates source number i.
    """

    source: tuple[str, ...]
    target: tuple[str, ...]

    def __post_init__(self) -> None:
        if len(self.source) != len(self.target):
            raise ValueError(
                f"source and target must pair line by line, got {len(self.source)} and {len(self.target)}"
            )

    def __len__(self) -> int:
        return len(self.source)

    def take(self, rows: Iterable[int]) -> ParallelText:
        """Return the pairs with these numbers, in this order."""
        chosen = list(rows)
        return ParallelText(
            source=tuple(self.source[row] for row in chosen), target=tuple(self.target[row] for row in chosen)
        )

    def mapped(self, change: Callable[[str], str]) -> ParallelText:
        """Return the pairs with every sentence changed."""
        return ParallelText(source=tuple(map(change, self.source)), target=tuple(map(change, self.target)))

    def columns(self) -> tuple[tuple[str, ...], ...]:
        """Return every column of text: what must not leak from one split into another."""
        return self.source, self.target


@dataclass(frozen=True, kw_only=True)
class LabelledText:
    """Texts and the number of the class of each."""

    texts: tuple[str, ...]
    labels: tuple[int, ...]

    def __post_init__(self) -> None:
        if len(self.texts) != len(self.labels):
            raise ValueError(
                f"every text needs one label, got {len(self.texts)} texts, {len(self.labels)} labels"
            )

    def __len__(self) -> int:
        return len(self.texts)

    def take(self, rows: Iterable[int]) -> LabelledText:
        """Return the texts with these numbers, in this order."""
        chosen = list(rows)
        return LabelledText(
            texts=tuple(self.texts[row] for row in chosen), labels=tuple(self.labels[row] for row in chosen)
        )

    def mapped(self, change: Callable[[str], str]) -> LabelledText:
        """Return the texts, every one changed, with their labels."""
        return LabelledText(texts=tuple(map(change, self.texts)), labels=self.labels)

    def columns(self) -> tuple[tuple[str, ...], ...]:
        """Return the one column of text."""
        return (self.texts,)


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
        return replace(
            self,
            train=self.train.mapped(change),
            valid=self.valid.mapped(change),
            test=self.test.mapped(change),
            further={name: split.mapped(change) for name, split in self.further.items()},
            notes=(*self.notes, note),
        )
