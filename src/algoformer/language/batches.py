"""Batches of sequences of similar length, with a maximum number of tokens, few shapes and masked padding.

A plan decides which rows form a batch; other functions turn rows into tensors. A plan is a pure function
of lengths, settings and seed: batch number k is the same whether the batches before it were made or not.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, fields, replace
from typing import TypeVar

import numpy as np
import torch
from jaxtyping import Bool, Int
from torch import Tensor

from algoformer.common.plain_data import check_count
from algoformer.language.tokenizer import EOS, PAD, TRANSLATE
from algoformer.language.tokens import TokenPairs, TokenTable


@dataclass(frozen=True, kw_only=True, eq=False)
class TokenBatch:
    """Sequences, padded on the right.

    Attributes:
        ids: tokens; PAD where a sequence has ended.
        mask: true where there is a token.
    """

    ids: Int[Tensor, "batch token"]
    mask: Bool[Tensor, "batch token"]

    def to(self: Batch, device: torch.device | str) -> Batch:
        """Return the same batch on another device."""
        moved = {one.name: getattr(self, one.name).to(device, non_blocking=True) for one in fields(self)}
        return replace(self, **moved)


Batch = TypeVar("Batch", bound=TokenBatch)


@dataclass(frozen=True, kw_only=True, eq=False)
class TranslationBatch(TokenBatch):
    """Sequences of source, mark and translation, with the next token at every place.

    Attributes:
        targets: the token after each of `ids`; the last one is the end.
        loss_mask: true where that token belongs to the translation or is its end: the tokens of the loss.
        prefix: the number of given tokens, the mark included; they may attend to each other.
    """

    targets: Int[Tensor, "batch token"]
    loss_mask: Bool[Tensor, "batch token"]
    prefix: Int[Tensor, " batch"]


@dataclass(frozen=True, kw_only=True, eq=False)
class BatchPlan:
    """The assignment of rows to batches, epoch after epoch.

    Rows of like length share a batch. Each length is rounded up to a multiple of `pad_to_multiple_of`, so a
    run sees few shapes: one for each rounded length, and at most one shorter batch an epoch. Rows that are
    left of a length move on to the next longer one.

    Attributes:
        lengths: the number of tokens of every row.
        batch_tokens: the maximum number of tokens in a batch, padding counted.
        pad_to_multiple_of: lengths are rounded up to a multiple of this.
        seed: the seed of the shuffles; None keeps rows in order of length, for measuring.
        fill: complete the one short batch with rows that are drawn again, so that no other shape occurs.
    """

    lengths: Int[np.ndarray, " row"]
    batch_tokens: int
    pad_to_multiple_of: int = 8
    seed: int | None = 0
    fill: bool = False
    _epochs: dict[int, list[tuple[int, np.ndarray]]] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        check_count("pad_to_multiple_of", self.pad_to_multiple_of)
        if not len(self.lengths):
            raise ValueError("there is nothing to make batches of: no rows")
        longest = int(self.padded().max())
        if self.batch_tokens < longest:
            raise ValueError(
                f"batch_tokens must hold the longest sequence, {longest} tokens with padding, got "
                f"{self.batch_tokens}; raise it, or leave out long sequences with `max_length`"
            )

    def padded(self) -> Int[np.ndarray, " row"]:
        """Return the rounded length of every row."""
        whole = -(-np.maximum(self.lengths, 1) // self.pad_to_multiple_of)
        return whole * self.pad_to_multiple_of

    @property
    def shapes(self) -> list[tuple[int, int]]:
        """The numbers of rows and tokens of every full batch that can occur."""
        return [(self._rows(length), length) for length in np.unique(self.padded()).tolist()]

    def __len__(self) -> int:
        """Return the number of batches in an epoch, which is the same for every epoch."""
        return len(self._epoch(0))

    def rows(self, number: int) -> tuple[int, Int[np.ndarray, " row"]]:
        """Return the padded length and the rows of batch `number`, counted from 0 over all epochs."""
        if number < 0:
            raise ValueError(f"batches are counted from 0, got {number}")
        epoch, place = divmod(number, len(self))
        return self._epoch(epoch)[place]

    def __iter__(self) -> Iterator[tuple[int, Int[np.ndarray, " row"]]]:
        """Iterate over the batches of the first epoch."""
        return iter(self._epoch(0))

    def padding(self) -> float:
        """Return the fraction of places that hold no token."""
        places = sum(length * len(rows) for length, rows in self)
        tokens = sum(int(self.lengths[rows].sum()) for _, rows in self)
        return 1 - tokens / places

    def _rows(self, length: int) -> int:
        return self.batch_tokens // length

    def _epoch(self, epoch: int) -> list[tuple[int, np.ndarray]]:
        if epoch not in self._epochs:
            made = self._make(epoch)
            # the first epoch answers for the number of batches, the last one is the one in use
            for old in [one for one in self._epochs if one != 0]:
                del self._epochs[old]
            self._epochs[epoch] = made
        return self._epochs[epoch]

    def _make(self, epoch: int) -> list[tuple[int, np.ndarray]]:
        count = len(self.lengths)
        order = np.arange(count) if self.seed is None else _shuffled(count, self.seed, epoch, 0)
        padded = self.padded()
        batches: list[tuple[int, np.ndarray]] = []
        left = order[:0]
        for length in np.unique(padded).tolist():
            rows = np.concatenate([left, order[padded[order] == length]])
            size = self._rows(length)
            whole = len(rows) // size * size
            batches += [(length, rows[start : start + size]) for start in range(0, whole, size)]
            left = rows[whole:]
        if len(left):
            last = int(padded[left].max())
            if self.fill:
                left = np.resize(np.concatenate([left, order[padded[order] <= last]]), self._rows(last))
            batches.append((last, left))
        if self.seed is None:
            return batches
        return [batches[place] for place in _shuffled(len(batches), self.seed, epoch, 1)]


def _shuffled(count: int, seed: int, epoch: int, purpose: int) -> np.ndarray:
    # raw numbers of PCG64 are the same in every version of numpy, which its shuffles are not
    raw = np.random.PCG64(np.random.SeedSequence([seed, epoch, purpose])).random_raw(count)
    return np.argsort(raw, kind="stable")


def translation_batch(
    pairs: TokenPairs, rows: Int[np.ndarray, " row"], *, length: int | None = None
) -> TranslationBatch:
    """Return the pairs with these numbers as tensors, padded to `length`.

    A row is `source … TRANSLATE translation …`, and it is to be continued by `translation … EOS`: at the mark
    the first word of the translation is to be predicted, at its last word the end.
    """
    given, wanted = pairs.source.lengths[rows], pairs.target.lengths[rows]
    mark = given[:, None]
    length = _fitting(given + 1 + wanted, length)
    # one place more than a row has, for the end that is predicted but never read
    place = np.arange(length + 1)
    ids = np.full((len(rows), length + 1), PAD, dtype=np.int64)
    ids[place < mark] = pairs.source.take(rows).ids
    ids[place == mark] = TRANSLATE
    end = mark + 1 + wanted[:, None]
    ids[(place > mark) & (place < end)] = pairs.target.take(rows).ids
    targets = ids.copy()
    targets[place == end] = EOS
    mask = place[:-1] < end
    return TranslationBatch(
        ids=torch.from_numpy(ids[:, :-1].copy()),
        mask=torch.from_numpy(mask),
        targets=torch.from_numpy(targets[:, 1:].copy()),
        loss_mask=torch.from_numpy(mask & (place[:-1] >= mark)),
        prefix=torch.from_numpy(given + 1),
    )


def source_batch(
    sources: TokenTable, rows: Int[np.ndarray, " row"], *, length: int | None = None
) -> TokenBatch:
    """Return the sources with these numbers, each followed by the mark that a translation begins with."""
    return _padded(sources.take(rows), length, end=TRANSLATE)


def text_batch(texts: TokenTable, rows: Int[np.ndarray, " row"], *, length: int | None = None) -> TokenBatch:
    """Return the texts with these numbers as tensors, padded to `length`; an empty one has one EOS token."""
    return _padded(texts.take(rows), length)


def _padded(table: TokenTable, length: int | None, *, end: int | None = None) -> TokenBatch:
    """Pad sequences that each have `end` behind them; without it, only an empty one has EOS."""
    lengths = table.lengths[:, None]
    with_end = lengths + 1 if end is not None else np.maximum(lengths, 1)
    place = np.arange(_fitting(with_end, length))
    ids = np.full((len(table), len(place)), PAD, dtype=np.int64)
    mask = place < with_end
    ids[mask] = EOS if end is None else end
    ids[place < lengths] = table.ids
    return TokenBatch(ids=torch.from_numpy(ids), mask=torch.from_numpy(mask))


def _fitting(lengths: Int[np.ndarray, ...], length: int | None) -> int:
    longest = int(lengths.max())
    if length is not None and longest > length:
        raise ValueError(f"a sequence has {longest} tokens, more than the length {length} to pad to")
    return longest if length is None else length
