"""The gradients that reach a body's products, and the gradients of weights that follow from them."""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter

import torch
from torch import Tensor

from algoformer.kernels.sizes import Sizes, Tape
from algoformer.kernels.weights import Weights, stack, unfold


class Sums:
    """Partial column sums of several gradients side by side, so that one reduction finishes them all."""

    def __init__(self, count: int, blocks: int, widths: list[int], device: torch.device) -> None:
        self.widths = widths
        self.table = torch.empty(count, blocks, sum(widths), device=device)

    def of(self, slot: int, number: int) -> Tensor:
        """Return the buffer of one gradient's partial sums at one iteration: (block, width)."""
        start = sum(self.widths[:number])
        return self.table[slot, :, start : start + self.widths[number]]

    def totals(self) -> tuple[Tensor, ...]:
        """Return the sums of each gradient over blocks and iterations."""
        return self.table.sum((0, 1)).split(self.widths)


class LayerGradients:
    """The gradients that reach one layer's products, stacked over the tracked iterations."""

    def __init__(self, sizes: Sizes, answered: int) -> None:
        count = sizes.plan.tracked
        self.qkv = sizes.half(count, sizes.rows, sizes.projected)
        self.output = sizes.half(count, answered, sizes.width)
        self.up = sizes.half(count, answered, sizes.hidden)
        self.down = sizes.half(count, answered, sizes.width)


class Gradients:
    """The gradients that reach all products, and their column sums: the inputs of the weights' gradients.

    The last layer may see fewer rows than the others, and its sums come in fewer blocks: it has tables of
    its own.
    """

    def __init__(self, sizes: Sizes) -> None:
        self.sizes, plan, operations = sizes, sizes.plan, sizes.plan.operations
        self.last = sizes.depth - 1
        self.layers = [LayerGradients(sizes, sizes.answered_in(index)) for index in range(sizes.depth)]

        def tables(blocks_of: Callable[[int], int], width: int, in_last: int = 1) -> tuple[Sums, Sums]:
            before = Sums(plan.tracked, blocks_of(sizes.rows), [width] * self.last, sizes.device)
            return before, Sums(plan.tracked, blocks_of(sizes.answered), [width] * in_last, sizes.device)

        self.rows = tables(operations.blocks_of, 2 * sizes.width, in_last=2)
        self.hidden = tables(operations.gelu_blocks_of, sizes.hidden)
        self.qkv = tables(lambda _: sizes.batch, sizes.projected)

    def sums(self, tables: tuple[Sums, Sums], index: int, slot: int) -> Tensor:
        """Return the buffer for a layer's column sums in `hidden` or `qkv`."""
        return tables[1].of(slot, 0) if index == self.last else tables[0].of(slot, index)

    def row_sums(self, index: int, kind: str, slot: int) -> Tensor:
        """Return the buffer for the column sums of a layer's output gradient ("output" or "down")."""
        half = self.sizes.width
        both = self.sums(self.rows, index, slot)
        return both[:, :half] if kind == "output" else both[:, half:]

    def final_sums(self, slot: int) -> Tensor:
        """Return the buffer for the gradients of the last norm's weight and bias."""
        return self.rows[1].of(slot, 1)

    def of_parameters(self, weights: Weights, tape: Tape) -> list[Tensor]:
        """Return the gradients of the last norm and of every layer's `PARAMETERS`."""
        width = self.sizes.width

        def biases(tables: tuple[Sums, Sums]) -> Tensor:
            first = list(tables[0].totals()) if self.last else []
            return torch.stack([*first, tables[1].totals()[0]])

        def product(grads: str, rows: str) -> Tensor:
            multiply = self.sizes.plan.operations.weight_gradient
            pairs = zip(self.layers, tape.layers, strict=True)
            return stack(
                tuple(multiply(getattr(made, grads), attrgetter(rows)(kept)) for made, kept in pairs)
            )

        qkv_bias, up_bias, row_biases = biases(self.qkv), biases(self.hidden), biases(self.rows)
        columns = [
            *unfold(product("qkv", "norm.hat"), qkv_bias, weights.raw_qkv, weights.gain, weights.shift),
            qkv_bias,
            product("output", "read"),
            row_biases[:, :width],
            *unfold(product("up", "norm2.hat"), up_bias, weights.raw_up, weights.gain2, weights.shift2),
            up_bias,
            product("down", "after"),
            row_biases[:, width:],
        ]
        final = self.rows[1].totals()[1].split(width)
        return [*final, *(column[index] for index in range(self.sizes.depth) for column in columns)]
