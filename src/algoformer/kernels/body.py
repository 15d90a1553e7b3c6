"""A body of layers, repeated, with a backward pass by hand: weights get their gradient once per step.

Automatic differentiation forms every weight's gradient at each iteration and adds them up: for a small loop
that is half of all launches, each too small to fill a GPU. Here the backward pass keeps what reaches each
product in a stack over iterations, and one large product over the stack gives the weight's gradient.

The affine part of a layer's norms is folded into the product that follows (W · diag(γ), b + Wβ), once per
step, and unfolded from that product's gradient: iterations never see it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import torch
from torch import Tensor

from algoformer.kernels.operations import FinalNorm, FinalNormBackward, Heads, Norm, Selection

PARAMETERS = (
    "attention_norm.weight",
    "attention_norm.bias",
    "attention.qkv.weight",
    "attention.qkv.bias",
    "attention.output.weight",
    "attention.output.bias",
    "feedforward_norm.weight",
    "feedforward_norm.bias",
    "feedforward.up.weight",
    "feedforward.up.bias",
    "feedforward.down.weight",
    "feedforward.down.bias",
)
"""The parameters of one layer, in the order in which `iterate` takes them."""


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


def iterate(
    plan: Plan, entry: Tensor, final: tuple[Tensor, Tensor], layers: Sequence[Sequence[Tensor]]
) -> Tensor:
    """The states of a loop whose input is added at every iteration, for the iterations in the window.

    A module of layers that runs once is such a loop, with one iteration and no state before it.

    Args:
        plan: how to run.
        entry: (batch, token, width), the input with positions added.
        final: weight and bias of the body's last norm.
        layers: for every layer its `PARAMETERS`.

    Returns:
        (window, batch, asked, width) in single precision.
    """
    flat = [parameter for layer in layers for parameter in layer]
    states: Tensor = _Iterate.apply(plan, entry, *final, *flat)
    return states


class _Iterate(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, plan: Plan, entry: Tensor, *parameters: Tensor) -> Tensor:
        body = _Body(plan, entry, parameters)
        states = body.forward()
        ctx.body = body
        return states

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        body, ctx.body = ctx.body, None  # its stacks are large: free them as soon as they are used
        return (None, *body.backward(grads[0].contiguous()))


class _LayerTape:
    """What one layer keeps for the backward pass: stacks over the tracked iterations."""

    def __init__(self, body: _Body, count: int, answered: int) -> None:
        plan, width, hidden = body.plan, body.width, body.hidden
        inner = plan.heads.count * plan.heads.width

        def half(*shape: int) -> Tensor:
            return torch.empty(count, *shape, dtype=plan.dtype, device=body.device)

        def single(*shape: int) -> Tensor:
            return torch.empty(count, *shape, device=body.device)

        self.hat, self.rstd = half(body.rows, width), single(body.rows)
        self.qkv = half(body.rows, 3 * inner)
        self.read = half(answered, inner)
        self.log_sum = single(body.batch, plan.heads.count, answered // body.batch)
        self.hat2, self.rstd2 = half(answered, width), single(answered)
        self.before, self.after = half(answered, hidden), half(answered, hidden)

    def norm(self, slot: int) -> Norm:
        return Norm(hat=self.hat[slot], rstd=self.rstd[slot])

    def norm2(self, slot: int) -> Norm:
        return Norm(hat=self.hat2[slot], rstd=self.rstd2[slot])


class _Tape:
    """The stacks of all layers and of the body's last norm."""

    def __init__(self, body: _Body, count: int) -> None:
        self.layers = [_LayerTape(body, count, body.answered_in(index)) for index in range(body.depth)]
        self.final_hat = torch.empty(
            count, body.answered, body.width, dtype=body.plan.dtype, device=body.device
        )
        self.final_rstd = torch.empty(count, body.answered, device=body.device)

    def final(self, slot: int) -> Norm:
        return Norm(hat=self.final_hat[slot], rstd=self.final_rstd[slot])


class _Weights:
    """All layers' weights as their products use them: norms folded in, rounded once, stacked."""

    def __init__(self, parameters: tuple[Tensor, ...], dtype: torch.dtype) -> None:
        size = len(PARAMETERS)
        columns = [_stack(parameters[number::size]) for number in range(size)]
        self.gain, self.shift, self.raw_qkv, qkv_bias, output, output_bias = columns[:6]
        self.gain2, self.shift2, self.raw_up, up_bias, down, down_bias = columns[6:]
        self.count = len(self.gain)
        self.qkv, self.qkv_bias = _fold(self.raw_qkv, qkv_bias, self.gain, self.shift, dtype)
        self.up, self.up_bias = _fold(self.raw_up, up_bias, self.gain2, self.shift2, dtype)
        self.output, self.output_bias = output.to(dtype), output_bias.to(dtype)
        self.down, self.down_bias = down.to(dtype), down_bias.to(dtype)


def _stack(tensors: tuple[Tensor, ...]) -> Tensor:
    return tensors[0][None] if len(tensors) == 1 else torch.stack(tensors)


def _fold(
    raw: Tensor, bias: Tensor, gain: Tensor, shift: Tensor, dtype: torch.dtype
) -> tuple[Tensor, Tensor]:
    """A product that begins with a norm's affine part as one product, in every layer."""
    weight = torch.mul(raw, gain[:, None], out=torch.empty_like(raw, dtype=dtype))
    return weight, torch.baddbmm(bias[..., None], raw, shift[..., None])[..., 0].to(dtype)


def _unfold(
    grad: Tensor, bias_grad: Tensor, raw: Tensor, gain: Tensor, shift: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """From the gradient of a folded product to those of the norm's weight and bias and of the raw weight."""
    return (
        (grad * raw).sum(1),
        torch.bmm(bias_grad[:, None], raw)[:, 0],
        torch.addcmul(grad * gain[:, None], bias_grad[..., None], shift[:, None]),
    )


class _Sums:
    """Partial column sums of several gradients side by side, so that one reduction finishes them all."""

    def __init__(self, count: int, blocks: int, widths: list[int], device: torch.device) -> None:
        self.widths = widths
        self.table = torch.empty(count, blocks, sum(widths), device=device)

    def of(self, slot: int, number: int) -> Tensor:
        """Where the partial sums of one gradient at one iteration go: (block, width)."""
        start = sum(self.widths[:number])
        return self.table[slot, :, start : start + self.widths[number]]

    def totals(self) -> tuple[Tensor, ...]:
        """The finished sums of each gradient, over blocks and iterations."""
        return self.table.sum((0, 1)).split(self.widths)


def _product(rows: Tensor, weight: Tensor, bias: Tensor, *, out: Tensor | None = None) -> Tensor:
    return torch.addmm(bias, rows, weight.t(), out=out)


class _Body:
    """One call: the tape of its forward pass, from which the backward pass is made."""

    def __init__(self, plan: Plan, entry: Tensor, parameters: tuple[Tensor, ...]) -> None:
        self.plan, self.device = plan, entry.device
        self.batch, self.tokens, self.width = entry.shape
        self.rows = self.batch * self.tokens
        self.answered = self.batch * len(plan.asked)
        self.entry = entry.float().reshape(self.rows, self.width)
        self.final_weight, self.final_bias = parameters[:2]
        self.weights = _Weights(parameters[2:], plan.dtype)
        self.depth = self.weights.count
        self.hidden = self.weights.up.shape[1]
        self.every = torch.arange(self.tokens, device=self.device)
        few = self.answered != self.rows
        self.selection = Selection.of(plan.asked, self.tokens) if few else None

    def answered_in(self, index: int) -> int:
        """How many rows a layer's feed-forward network sees: in the last layer only those that are asked."""
        return self.answered if index == self.depth - 1 else self.rows

    def selection_in(self, index: int) -> Selection | None:
        """Which rows a layer's queries are, if not all."""
        return self.selection if index == self.depth - 1 else None

    # forward ---------------------------------------------------------------------------------------------

    def forward(self) -> Tensor:
        plan, operations, weights = self.plan, self.plan.operations, self.weights
        untracked = plan.steps - plan.tracked
        scratch = _Tape(self, 1) if untracked else None
        self.tape = tape = _Tape(self, plan.tracked)
        states = torch.empty(plan.window, self.answered, self.width, device=self.device)
        stream = torch.empty_like(self.entry)

        def place(iteration: int) -> tuple[_Tape, int]:
            if iteration <= untracked:
                assert scratch is not None
                return scratch, 0
            return tape, iteration - untracked - 1

        first, slot = place(1)
        operations.add_norm(None, self.entry, following=first.layers[0].norm(slot))
        current = self.entry
        for iteration in range(1, plan.steps + 1):
            here, slot = place(iteration)
            number = iteration - 1 - (plan.steps - plan.window)
            state = states[number] if number >= 0 else None
            more = iteration < plan.steps
            for index, kept in enumerate(here.layers):
                last = index == self.depth - 1
                current = self._attention(index, kept, slot, current)
                _product(kept.hat2[slot], weights.up[index], weights.up_bias[index], out=kept.before[slot])
                operations.gelu(kept.before[slot], after=kept.after[slot])
                final, following = None, None
                if last:
                    final = FinalNorm(
                        norm=here.final(slot),
                        weight=self.final_weight,
                        bias=self.final_bias,
                        state=state,
                        entry=self.entry if more else None,
                    )
                    if more:
                        after, next_slot = place(iteration + 1)
                        following = after.layers[0].norm(next_slot)
                else:
                    following = here.layers[index + 1].norm(slot)
                onward = stream if following is not None else None
                branch = _product(kept.after[slot], weights.down[index], weights.down_bias[index])
                operations.add_norm(branch, current, final=final, stream=onward, following=following)
                current = stream
        return states.view(plan.window, self.batch, -1, self.width)

    def _attention(self, index: int, kept: _LayerTape, slot: int, stream: Tensor) -> Tensor:
        """The attention half of a layer; the stream after it, on the asked rows if it is the last layer."""
        plan, operations, weights = self.plan, self.plan.operations, self.weights
        _product(kept.hat[slot], weights.qkv[index], weights.qkv_bias[index], out=kept.qkv[slot])
        selection = self.selection_in(index)
        by_prompt = (self.batch, -1)
        operations.attend(
            kept.qkv[slot].unflatten(0, by_prompt),
            self.every if selection is None else selection.asked,
            plan.heads,
            out=kept.read[slot].unflatten(0, by_prompt),
            log_sum=kept.log_sum[slot],
        )
        result = torch.empty(self.answered_in(index), self.width, device=self.device)
        branch = _product(kept.read[slot], weights.output[index], weights.output_bias[index])
        operations.add_norm(branch, stream, selection=selection, stream=result, following=kept.norm2(slot))
        return result

    # backward --------------------------------------------------------------------------------------------

    def backward(self, grads: Tensor) -> list[Tensor]:
        plan, operations, weights = self.plan, self.plan.operations, self.weights
        grads = grads.flatten(1, 2)
        made = _Gradients(self)
        entry_grad = torch.empty_like(self.entry)

        def through_final(slot: int) -> FinalNormBackward:
            number = slot - (plan.tracked - plan.window)
            return FinalNormBackward(
                norm=self.tape.final(slot),
                weight=self.final_weight,
                state_grad=grads[number] if number >= 0 else None,
                sums=made.final_sums(slot),
            )

        current = torch.empty(self.answered, self.width, device=self.device)
        top, last = plan.tracked - 1, self.depth - 1
        operations.add_norm_backward(
            None,
            None,
            None,
            final=through_final(top),
            out=current,
            out_half=made.layers[last].down[top],
            sums=made.row_sums(last, "down", top),
        )
        for slot in range(top, -1, -1):
            for index in range(last, -1, -1):
                current = self._attention_backward(index, made, slot, current)
                # what is below: the layer before, or the last layer of the iteration before
                below, below_slot = (index - 1, slot) if index else (last, slot - 1)
                ends = below_slot < 0
                result = None if ends else torch.empty(self.rows, self.width, device=self.device)
                operations.add_norm_backward(
                    made.layers[index].qkv[slot] @ weights.qkv[index],
                    self.tape.layers[index].norm(slot),
                    current,
                    selection=self.selection_in(index),
                    entry_grad=None if index else entry_grad,
                    collected=slot < top,
                    final=None if index or ends else through_final(below_slot),
                    out=result,
                    out_half=None if ends else made.layers[below].down[below_slot],
                    sums=None if ends else made.row_sums(below, "down", below_slot),
                )
                if result is not None:
                    current = result
        return [entry_grad.view(self.batch, self.tokens, self.width), *made.of_parameters()]

    def _attention_backward(self, index: int, made: _Gradients, slot: int, current: Tensor) -> Tensor:
        """Back through the feed-forward half and to queries, keys and values; the stream's gradient there."""
        plan, operations, weights = self.plan, self.plan.operations, self.weights
        kept, here = self.tape.layers[index], made.layers[index]
        operations.gelu_backward(
            here.down[slot] @ weights.down[index],
            kept.before[slot],
            out=here.up[slot],
            sums=made.gelu_sums(index, slot),
        )
        result = torch.empty_like(current)
        operations.add_norm_backward(
            here.up[slot] @ weights.up[index],
            kept.norm2(slot),
            current,
            out=result,
            out_half=here.output[slot],
            sums=made.row_sums(index, "output", slot),
        )
        selection = self.selection_in(index)
        by_prompt = (self.batch, -1)
        if selection is not None:
            here.qkv[slot][:, : kept.read.shape[-1]].zero_()  # queries that were not asked
        operations.attend_backward(
            (here.output[slot] @ weights.output[index]).unflatten(0, by_prompt),
            kept.qkv[slot].unflatten(0, by_prompt),
            self.every if selection is None else selection.asked,
            plan.heads,
            answer=kept.read[slot].unflatten(0, by_prompt),
            log_sum=kept.log_sum[slot],
            out=here.qkv[slot].unflatten(0, by_prompt),
            sums=made.attention_sums(index, slot),
        )
        return result


class _LayerGradients:
    """What reaches one layer's products: stacks over the tracked iterations."""

    def __init__(self, body: _Body, answered: int) -> None:
        def half(rows: int, width: int) -> Tensor:
            return torch.empty(body.plan.tracked, rows, width, dtype=body.plan.dtype, device=body.device)

        self.qkv = half(body.rows, body.weights.qkv.shape[1])
        self.output = half(answered, body.width)
        self.up = half(answered, body.hidden)
        self.down = half(answered, body.width)


class _Gradients:
    """What reaches all products, and its column sums: everything that weights' gradients are made of.

    The last layer may see fewer rows than the others, and its sums come in fewer blocks: it has tables of
    its own.
    """

    def __init__(self, body: _Body) -> None:
        self.body, plan, operations = body, body.plan, body.plan.operations
        self.last = body.depth - 1
        self.layers = [_LayerGradients(body, body.answered_in(index)) for index in range(body.depth)]

        def tables(blocks_of: Callable[[int], int], width: int, more: list[int]) -> tuple[_Sums, _Sums]:
            both = []
            for layers, answered, rest in ((self.last, body.rows, []), (1, body.answered, more)):
                widths = [width] * layers + rest
                both.append(_Sums(plan.tracked, blocks_of(answered), widths, body.device))
            return both[0], both[1]

        def by_prompt(answered: int) -> int:
            return body.batch * operations.attention_blocks(answered // body.batch, body.tokens)

        self.rows = tables(operations.blocks_of, 2 * body.width, [2 * body.width])
        self.hidden = tables(operations.gelu_blocks_of, body.hidden, [])
        self.qkv = tables(by_prompt, body.weights.qkv.shape[1], [])

    def _of(self, tables: tuple[_Sums, _Sums], index: int, slot: int) -> Tensor:
        return tables[1].of(slot, 0) if index == self.last else tables[0].of(slot, index)

    def row_sums(self, index: int, kind: str, slot: int) -> Tensor:
        """Where the column sums of what reaches a layer's output ("output" or "down") go."""
        half = self.body.width
        both = self._of(self.rows, index, slot)
        return both[:, :half] if kind == "output" else both[:, half:]

    def final_sums(self, slot: int) -> Tensor:
        """Where the gradients of the last norm's weight and bias go."""
        return self.rows[1].of(slot, 1)

    def gelu_sums(self, index: int, slot: int) -> Tensor:
        """Where the column sums of what reaches the hidden layer go."""
        return self._of(self.hidden, index, slot)

    def attention_sums(self, index: int, slot: int) -> Tensor:
        """Where the column sums of what reaches queries, keys and values go."""
        return self._of(self.qkv, index, slot)

    def of_parameters(self) -> list[Tensor]:
        """The gradients of the last norm and of every layer's `PARAMETERS`."""
        weights, tape, width = self.body.weights, self.body.tape.layers, self.body.width

        def biases(tables: tuple[_Sums, _Sums]) -> Tensor:
            first = list(tables[0].totals()) if self.last else []
            return torch.stack([*first, tables[1].totals()[0]])

        def product(grads: str, rows: str) -> Tensor:
            multiply = self.body.plan.operations.weight_gradient
            pairs = zip(self.layers, tape, strict=True)
            return _stack(tuple(multiply(getattr(made, grads), getattr(kept, rows)) for made, kept in pairs))

        qkv_bias, up_bias, row_biases = biases(self.qkv), biases(self.hidden), biases(self.rows)
        columns = [
            *_unfold(product("qkv", "hat"), qkv_bias, weights.raw_qkv, weights.gain, weights.shift),
            qkv_bias,
            product("output", "read"),
            row_biases[:, :width],
            *_unfold(product("up", "hat2"), up_bias, weights.raw_up, weights.gain2, weights.shift2),
            up_bias,
            product("down", "after"),
            row_biases[:, width:],
        ]
        final = self.rows[1].totals()[1].split(width)
        return [*final, *(column[index] for index in range(self.body.depth) for column in columns)]
