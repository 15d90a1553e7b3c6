"""The sizes of a body of layers, the rows that it computes, and the activations that it keeps."""

from __future__ import annotations

from dataclasses import dataclass
from types import ModuleType

import torch
from torch import Tensor

from algoformer.kernels.operations import Heads, Norm, Selection


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The settings of a run of a body.

    Attributes:
        heads: the heads of every layer.
        steps: the number of iterations.
        tracked: the number of last iterations that the gradient goes through.
        window: the number of last states to return.
        read_rows: the rows of each prompt whose state is read; all of them if there is another iteration.
        dtype: the dtype of products and of all that is kept for the backward pass.
        operations: the module whose operations are used: `operations` or `launch`.
    """

    heads: Heads
    steps: int
    tracked: int
    window: int
    read_rows: Tensor
    dtype: torch.dtype
    operations: ModuleType


class Sizes:
    """The number of rows that each layer sees, for a plan and prompts of one shape.

    The last layer's queries, and all that follows them, are only the requested rows.
    """

    def __init__(self, plan: Plan, entry: Tensor, *, hidden: int, depth: int) -> None:
        self.plan, self.device = plan, entry.device
        self.batch, self.tokens, self.width = entry.shape
        self.hidden, self.depth = hidden, depth
        self.rows = self.batch * self.tokens
        self.answered = self.batch * len(plan.read_rows)
        few = self.answered != self.rows
        self.selection = Selection.of(plan.read_rows, self.tokens) if few else None

    @property
    def projected(self) -> int:
        """The numbers in the queries, keys and values of one row."""
        return 3 * self.plan.heads.count * self.plan.heads.width

    def answered_in(self, index: int) -> int:
        """Return the rows of a layer's feed-forward network: in the last layer only the requested ones."""
        return self.answered if index == self.depth - 1 else self.rows

    def selection_in(self, index: int) -> Selection | None:
        """Return the selection of a layer's queries; None means all rows."""
        return self.selection if index == self.depth - 1 else None

    def half(self, count: int, *shape: int) -> Tensor:
        """Return a buffer for `count` iterations, in the precision of products."""
        return torch.empty(count, *shape, dtype=self.plan.dtype, device=self.device)

    def single(self, count: int, *shape: int) -> Tensor:
        """Return a buffer for `count` iterations, in single precision."""
        return torch.empty(count, *shape, device=self.device)

    def norm(self, count: int, rows: int) -> Norm:
        """Return the buffers of a norm of this many rows for `count` iterations."""
        return Norm(hat=self.half(count, rows, self.width), rstd=self.single(count, rows))


class LayerTape:
    """The activations of one layer; `norm` is the norm before attention, `norm2` that after it."""

    def __init__(self, sizes: Sizes, count: int, answered: int) -> None:
        heads = sizes.plan.heads
        self.norm = sizes.norm(count, sizes.rows)
        self.qkv = sizes.half(count, sizes.rows, sizes.projected)
        self.read = sizes.half(count, answered, heads.count * heads.width)
        self.log_sum = sizes.single(count, sizes.batch, heads.count, answered // sizes.batch)
        self.norm2 = sizes.norm(count, answered)
        self.before = sizes.half(count, answered, sizes.hidden)
        self.after = sizes.half(count, answered, sizes.hidden)


class Tape:
    """The activations of all layers and of the body's last norm, stacked over the tracked iterations."""

    def __init__(self, sizes: Sizes, count: int) -> None:
        self.layers = [LayerTape(sizes, count, sizes.answered_in(index)) for index in range(sizes.depth)]
        self.final = sizes.norm(count, sizes.answered)
