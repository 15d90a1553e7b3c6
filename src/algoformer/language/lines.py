"""A user's own text, line by line: none is lost, none changes its place, however long, empty or odd it is."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TypeVar

import numpy as np

from algoformer.language.corpora.clean import plain

Item = TypeVar("Item")

SIGN = re.compile(r"[^\w\s]|_")
"""What is neither a word nor between words."""


def batched(items: Iterable[Item], size: int) -> Iterator[list[Item]]:
    """The items in lists of `size`, the last one shorter; no more is read than is given."""
    source = iter(items)
    while block := list(islice(source, size)):
        yield block


def one_line(text: str) -> str:
    """A text in which nothing breaks a line: what is printed for a line is a line."""
    return " ".join(text.split())


def prepared(line: str, *, lowercase: bool, only_words: bool = False) -> str:
    """A line as the training text was: NFC, single spaces; lower case, without signs, if that was.

    >>> prepared("Coquerel's coua (Coua coquereli).", lowercase=True, only_words=True)
    'coquerel s coua coua coquereli'
    """
    text = plain(SIGN.sub(" ", line)) if only_words else plain(line)
    return text.lower() if lowercase else text


def by_length(lengths: Iterable[int], size: int) -> Iterator[list[int]]:
    """Places in groups of at most `size`, alike in length."""
    order = np.argsort(np.array(list(lengths), dtype=np.int64), kind="stable").tolist()
    return batched(order, size)
