"""The operations of a body of layers between two matrix products, forward and backward, in plain PyTorch.

They define what the Triton kernels compute, run wherever PyTorch does, and serve as the kernels' reference
in the tests. Every operation writes into tensors it is given: a loop keeps one stack for all of its
iterations, and the gradient of a weight is then one product over the whole stack.

Rows are tokens of all prompts, one below the other. A gradient's column sums (the gradient of a bias) come
in as many partial sums as there are blocks of rows; here that is one. Those of attention come by prompt.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

EPSILON = 1e-5
"""The number that every layer norm adds to the variance."""


@dataclass(frozen=True, kw_only=True)
class Norm:
    """The buffers of a norm without its affine part: normalized rows, and 1 / standard deviation."""

    hat: Tensor
    rstd: Tensor

    def at(self, slot: int) -> Norm:
        """Return the buffers of one iteration, from those of several."""
        return Norm(hat=self.hat[slot], rstd=self.rstd[slot])


@dataclass(frozen=True, kw_only=True)
class FinalNorm:
    """A body's last norm: its affine part, and the buffer of its result (the state of a loop)."""

    norm: Norm
    weight: Tensor
    bias: Tensor
    state: Tensor | None
    """The buffer of the result; None where it is not needed."""
    entry: Tensor | None
    """The loop's input, added to the result for the next iteration; None after the last one."""


@dataclass(frozen=True, kw_only=True)
class Selection:
    """The rows of each prompt that a body computes further, where that is not all of them."""

    rows: Tensor
    """The row numbers, in increasing order."""
    number: Tensor
    """The place of every row of a prompt among the selected ones, or -1."""

    @classmethod
    def of(cls, rows: Tensor, tokens: int) -> Selection:
        """Return the selection of these rows of prompts with `tokens` tokens."""
        number = torch.full((tokens,), -1, device=rows.device)
        number[rows] = torch.arange(len(rows), device=rows.device)
        return cls(rows=rows, number=number)

    def narrow(self, rows: Tensor) -> Tensor:
        """Return the selected rows of every prompt."""
        return rows.unflatten(0, (-1, len(self.number))).index_select(1, self.rows).flatten(0, 1)

    def widen(self, rows: Tensor) -> Tensor:
        """Return all rows of every prompt, zero where not selected."""
        selected = rows.unflatten(0, (-1, len(self.rows)))
        whole = selected.new_zeros(len(selected), len(self.number), rows.shape[-1])
        return whole.index_copy_(1, self.rows, selected).flatten(0, 1)


@dataclass(frozen=True, kw_only=True)
class FinalNormBackward:
    """The inputs of the gradient of a body's last norm, and the buffer of its parameters' gradients."""

    norm: Norm
    weight: Tensor
    state_grad: Tensor | None
    """The gradient that reaches the state from outside the loop; None where the loss does not read it."""
    sums: Tensor
    """(block, 2 · width): partial gradients of the norm's weight and bias."""


def blocks_of(rows: int) -> int:
    """Return the number of partial sums of a gradient over `rows` rows."""
    return 1


def gelu_blocks_of(rows: int) -> int:
    """Return the number of partial sums of the gradient of a feed-forward network's hidden layer."""
    return 1


def _normalize(stream: Tensor, out: Norm) -> Tensor:
    hat, _, rstd = torch.native_layer_norm(stream, stream.shape[-1:], None, None, EPSILON)
    out.hat.copy_(hat)
    out.rstd.copy_(rstd.flatten())
    return hat


def add_norm(
    branch: Tensor | None,
    residual: Tensor,
    *,
    positions: Tensor | None = None,
    selection: Selection | None = None,
    final: FinalNorm | None = None,
    stream: Tensor | None = None,
    following: Norm | None = None,
) -> None:
    """Add branch to residual, apply the body's last norm if this is its end, then the norm of the next layer.

    With positions, (token, width), each row of the residual gets the vector of its place. With a
    selection the residual has all rows, and everything else only the selected ones.
    """
    if positions is not None:
        residual = (residual.unflatten(0, (-1, len(positions))) + positions).flatten(0, 1)
    if selection is not None:
        residual = selection.narrow(residual)
    result = residual if branch is None else residual + branch.float()
    if final is not None:
        result = _normalize(result, final.norm) * final.weight + final.bias
        if final.state is not None:
            final.state.copy_(result)
        if final.entry is not None:
            result = result + final.entry
    if stream is not None:
        stream.copy_(result)
    if following is not None:
        _normalize(result, following)


def add_norm_backward(
    grads: Tensor | None,
    before: Norm | None,
    residual: Tensor | None,
    *,
    selection: Selection | None = None,
    entry_grad: Tensor | None = None,
    collected: bool = False,
    final: FinalNormBackward | None = None,
    out: Tensor | None = None,
    out_half: Tensor | None = None,
    sums: Tensor | None = None,
) -> None:
    """Backpropagate through the norm before a product, add the residual, then through the body's last norm.

    Without `grads` only the last norm is passed. With a selection the residual has the selected rows only.
    The gradient of the loop's input is added to `entry_grad`, or replaces it if nothing was `collected`.
    """
    total = residual
    if selection is not None:
        assert residual is not None
        total = selection.widen(residual)
    if grads is not None:
        assert before is not None
        inner = _norm_backward(grads.float(), before)
        total = inner if total is None else total + inner
    if entry_grad is not None:
        assert total is not None
        entry_grad.copy_(entry_grad + total if collected else total)
    if final is not None:
        if final.state_grad is not None:
            total = final.state_grad if total is None else total + final.state_grad
        assert total is not None
        hat = final.norm.hat.float()
        final.sums[0] = torch.cat([(total * hat).sum(0), total.sum(0)])
        total = _norm_backward(total * final.weight, final.norm)
    if out is not None and out_half is not None and sums is not None:
        assert total is not None
        out.copy_(total)
        out_half.copy_(total)
        sums[0] = total.sum(0)


def _norm_backward(grads: Tensor, norm: Norm) -> Tensor:
    hat = norm.hat.float()
    along = (grads * hat).mean(-1, keepdim=True)
    return norm.rstd[:, None] * (grads - grads.mean(-1, keepdim=True) - hat * along)


def gelu(before: Tensor, *, after: Tensor) -> None:
    """Apply GELU in its tanh form."""
    after.copy_(F.gelu(before.float(), approximate="tanh"))


def gelu_backward(grads: Tensor, before: Tensor, *, out: Tensor, sums: Tensor) -> None:
    """Backpropagate through GELU."""
    result = torch.ops.aten.gelu_backward(grads.float(), before.float(), approximate="tanh")
    out.copy_(result)
    sums[0] = result.sum(0)


@dataclass(frozen=True, kw_only=True)
class Heads:
    """The split of a projection's columns into heads, and the kind of attention."""

    count: int
    width: int
    causal: bool

    @property
    def scale(self) -> float:
        """The factor of the scores."""
        return 1 / math.sqrt(self.width)


def attend(
    qkv: Tensor, heads: Heads, *, selection: Selection | None = None, out: Tensor, log_sum: Tensor
) -> None:
    """Apply softmax attention of the selected rows to all rows of their prompt.

    Args:
        qkv: (batch, token, 3 · heads · width), queries then keys then values.
        heads: the split of columns into heads.
        selection: the rows whose queries are computed, if not all.
        out: (batch, selected, heads · width).
        log_sum: (batch, head, selected), the logarithm of each softmax's denominator, in base 2.
    """
    _, _, _, value, scores = _scored(qkv, heads, selection)
    log_sum.copy_(torch.logsumexp(scores, -1) / math.log(2))
    read = torch.softmax(scores, -1) @ value.float()
    out.copy_(read.transpose(1, 2).flatten(2))


def attend_backward(
    grads: Tensor,
    qkv: Tensor,
    heads: Heads,
    *,
    selection: Selection | None = None,
    answer: Tensor,
    log_sum: Tensor,
    out: Tensor,
    sums: Tensor,
) -> None:
    """Backpropagate through `attend` to queries, keys and values; `sums` has a row for every prompt."""
    rows, query, key, value, scores = _scored(qkv, heads, selection)
    weights = torch.exp2(scores / math.log(2) - log_sum[..., None])
    grad, read = (
        part.float().unflatten(2, (heads.count, heads.width)).transpose(1, 2) for part in (grads, answer)
    )
    share = weights * (grad @ value.float().transpose(-1, -2) - (grad * read).sum(-1, keepdim=True))
    share = share * heads.scale
    parts = torch.zeros(3, *key.shape, device=qkv.device)
    parts[0][:, :, rows] = share @ key.float()
    parts[1] = share.transpose(-1, -2) @ query.float()
    parts[2] = weights.transpose(-1, -2) @ grad
    whole = parts.permute(1, 3, 0, 2, 4).flatten(2)
    out.copy_(whole)
    sums.copy_(whole.sum(1))


def _scored(qkv: Tensor, heads: Heads, selection: Selection | None) -> tuple[Tensor, ...]:
    """Return the rows that are queries, their queries, all keys and values, and the scores."""
    query, key, value = qkv.unflatten(2, (3, heads.count, heads.width)).permute(2, 0, 3, 1, 4)
    rows = torch.arange(qkv.shape[1], device=qkv.device) if selection is None else selection.rows
    query = query[:, :, rows]
    scores = query.float() @ key.float().transpose(-1, -2) * heads.scale
    if heads.causal:
        hidden = torch.arange(key.shape[2], device=key.device) > rows[:, None]
        scores = scores.masked_fill(hidden, -math.inf)
    return rows, query, key, value, scores


def weight_gradient(grads: Tensor, rows: Tensor) -> Tensor:
    """Return gradsᵀ · rows over the stack of iterations; half precision is summed in single precision."""
    left, right = grads.flatten(0, -2).t(), rows.flatten(0, -2)
    exact = torch.promote_types(left.dtype, torch.float32)
    if left.is_cuda and left.dtype != exact:
        return torch.mm(left, right, out_dtype=exact)  # cuBLAS sums so without copies, a CPU does not
    return left.to(exact) @ right.to(exact)
