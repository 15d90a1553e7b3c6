"""How large a body of layers is, and which rows it answers."""

from __future__ import annotations

from dataclasses import dataclass
from types import ModuleType

import torch
from torch import Tensor

from algoformer.kernels.operations import Heads, Selection


@dataclass(frozen=True, kw_only=True)
class Plan:
    """How a body is run.

    Attributes:
        heads: of every layer.
        steps: how many iterations.
        tracked: how many of the last ones the gradient goes through.
        window: how many of the last states are given back.
        asked: the rows of each prompt whose state is wanted; all of them while there is another iteration.
        dtype: of products and of what is kept for the backward pass.
        operations: the module whose operations are used: `operations` or `launch`.
    """

    heads: Heads
    steps: int
    tracked: int
    window: int
    asked: Tensor
    dtype: torch.dtype
    operations: ModuleType


class Sizes:
    """A plan on prompts of a shape: how many rows each layer sees.

    The last layer's queries, and all that follows them, are only the rows that are asked.
    """

    def __init__(self, plan: Plan, entry: Tensor, *, hidden: int, depth: int) -> None:
        self.plan, self.device = plan, entry.device
        self.batch, self.tokens, self.width = entry.shape
        self.hidden, self.depth = hidden, depth
        self.rows = self.batch * self.tokens
        self.answered = self.batch * len(plan.asked)
        few = self.answered != self.rows
        self.selection = Selection.of(plan.asked, self.tokens) if few else None

    @property
    def projected(self) -> int:
        """Queries, keys and values of one row."""
        return 3 * self.plan.heads.count * self.plan.heads.width

    def answered_in(self, index: int) -> int:
        """How many rows a layer's feed-forward network sees: in the last layer only those that are asked."""
        return self.answered if index == self.depth - 1 else self.rows

    def selection_in(self, index: int) -> Selection | None:
        """Which rows a layer's queries are, if not all."""
        return self.selection if index == self.depth - 1 else None

    def half(self, count: int, *shape: int) -> Tensor:
        """Room for `count` iterations, in the precision of products."""
        return torch.empty(count, *shape, dtype=self.plan.dtype, device=self.device)

    def single(self, count: int, *shape: int) -> Tensor:
        """Room for `count` iterations, in single precision."""
        return torch.empty(count, *shape, device=self.device)
