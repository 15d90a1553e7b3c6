"""What a solver is given: rows shown one after another, and questions about what comes next."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from jaxtyping import Float
from torch import Tensor


@dataclass(frozen=True, kw_only=True)
class Prompt:
    """Rows in the order they are shown; the answer to question i is read at row `reads[i]`.

    Rows come in samples of `parts` rows each: (x, y) for regression, (x, s1, ..., sL) for a chain of
    thought, a single (x) for a series. An answer may depend on `rows[:, : reads[i] + 1]` and on nothing
    else of the prompt; `targets` are what it is measured against, and `clean` the same without noise.

    >>> prompt = Prompt.of_pairs(torch.ones(2, 5, 3), torch.zeros(2, 5, 1))
    >>> prompt.rows.shape, prompt.reads
    (torch.Size([2, 10, 3]), (0, 2, 4, 6, 8))
    """

    rows: Float[Tensor, "batch token dim"]
    targets: Float[Tensor, "batch point out"]
    reads: tuple[int, ...]
    parts: int = 1
    clean: Float[Tensor, "batch point out"] | None = None

    def __post_init__(self) -> None:
        length = self.rows.shape[1]
        if self.parts < 1:
            raise ValueError(f"a sample has at least one row, got parts={self.parts}")
        if len(self.reads) != self.targets.shape[1]:
            raise ValueError(f"{self.targets.shape[1]} targets need as many reads, got {len(self.reads)}")
        if list(self.reads) != sorted(set(self.reads)) or not self.reads:
            raise ValueError(f"reads must be a rising list of rows, got {self.reads}")
        if self.reads[0] < 0 or self.reads[-1] >= length:
            raise ValueError(f"reads must lie in 0..{length - 1}, got {self.reads[0]}..{self.reads[-1]}")
        if self.rows.shape[0] != self.targets.shape[0]:
            raise ValueError(
                f"rows hold {self.rows.shape[0]} prompts, targets {self.targets.shape[0]}: same batch needed"
            )
        if self.clean is not None and self.clean.shape != self.targets.shape:
            raise ValueError(
                f"clean has shape {tuple(self.clean.shape)}, targets {tuple(self.targets.shape)}: same needed"
            )

    @classmethod
    def of_pairs(
        cls,
        xs: Float[Tensor, "batch point dim"],
        ys: Float[Tensor, "batch point out"],
        clean: Float[Tensor, "batch point out"] | None = None,
    ) -> Prompt:
        """Interleave x_1, y_1, x_2, y_2, ...; a label row is y followed by zeros. Ask for every y."""
        batch, points, dim = xs.shape
        if ys.shape[-1] > dim:
            raise ValueError(f"a label of {ys.shape[-1]} numbers does not fit into rows of dim={dim}")
        labels = torch.nn.functional.pad(ys, (0, dim - ys.shape[-1]))
        rows = torch.stack([xs, labels], dim=2).reshape(batch, 2 * points, dim)
        return cls(rows=rows, targets=ys, clean=clean, reads=tuple(range(0, 2 * points, 2)), parts=2)

    @property
    def batch(self) -> int:
        """How many prompts there are."""
        return self.rows.shape[0]

    @property
    def points(self) -> int:
        """How many questions each prompt asks."""
        return len(self.reads)

    @property
    def dim(self) -> int:
        """Numbers in a row."""
        return self.rows.shape[2]

    @property
    def out(self) -> int:
        """Numbers in an answer."""
        return self.targets.shape[2]

    @property
    def samples(self) -> int:
        """How many samples are shown, the last one perhaps in part."""
        return -(-self.rows.shape[1] // self.parts)

    def part(self, index: int) -> Float[Tensor, "batch sample dim"]:
        """Row `index` of every sample; zeros where the last sample is cut off before it."""
        if not 0 <= index < self.parts:
            raise ValueError(f"part must lie in 0..{self.parts - 1}, got {index}")
        missing = self.samples * self.parts - self.rows.shape[1]
        rows = torch.nn.functional.pad(self.rows, (0, 0, 0, missing))
        return rows[:, index :: self.parts]

    def prefix(self, point: int = -1) -> Prompt:
        """Question `point` alone, with every row after it taken away: what an encoder may be shown."""
        if not -self.points <= point < self.points:
            raise ValueError(f"point must lie in 0..{self.points - 1} (or count from the end), got {point}")
        point %= self.points
        return replace(
            self,
            rows=self.rows[:, : self.reads[point] + 1],
            targets=self.targets[:, point : point + 1],
            clean=None if self.clean is None else self.clean[:, point : point + 1],
            reads=(self.reads[point],),
        )

    def select(self, index: slice | Tensor) -> Prompt:
        """Some of the prompts, by position in the batch."""
        clean = None if self.clean is None else self.clean[index]
        return replace(self, rows=self.rows[index], targets=self.targets[index], clean=clean)

    def to(self, target: torch.device | torch.dtype | str) -> Prompt:
        """The same prompts on another device or in another precision."""
        clean = None if self.clean is None else self.clean.to(target)
        return replace(self, rows=self.rows.to(target), targets=self.targets.to(target), clean=clean)
