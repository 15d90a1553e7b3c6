"""Choices that are the same on every machine and in every version of Python."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import TypeVar

Thing = TypeVar("Thing")


class Dice:
    """Draws from a seed, through the one method of `random` whose stream is promised never to change."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed).random

    def choose(self, things: Sequence[Thing]) -> Thing:
        """One of the things, each as likely as the others."""
        return things[int(self._random() * len(things))]

    def chance(self, share: float) -> bool:
        """True in this share of the draws."""
        return self._random() < share

    def weighted(self, things: Mapping[Thing, int | float]) -> Thing:
        """One of the things, by weight."""
        names = list(things)
        left = self._random() * sum(things.values())
        for name in names:
            left -= things[name]
            if left < 0:
                return name
        return names[-1]  # rounding may leave a last crumb
