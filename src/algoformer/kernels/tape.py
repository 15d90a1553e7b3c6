"""Activations that a body keeps for its backward pass, stacked over the tracked iterations."""

from __future__ import annotations

from algoformer.kernels.operations import Norm
from algoformer.kernels.sizes import Sizes


class LayerTape:
    """The activations of one layer."""

    def __init__(self, sizes: Sizes, count: int, answered: int) -> None:
        heads, width = sizes.plan.heads, sizes.width
        self.hat, self.rstd = sizes.half(count, sizes.rows, width), sizes.single(count, sizes.rows)
        self.qkv = sizes.half(count, sizes.rows, sizes.projected)
        self.read = sizes.half(count, answered, heads.count * heads.width)
        self.log_sum = sizes.single(count, sizes.batch, heads.count, answered // sizes.batch)
        self.hat2, self.rstd2 = sizes.half(count, answered, width), sizes.single(count, answered)
        self.before = sizes.half(count, answered, sizes.hidden)
        self.after = sizes.half(count, answered, sizes.hidden)

    def norm(self, slot: int) -> Norm:
        """Return the norm before attention, at one iteration."""
        return Norm(hat=self.hat[slot], rstd=self.rstd[slot])

    def norm2(self, slot: int) -> Norm:
        """Return the norm before the feed-forward network, at one iteration."""
        return Norm(hat=self.hat2[slot], rstd=self.rstd2[slot])


class Tape:
    """The activations of all layers and of the body's last norm."""

    def __init__(self, sizes: Sizes, count: int) -> None:
        self.layers = [LayerTape(sizes, count, sizes.answered_in(index)) for index in range(sizes.depth)]
        self.final_hat = sizes.half(count, sizes.answered, sizes.width)
        self.final_rstd = sizes.single(count, sizes.answered)

    def final(self, slot: int) -> Norm:
        """Return the body's last norm, at one iteration."""
        return Norm(hat=self.final_hat[slot], rstd=self.final_rstd[slot])
