"""The base class of tasks of (x, y) pairs with scalar labels."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class PairTask:
    """A task of `points` pairs of a `dim`-vector and a label of variance `dim`, two rows each; abstract."""

    dim: int = 20
    points: int = 41
    noise: float = 0.0

    @property
    def out(self) -> int:
        """The number of coordinates of an answer."""
        return 1

    @property
    def context(self) -> int:
        """The number of rows of a prompt."""
        return self.parts * self.points

    @property
    def parts(self) -> int:
        """The number of rows of a sample: x and y."""
        return 2

    @property
    def scale(self) -> float:
        """The variance of a label without its errors."""
        return float(self.dim)
