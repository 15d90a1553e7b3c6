"""Process a user's text line by line, in order and without losing a line."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TypeVar

import numpy as np

from algoformer.language.text import plain

Item = TypeVar("Item")

SIGN = re.compile(r"[^\w\s]|_")
"""A character that is neither part of a word nor white space."""


def batched(items: Iterable[Item], size: int) -> Iterator[list[Item]]:
    """Yield the items in lists of `size`, the last one shorter; nothing is read ahead."""
    source = iter(items)
    while block := list(islice(source, size)):
        yield block


def one_line(text: str) -> str:
    """Return a text without line breaks, with white space collapsed."""
    return " ".join(text.split())


def prepared(line: str, *, lowercase: bool, only_words: bool = False) -> str:
    """Spell a line like the training text: NFC, single spaces, optionally lower case and words only.

    >>> prepared("Coquerel's coua (Coua coquereli).", lowercase=True, only_words=True)
    'coquerel s coua coua coquereli'
    """
    text = plain(SIGN.sub(" ", line)) if only_words else plain(line)
    return text.lower() if lowercase else text


def by_length(lengths: Iterable[int], size: int) -> Iterator[list[int]]:
    """Yield indices in groups of at most `size`, of similar length."""
    order = np.argsort(np.array(list(lengths), dtype=np.int64), kind="stable").tolist()
    return batched(order, size)
