"""A batch of in-context prompts: input rows, and the positions at which predictions are read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from algoformer.common.terminal import short


@dataclass(frozen=True, kw_only=True)
class Prompt:
    """A batch of prompts: rows in order, and questions whose answers are read at rows `reads`.

    A sample consists of `parts` rows: (x, y) for regression, (x, s1, ..., sL) for a chain of thought, a
    single (x) for a series. The answer to question i is read at row `reads[i]` and may depend only on
    `rows[:, : reads[i] + 1]`. `targets` are the true answers, and `clean` the same without noise.

    With `classes=True` an answer is one of `out` classes: targets are one-hot vectors, and predictions are
    logits. With `answers_in_rows=False` no row shows an answer, so that full attention may read all rows at
    every question; the limit to `rows[:, : reads[i] + 1]` then does not apply. `stages` holds the answers
    after each stage of a computation that has several; the last stage is `targets`. Errors are squared,
    summed over the numbers of an answer and divided by `scale`; None means `dim`.

    >>> prompt = Prompt.of_pairs(torch.ones(2, 5, 3), torch.zeros(2, 5, 1))
    >>> prompt.rows.shape, prompt.reads
    (torch.Size([2, 10, 3]), (0, 2, 4, 6, 8))
    """

    rows: Float[Tensor, "batch token dim"]
    targets: Float[Tensor, "batch point out"]
    reads: tuple[int, ...]
    parts: int = 1
    clean: Float[Tensor, "batch point out"] | None = None
    classes: bool = False
    answers_in_rows: bool = True
    stages: Float[Tensor, "stage batch point out"] | None = None
    scale: float | None = None

    def __post_init__(self) -> None:
        length = self.rows.shape[1]
        if self.parts < 1:
            raise ValueError(f"a sample has at least one row, got parts={self.parts}")
        if len(self.reads) != self.targets.shape[1]:
            raise ValueError(f"{self.targets.shape[1]} targets need as many reads, got {len(self.reads)}")
        if list(self.reads) != sorted(set(self.reads)) or not self.reads:
            raise ValueError(f"reads must be a rising list of rows, got {short(self.reads)}")
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
        if self.scale is not None and not self.scale > 0:
            raise ValueError(f"scale must be positive, got {self.scale}")
        if self.stages is not None and self.stages.shape[1:] != self.targets.shape:
            raise ValueError(
                f"stages have shape {tuple(self.stages.shape)}, targets {tuple(self.targets.shape)}: stages "
                "need a leading axis, and then the shape of the targets"
            )

    def __repr__(self) -> str:
        dtype = str(self.rows.dtype).removeprefix("torch.")
        return (
            f"Prompt({self.batch} prompts of {self.rows.shape[1]} rows × {self.dim}, {self.points} questions "
            f"with answers of {self.out}, parts={self.parts}, {dtype} on {self.rows.device})"
        )

    @classmethod
    def of_pairs(
        cls,
        xs: Float[Tensor, "batch point dim"],
        ys: Float[Tensor, "batch point out"],
        clean: Float[Tensor, "batch point out"] | None = None,
    ) -> Prompt:
        """Build prompts x_1, y_1, x_2, y_2, ... that ask for every y; a label row is y followed by zeros."""
        batch, points, dim = xs.shape
        if ys.shape[-1] > dim:
            raise ValueError(f"a label of {ys.shape[-1]} numbers does not fit into rows of dim={dim}")
        labels = torch.nn.functional.pad(ys, (0, dim - ys.shape[-1]))
        rows = torch.stack([xs, labels], dim=2).reshape(batch, 2 * points, dim)
        return cls(rows=rows, targets=ys, clean=clean, reads=tuple(range(0, 2 * points, 2)), parts=2)

    @property
    def batch(self) -> int:
        """The number of prompts."""
        return self.rows.shape[0]

    @property
    def points(self) -> int:
        """The number of questions of each prompt."""
        return len(self.reads)

    @property
    def dim(self) -> int:
        """The number of coordinates of a row."""
        return self.rows.shape[2]

    @property
    def out(self) -> int:
        """The number of coordinates of an answer."""
        return self.targets.shape[2]

    @property
    def divisor(self) -> float:
        """The number by which squared errors are divided: `scale`, or `dim` without one."""
        return float(self.dim if self.scale is None else self.scale)

    @property
    def samples(self) -> int:
        """The number of samples, including a last one that may be cut off."""
        return -(-self.rows.shape[1] // self.parts)

    def part(self, index: int) -> Float[Tensor, "batch sample dim"]:
        """Return row `index` of every sample, with zeros where the last sample is cut off before it."""
        if not 0 <= index < self.parts:
            raise ValueError(f"part must lie in 0..{self.parts - 1}, got {index}")
        missing = self.samples * self.parts - self.rows.shape[1]
        rows = torch.nn.functional.pad(self.rows, (0, 0, 0, missing))
        return rows[:, index :: self.parts]

    def prefix(self, point: int = -1) -> Prompt:
        """Return the prompts that ask question `point` alone, without the rows after it."""
        if not -self.points <= point < self.points:
            raise ValueError(f"point must lie in 0..{self.points - 1} (or count from the end), got {point}")
        point %= self.points
        return self._with(
            lambda answers: answers[..., point : point + 1, :],
            rows=self.rows[:, : self.reads[point] + 1],
            reads=(self.reads[point],),
        )

    def for_attention(self, *, causal: bool) -> Prompt:
        """Return the questions that a model may be asked: the last one only, if it would see other answers.

        Full attention sees the answers of all questions but the last, where rows show them.
        """
        return self if causal or not self.answers_in_rows else self.prefix()

    def select(self, index: slice | Tensor) -> Prompt:
        """Return some of the prompts, by index in the batch."""
        return self._with(lambda answers: answers[..., index, :, :], rows=self.rows[index])

    def to(self, target: torch.device | torch.dtype | str) -> Prompt:
        """Return the prompts on another device or in another dtype."""
        return self._with(lambda answers: answers.to(target), rows=self.rows.to(target))

    def _with(self, change: Callable[[Tensor], Tensor], **others: Any) -> Prompt:
        """Change what holds answers: the targets, and `clean` and `stages` where they are given."""
        for name in ("targets", "clean", "stages"):
            answers = getattr(self, name)
            others[name] = None if answers is None else change(answers)
        return replace(self, **others)
