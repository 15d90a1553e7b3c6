"""Errors along an axis, with bootstrap confidence bands of means over prompts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from jaxtyping import Float

from algoformer.common.plain_data import Stored, read_value
from algoformer.common.terminal import short

Axis = Literal["samples", "iterations"]
"""The axis of a curve: the number of in-context samples, or of iterations."""


_NUMBERS_AT_ONCE = 1 << 22
"""Numbers in the largest array that is held while resampling: 32 MiB."""


@dataclass(frozen=True, kw_only=True)
class Curve(Stored):
    """The mean error of one solver at each x, and the band from `low` to `high` around it.

    Errors that are not finite are kept as they are.

    >>> error, low, high = (1.0, 0.5), (0.9, 0.4), (1.1, 0.6)
    >>> curve = Curve(label="a", axis="samples", x=(0.0, 1.0), error=error, low=low, high=high)
    >>> curve.at(1), curve.final
    (0.5, 0.5)
    >>> Curve.from_json(curve.to_json()) == curve
    True
    """

    label: str
    axis: Axis
    x: tuple[float, ...]
    error: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]

    def __post_init__(self) -> None:
        read_value("axis", Axis, self.axis)
        for name in ("x", "error", "low", "high"):
            object.__setattr__(self, name, tuple(float(value) for value in getattr(self, name)))
            if len(getattr(self, name)) != len(self.x):
                raise ValueError(f"{len(self.x)} x need as many {name}, got {len(getattr(self, name))}")
        if not self.x:
            raise ValueError(f"a curve has at least one point, got none for {short(self.label)}")
        if not all(before < after for before, after in zip(self.x, self.x[1:], strict=False)):
            raise ValueError(f"x must rise along a curve, got {short(self.x)}")
        if not all(math.isfinite(value) for value in self.x):
            raise ValueError(f"x must be finite, got {short(self.x)}")

    def __repr__(self) -> str:
        where = f"{len(self.x)} points along {self.axis} {self.x[0]:g}..{self.x[-1]:g}"
        return f"Curve({short(self.label)}, {where}, final error {self.final:.3g})"

    @property
    def final(self) -> float:
        """The error at the last x."""
        return self.error[-1]

    @property
    def broken(self) -> int:
        """The number of points at which the error is not finite."""
        return sum(not math.isfinite(value) for value in self.error)

    def at(self, x: int | float) -> float:
        """Return the error at exactly this x.

        Raises:
            ValueError: nothing was measured there.
        """
        if x not in self.x:
            raise ValueError(
                f"{short(self.label)} was not measured at {self.axis} = {x:g}; "
                f"it has {len(self.x)} points in {self.x[0]:g}..{self.x[-1]:g}"
            )
        return self.error[self.x.index(x)]


@dataclass(frozen=True, kw_only=True)
class Band:
    """A mean over prompts and the interval that holds 90 % of its bootstrap resamples."""

    mean: Float[np.ndarray, "*columns"]
    low: Float[np.ndarray, "*columns"]
    high: Float[np.ndarray, "*columns"]


def bootstrap(
    values: Float[np.ndarray, " prompt *columns"], *, seed: int = 0, resamples: int = 1000, share: float = 0.9
) -> Band:
    """Return the mean over the first axis, with the central `share` of means over resampled prompts.

    Whole prompts are drawn with replacement, the same for all columns, so that curves measured on the
    same prompts move together. The seed alone decides which. A column that holds a NaN or an infinity has
    that as its mean and at both ends of its band: a broken prompt is reported, not averaged away.

    Args:
        values: one row for each prompt.
        seed: of the resamples.
        resamples: how many.
        share: of the resamples that the band holds; 0.9 is 5–95 %.

    >>> band = bootstrap(np.arange(100.0))
    >>> float(band.mean), bool(band.low < 49.5 < band.high)
    (49.5, True)
    """
    if not len(values):
        raise ValueError("a mean needs at least one prompt, got none")
    if resamples < 1:
        raise ValueError(f"resamples must be at least 1, got {resamples}")
    if not 0 < share < 1:
        raise ValueError(f"share must lie between 0 and 1, got {share}")
    shape = values.shape[1:]
    flat = values.reshape(len(values), -1).astype(np.float64)
    with np.errstate(over="ignore", invalid="ignore"):
        mean = flat.mean(axis=0)
    low, high = mean.copy(), mean.copy()
    sound = np.flatnonzero(np.isfinite(mean))
    ends = (1 - share) / 2, (1 + share) / 2
    width = max(1, _NUMBERS_AT_ONCE // max(resamples, len(values)))
    for start in range(0, len(sound), width):
        chosen = sound[start : start + width]
        means = resampled_means(flat[:, chosen], seed=seed, resamples=resamples)
        with np.errstate(over="ignore", invalid="ignore"):
            low[chosen], high[chosen] = np.quantile(means, ends, axis=0)
    return Band(mean=mean.reshape(shape), low=low.reshape(shape), high=high.reshape(shape))


def resampled_means(
    values: Float[np.ndarray, "prompt column"], *, seed: int = 0, resamples: int = 1000
) -> Float[np.ndarray, "resample column"]:
    """Return the means over prompts drawn with replacement, the same prompts for all columns."""
    # a resample is how often it drew each prompt, so that all its means are one matrix product
    count = len(values)
    generator = np.random.default_rng(seed)
    rows = max(1, _NUMBERS_AT_ONCE // count)
    means = []
    for start in range(0, resamples, rows):
        draws = generator.integers(count, size=(min(rows, resamples - start), count))
        draws += count * np.arange(len(draws))[:, None]
        times = np.bincount(draws.ravel(), minlength=draws.size).reshape(draws.shape)
        with np.errstate(over="ignore", invalid="ignore"):
            means.append(times.astype(np.float64) @ values / count)
    return np.concatenate(means)


def curve_of(
    errors: Float[np.ndarray, "prompt x"],
    *,
    label: str,
    axis: Axis,
    x: Sequence[int],
    seed: int = 0,
    resamples: int = 1000,
) -> Curve:
    """Return the mean of errors over prompts at each x, with its 5–95 % band."""
    band = bootstrap(errors, seed=seed, resamples=resamples)
    error, low, high = (tuple(values.tolist()) for values in (band.mean, band.low, band.high))
    return Curve(label=label, axis=axis, x=tuple(map(float, x)), error=error, low=low, high=high)
