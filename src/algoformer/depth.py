"""Distributions over the number of iterations of a loop, as frozen data."""

from __future__ import annotations

import math
import random
import typing
from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Literal

from algoformer.common.plain_data import read_value
from algoformer.common.terminal import short

DepthKind = Literal["fixed", "list", "poisson", "lognormal"]
Per = Literal["batch", "sequence"]

LARGEST_MEAN = 500
"""The largest mean: the probability of zero events, exp(-mean), must not underflow."""


@dataclass(frozen=True, kw_only=True)
class Depth:
    """The number of iterations of a loop in a training step: a named distribution on 1, 2, 3, ...

    "fixed" always runs `mean` iterations, "list" one of `choices`, each as likely as the others. "poisson"
    runs 1 + Poisson(`mean` - 1) iterations. "lognormal" is Huginn's log-normal Poisson distribution: the rate
    of the Poisson variable is log-normal with mean `mean` - 1 and deviation `sigma` of its logarithm;
    Huginn has mean 33 and sigma 0.5.

    >>> Depth.parse("lognormal:33,sigma=0.5,per=sequence")
    Depth(kind='lognormal', mean=33.0, sigma=0.5, choices=(), per='sequence', most=None)
    >>> str(Depth(kind="list", choices=(4, 8, 16)))
    'list:4,8,16'
    >>> Depth.parse("poisson:8").draw("seed and step", 5)
    (5, 7, 9, 7, 9)
    """

    kind: DepthKind
    """The name of the distribution."""
    mean: float = 0.0
    """Mean number of iterations; "list" has none."""
    sigma: float = 0.0
    """Standard deviation of the logarithm of the rate, for "lognormal"."""
    choices: tuple[int, ...] = ()
    """The numbers of iterations of "list"."""
    per: Per = "batch"
    """One draw for a whole batch, or one for each sequence."""
    most: int | None = None
    """Larger draws become this number; None has no bound."""

    def __post_init__(self) -> None:
        _check_words(self.kind, self.per)
        if (self.kind == "list") != bool(self.choices) or not all(one >= 1 for one in self.choices):
            raise ValueError(
                "depth: kind 'list' needs choices of at least 1, and other kinds have none, "
                f"got {short(self.choices)} for {self.kind!r}"
            )
        if self.kind != "list" and not 1 <= self.mean <= LARGEST_MEAN:
            raise ValueError(f"depth: mean must lie in 1..{LARGEST_MEAN}, got {self.mean}")
        if self.kind == "fixed" and self.mean != int(self.mean):
            raise ValueError(f"depth: 'fixed' needs a whole number of iterations, got {self.mean}")
        if (self.kind == "lognormal") != bool(self.sigma) or not 0 <= self.sigma <= 2:
            raise ValueError(
                f"depth: kind 'lognormal' needs a sigma in (0, 2], and other kinds have none, "
                f"got {self.sigma} for {self.kind!r}"
            )
        if self.most is not None and self.most < 1:
            raise ValueError(f"depth: most must be at least 1, or None for no bound, got {self.most}")

    @classmethod
    def parse(cls, word: str) -> Depth:
        """Read a distribution from a word such as "fixed:8", "list:4,8", "poisson:8,per=sequence"."""
        kind, _, rest = word.partition(":")
        items = [item.strip() for item in rest.split(",") if item.strip()]
        named = dict(item.split("=", 1) for item in items if "=" in item)
        plain = [item for item in items if "=" not in item]
        try:
            given: dict[str, typing.Any] = {
                name: {"sigma": float, "most": int, "per": str}[name](value) for name, value in named.items()
            }
            if kind == "list":
                given["choices"] = tuple(int(item) for item in plain)
            else:
                (given["mean"],) = map(float, plain)
        except (KeyError, ValueError):
            raise ValueError(
                f"depth: cannot read {short(word)}; write fixed:8, list:4,8,16, poisson:8 or "
                "lognormal:33,sigma=0.5, followed by ,per=sequence or ,most=64 if wanted"
            ) from None
        _check_words(kind, given.get("per", "batch"))
        return cls(kind=typing.cast(DepthKind, kind), **given)

    def __str__(self) -> str:
        values = self.choices if self.kind == "list" else (self.mean,)
        plain = {item.name: item.default for item in fields(self)}
        named = [
            f"{name}={getattr(self, name)}"
            for name in ("sigma", "per", "most")
            if getattr(self, name) != plain[name]
        ]
        return f"{self.kind}:{','.join([*(str(value).removesuffix('.0') for value in values), *named])}"

    @property
    def moments(self) -> tuple[float, float]:
        """Mean and variance of a draw, without the bound `most`."""
        if self.kind == "list":
            mean = sum(self.choices) / len(self.choices)
            return mean, sum((one - mean) ** 2 for one in self.choices) / len(self.choices)
        rate = self.mean - 1
        if self.kind == "fixed":
            return self.mean, 0.0
        return self.mean, rate + rate**2 * math.expm1(self.sigma**2)

    @property
    def least(self) -> int:
        """The smallest number of iterations that can be drawn."""
        if self.kind in ("list", "fixed"):
            least = min(self.choices or (int(self.mean),))
            return least if self.most is None else min(least, self.most)
        return 1

    @property
    def largest(self) -> float:
        """The largest number of iterations that can be drawn; infinite without a bound."""
        drawn = max(self.choices or (self.mean,)) if self.kind in ("list", "fixed") else math.inf
        return float(drawn if self.most is None else min(drawn, self.most))

    def draw(self, key: str, count: int = 1) -> tuple[int, ...]:
        """Return `count` independent draws; the key alone decides which, on every machine."""
        numbers = self._numbers(random.Random(key))
        most = math.inf if self.most is None else self.most
        return tuple(int(min(most, next(numbers))) for _ in range(count))

    def _numbers(self, source: random.Random) -> Iterator[int]:
        while True:
            if self.kind == "list":
                yield source.choice(self.choices)
            elif self.kind == "fixed":
                yield int(self.mean)
            else:
                rate = self.mean - 1
                if self.kind == "lognormal":
                    rate *= math.exp(self.sigma * source.gauss(0, 1) - self.sigma**2 / 2)
                yield 1 + _poisson(rate, source)


def _check_words(kind: str, per: str) -> None:
    read_value("depth: kind", DepthKind, kind)
    read_value("depth: per", Per, per)


def _poisson(rate: float, source: random.Random) -> int:
    """Draw from a Poisson distribution as a sum of small ones, each by inversion."""
    total, parts = 0, max(1, math.ceil(rate / LARGEST_MEAN))
    for _ in range(parts):
        wanted, term, count = source.random(), math.exp(-rate / parts), 0
        while wanted >= term and term > 0:
            wanted -= term
            count += 1
            term *= rate / parts / count
        total += count
    return total
