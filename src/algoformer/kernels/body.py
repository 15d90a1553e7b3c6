"""A body of layers, repeated, with a backward pass by hand: weights get their gradient once per step.

Automatic differentiation forms every weight's gradient at each iteration and adds them up: for a small loop
that is half of all launches, each too small to fill a GPU. Here the backward pass keeps what reaches each
product in a stack over iterations, and one large product over the stack gives the weight's gradient.

The affine part of a layer's norms is folded into the product that follows (W · diag(γ), b + Wβ), once per
step, and unfolded from that product's gradient: iterations never see it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from algoformer.kernels.gradients import Gradients
from algoformer.kernels.operations import FinalNorm, FinalNormBackward
from algoformer.kernels.sizes import LayerTape, Plan, Sizes, Tape
from algoformer.kernels.weights import Weights


def iterate(
    plan: Plan,
    entry: Tensor,
    positions: Tensor | None,
    final: tuple[Tensor, Tensor],
    layers: Sequence[Sequence[Tensor]],
) -> Tensor:
    """The states of a loop whose input is added at every iteration, for the iterations in the window.

    A module of layers that runs once is such a loop, with one iteration and no state before it.

    Args:
        plan: how to run.
        entry: (batch, token, width), the input.
        positions: (token, width), added to every prompt's input; None adds nothing.
        final: weight and bias of the body's last norm.
        layers: for every layer its `PARAMETERS`.

    Returns:
        (window, batch, row, width) in single precision.
    """
    if plan.steps > 1 and len(plan.read_rows) < entry.shape[1]:
        raise ValueError(
            f"every iteration needs all {entry.shape[1]} rows, but only {len(plan.read_rows)} are read; "
            "ask for all, and choose among the states"
        )
    flat = [parameter for layer in layers for parameter in layer]
    return _Iterate.apply(plan, entry, positions, *final, *flat)


class _Iterate(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, plan: Plan, entry: Tensor, positions: Tensor | None, *parameters: Tensor) -> Tensor:
        body = _Body(plan, entry, positions, parameters)
        states = body.forward()
        ctx.body = body
        return states

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        body, ctx.body = ctx.body, None  # its stacks are large: free them as soon as they are used
        return (None, *body.backward(grads[0].contiguous()))


def _product(rows: Tensor, weight: Tensor, bias: Tensor, *, out: Tensor | None = None) -> Tensor:
    return torch.addmm(bias, rows, weight.t(), out=out)


class _Body:
    """One call: the tape of its forward pass, from which the backward pass is made."""

    def __init__(
        self, plan: Plan, entry: Tensor, positions: Tensor | None, parameters: tuple[Tensor, ...]
    ) -> None:
        self.plan, self.positions = plan, positions
        self.final_weight, self.final_bias = parameters[:2]
        self.weights = Weights(parameters[2:], plan.dtype)
        self.sizes = Sizes(plan, entry, hidden=self.weights.up.shape[1], depth=self.weights.count)
        self.entry = entry.float().reshape(self.sizes.rows, self.sizes.width)

    def forward(self) -> Tensor:
        plan, sizes, operations, weights = self.plan, self.sizes, self.plan.operations, self.weights
        untracked = plan.steps - plan.tracked
        scratch = Tape(sizes, 1) if untracked else None
        self.tape = tape = Tape(sizes, plan.tracked)
        states = sizes.single(plan.window, sizes.answered, sizes.width)
        stream = torch.empty_like(self.entry)
        # positions are added wherever the input is read; a loop reads it so often that it keeps the sum
        positions = self.positions
        keep = positions is not None and plan.steps > 1
        entry = torch.empty_like(self.entry) if keep else self.entry

        def place(iteration: int) -> tuple[Tape, int]:
            if iteration <= untracked:
                assert scratch is not None
                return scratch, 0
            return tape, iteration - untracked - 1

        first, slot = place(1)
        operations.add_norm(
            None,
            self.entry,
            positions=positions,
            stream=entry if keep else None,
            following=first.layers[0].norm.at(slot),
        )
        current, positions = entry, None if keep else positions
        for iteration in range(1, plan.steps + 1):
            here, slot = place(iteration)
            number = iteration - 1 - (plan.steps - plan.window)
            state = states[number] if number >= 0 else None
            more = iteration < plan.steps
            for index, kept in enumerate(here.layers):
                last = index == sizes.depth - 1
                current = self._attention(index, kept, slot, current, positions)
                positions = None
                _product(
                    kept.norm2.hat[slot], weights.up[index], weights.up_bias[index], out=kept.before[slot]
                )
                operations.gelu(kept.before[slot], after=kept.after[slot])
                final, following = None, None
                if last:
                    final = FinalNorm(
                        norm=here.final.at(slot),
                        weight=self.final_weight,
                        bias=self.final_bias,
                        state=state,
                        entry=entry if more else None,
                    )
                    if more:
                        after, next_slot = place(iteration + 1)
                        following = after.layers[0].norm.at(next_slot)
                else:
                    following = here.layers[index + 1].norm.at(slot)
                onward = stream if following is not None else None
                branch = _product(kept.after[slot], weights.down[index], weights.down_bias[index])
                operations.add_norm(branch, current, final=final, stream=onward, following=following)
                current = stream
        return states.view(plan.window, sizes.batch, -1, sizes.width)

    def _attention(
        self, index: int, kept: LayerTape, slot: int, stream: Tensor, positions: Tensor | None
    ) -> Tensor:
        """The attention half of a layer; the stream after it, at the selected rows in the last layer."""
        plan, sizes, operations, weights = self.plan, self.sizes, self.plan.operations, self.weights
        _product(kept.norm.hat[slot], weights.qkv[index], weights.qkv_bias[index], out=kept.qkv[slot])
        by_prompt = (sizes.batch, -1)
        operations.attend(
            kept.qkv[slot].unflatten(0, by_prompt),
            plan.heads,
            selection=sizes.selection_in(index),
            out=kept.read[slot].unflatten(0, by_prompt),
            log_sum=kept.log_sum[slot],
        )
        result = torch.empty(sizes.answered_in(index), sizes.width, device=sizes.device)
        branch = _product(kept.read[slot], weights.output[index], weights.output_bias[index])
        operations.add_norm(
            branch,
            stream,
            positions=positions,
            selection=sizes.selection_in(index),
            stream=result,
            following=kept.norm2.at(slot),
        )
        return result

    def backward(self, grads: Tensor) -> list[Tensor | None]:
        plan, sizes, operations, weights = self.plan, self.sizes, self.plan.operations, self.weights
        grads = grads.flatten(1, 2)
        made = Gradients(sizes)
        entry_grad = torch.empty_like(self.entry)

        def through_final(slot: int) -> FinalNormBackward:
            number = slot - (plan.tracked - plan.window)
            return FinalNormBackward(
                norm=self.tape.final.at(slot),
                weight=self.final_weight,
                state_grad=grads[number] if number >= 0 else None,
                sums=made.final_sums(slot),
            )

        current = torch.empty(sizes.answered, sizes.width, device=sizes.device)
        top, last = plan.tracked - 1, sizes.depth - 1
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
                result = None if ends else torch.empty(sizes.rows, sizes.width, device=sizes.device)
                operations.add_norm_backward(
                    made.layers[index].qkv[slot] @ weights.qkv[index],
                    self.tape.layers[index].norm.at(slot),
                    current,
                    selection=sizes.selection_in(index),
                    entry_grad=None if index else entry_grad,
                    collected=slot < top,
                    final=None if index or ends else through_final(below_slot),
                    out=result,
                    out_half=None if ends else made.layers[below].down[below_slot],
                    sums=None if ends else made.row_sums(below, "down", below_slot),
                )
                if result is not None:
                    current = result
        found = made.of_parameters(weights, self.tape)
        by_prompt = entry_grad.view(sizes.batch, sizes.tokens, sizes.width)
        return [by_prompt, None if self.positions is None else by_prompt.sum(0), *found]

    def _attention_backward(self, index: int, made: Gradients, slot: int, current: Tensor) -> Tensor:
        """Back through the feed-forward half and to queries, keys and values; the stream's gradient there."""
        plan, sizes, operations, weights = self.plan, self.sizes, self.plan.operations, self.weights
        kept, here = self.tape.layers[index], made.layers[index]
        operations.gelu_backward(
            here.down[slot] @ weights.down[index],
            kept.before[slot],
            out=here.up[slot],
            sums=made.sums(made.hidden, index, slot),
        )
        result = torch.empty_like(current)
        operations.add_norm_backward(
            here.up[slot] @ weights.up[index],
            kept.norm2.at(slot),
            current,
            out=result,
            out_half=here.output[slot],
            sums=made.row_sums(index, "output", slot),
        )
        by_prompt = (sizes.batch, -1)
        operations.attend_backward(
            (here.output[slot] @ weights.output[index]).unflatten(0, by_prompt),
            kept.qkv[slot].unflatten(0, by_prompt),
            plan.heads,
            selection=sizes.selection_in(index),
            answer=kept.read[slot].unflatten(0, by_prompt),
            log_sum=kept.log_sum[slot],
            out=here.qkv[slot].unflatten(0, by_prompt),
            sums=made.sums(made.qkv, index, slot),
        )
        return result
