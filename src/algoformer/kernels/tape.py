"""Activations that a body keeps for its backward pass, stacked over the tracked iterations."""

from __future__ import annotations

from algoformer.kernels.sizes import Sizes


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
    """The activations of all layers and of the body's last norm."""

    def __init__(self, sizes: Sizes, count: int) -> None:
        self.layers = [LayerTape(sizes, count, sizes.answered_in(index)) for index in range(sizes.depth)]
        self.final = sizes.norm(count, sizes.answered)
