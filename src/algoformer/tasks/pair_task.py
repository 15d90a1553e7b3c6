"""What all tasks of (x, y) pairs with one number for a label have in common."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class PairTask:
    """Abstract: `points` pairs of `dim` numbers and a label with variance `dim`, shown as two rows each."""

    dim: int = 20
    points: int = 41
    noise: float = 0.0

    @property
    def out(self) -> int:
        """Numbers in an answer."""
        return 1

    @property
    def context(self) -> int:
        """Rows in a prompt."""
        return self.parts * self.points

    @property
    def parts(self) -> int:
        """Rows in a sample: x and y."""
        return 2

    @property
    def scale(self) -> float:
        """The variance of a label without its errors."""
        return float(self.dim)
