"""Tokenized text: all tokens in one array, with the offsets of the sequences."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Int, UInt16

from algoformer.language.text import Columns, LabelledText, ParallelText
from algoformer.language.tokenizer import LARGEST_VOCABULARY, Tokenizer


@dataclass(frozen=True, kw_only=True, eq=False)
class TokenTable:
    """Sequences of tokens.

    Attributes:
        ids: all tokens, one sequence after the other.
        offsets: where each sequence begins, and where the last one ends.
    """

    ids: UInt16[np.ndarray, " token"]
    offsets: Int[np.ndarray, " boundary"]

    def __post_init__(self) -> None:
        if len(self.offsets) < 1 or self.offsets[0] != 0 or self.offsets[-1] != len(self.ids):
            raise ValueError(f"offsets must begin at 0 and end at {len(self.ids)}, the number of tokens")
        if (np.diff(self.offsets) < 0).any():
            raise ValueError("offsets must not decrease")

    @classmethod
    def of(cls, sequences: Iterable[Sequence[int]]) -> TokenTable:
        """Pack sequences.

        >>> table = TokenTable.of([[5, 6], [], [7]])
        >>> len(table), int(table.lengths.sum())
        (3, 3)
        >>> table[0].tolist()
        [5, 6]
        """
        rows = list(sequences)
        lengths = np.fromiter((len(row) for row in rows), dtype=np.int64, count=len(rows))
        ids = np.fromiter((token for row in rows for token in row), dtype=np.int64, count=int(lengths.sum()))
        if ids.size and not 0 <= ids.min() <= ids.max() < LARGEST_VOCABULARY:
            raise ValueError(f"tokens must lie in 0..{LARGEST_VOCABULARY - 1}, got {ids.min()}..{ids.max()}")
        return cls(ids=ids.astype(np.uint16), offsets=np.concatenate([[0], np.cumsum(lengths)]))

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, row: int | np.integer) -> UInt16[np.ndarray, " token"]:
        return self.ids[self.offsets[row] : self.offsets[row + 1]]

    @property
    def lengths(self) -> Int[np.ndarray, " row"]:
        """The number of tokens of each sequence."""
        return np.diff(self.offsets)

    def cut(self, longest: int) -> TokenTable:
        """Return every sequence shortened to its first `longest` tokens."""
        return self._gathered(np.arange(len(self)), np.minimum(self.lengths, longest))

    def take(self, rows: Sequence[int] | np.ndarray) -> TokenTable:
        """Return the sequences with these numbers."""
        chosen = np.asarray(rows, dtype=np.int64)
        return self._gathered(chosen, self.lengths[chosen])

    def _gathered(self, rows: Int[np.ndarray, " row"], lengths: Int[np.ndarray, " row"]) -> TokenTable:
        offsets = np.concatenate([[0], np.cumsum(lengths)])
        places = np.arange(offsets[-1]) + np.repeat(self.offsets[rows] - offsets[:-1], lengths)
        return TokenTable(ids=self.ids[places], offsets=offsets)


class TokenSplit(Columns):
    """The base of tokenized splits; `notes` say what was shortened or left out."""

    def tables(self) -> dict[str, TokenTable]:
        """Return the columns of tokens by name."""
        return {name: one for name, one in self.by_name().items() if isinstance(one, TokenTable)}


@dataclass(frozen=True, kw_only=True, eq=False)
class TokenPairs(TokenSplit):
    """Tokenized sentences and translations."""

    source: TokenTable
    target: TokenTable
    notes: tuple[str, ...] = ()

    @property
    def lengths(self) -> Int[np.ndarray, " row"]:
        """The number of tokens of each source, the mark after it and its translation."""
        return self.source.lengths + 1 + self.target.lengths


@dataclass(frozen=True, kw_only=True, eq=False)
class TokenTexts(TokenSplit):
    """Tokenized texts with their labels."""

    texts: TokenTable
    labels: Int[np.ndarray, " row"]
    notes: tuple[str, ...] = ()

    @property
    def lengths(self) -> Int[np.ndarray, " row"]:
        """The number of tokens of each text."""
        return self.texts.lengths


def encode_pairs(
    tokenizer: Tokenizer, text: ParallelText, *, longest: int | None = None, ratio: float | None = None
) -> TokenPairs:
    """Tokenize a parallel split.

    Args:
        longest: for training: leave out pairs with more tokens on either side.
        ratio: for training: leave out pairs one of whose sides is more than `ratio` times as long as the
            other, which are rarely translations. Pairs of up to ten tokens are kept.

    Returns:
        The pairs; a note for each reason says how many were left out. With neither limit, all of them.
    """
    source = TokenTable.of(tokenizer.encode_all(text.source))
    target = TokenTable.of(tokenizer.encode_all(text.target))
    notes, keep = [], np.ones(len(text), dtype=bool)
    longer = np.maximum(source.lengths, target.lengths)
    shorter = np.minimum(source.lengths, target.lengths)
    if longest is not None:
        keep &= longer <= longest
        notes += _note(len(text) - int(keep.sum()), len(text), f"longer than {longest} tokens")
    if ratio is not None:
        unlike = keep & (longer > 10) & (longer > ratio * shorter)
        keep &= ~unlike
        notes += _note(int(unlike.sum()), len(text), f"one side more than {ratio} times the other")
    if keep.all():
        return TokenPairs(source=source, target=target)
    rows = np.flatnonzero(keep).tolist()
    return TokenPairs(source=source.take(rows), target=target.take(rows), notes=tuple(notes))


def encode_texts(tokenizer: Tokenizer, text: LabelledText, *, longest: int | None = None) -> TokenTexts:
    """Tokenize a labelled split; texts with more than `longest` tokens are shortened, and a note says so."""
    table = TokenTable.of(tokenizer.encode_all(text.texts))
    labels = np.array(text.labels, dtype=np.int64)
    over = 0 if longest is None else int((table.lengths > longest).sum())
    if longest is None or not over:
        return TokenTexts(texts=table, labels=labels)
    note = f"{over} of {len(text)} shortened to {longest} tokens"
    return TokenTexts(texts=table.cut(longest), labels=labels, notes=(note,))


def _note(count: int, of: int, reason: str) -> list[str]:
    return [f"{count} of {of} pairs left out, {reason}"] if count else []
