"""The order of a legend and its columns."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise


def legend_columns(labels: Sequence[str], room: int | float) -> int:
    """Return the largest number of columns in which labels fit into a line of `room` characters.

    >>> legend_columns(["model", "other", "least squares"], 34), legend_columns(["model"] * 3, 10)
    (2, 1)
    """
    for count in range(len(labels), 1, -1):
        # a column is as wide as its longest label and the piece of line before it
        starts = [-(-place * len(labels) // count) for place in range(count + 1)]
        columns = [labels[first:last] for first, last in pairwise(starts)]
        if sum(max(map(len, column)) + 7 for column in columns) <= room:
            return count
    return 1


def in_one_order(lists: Iterable[Sequence[str]]) -> list[str]:
    """Merge lists into one order without repetition, keeping the order within each list where possible.

    >>> in_one_order([["T = 20", "Newton"], ["T = 10", "T = 20", "T = 30", "Newton"]])
    ['T = 10', 'T = 20', 'T = 30', 'Newton']
    """
    order: list[str] = []
    for labels in lists:
        place = len(order)
        for label in reversed(labels):
            if label in order:
                place = order.index(label)
            else:
                order.insert(place, label)
    return order
