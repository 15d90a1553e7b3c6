"""Triton kernels for what happens to rows between two products: residual, norms, GELU, and their gradients.

A block holds whole rows of a stream, so a sum, a norm, a loop's input and the next norm are one launch.
A tensor that is None is neither read nor written: what it is for is left out when the kernel is compiled.
"""

from __future__ import annotations

import triton
import triton.language as tl

from algoformer.kernels.operations import EPSILON

_EPSILON = tl.constexpr(EPSILON)


@triton.jit
def _gate(values):
    # tanh GELU is x · sigmoid(2 √(2/π) (x + 0.044715 x³))
    return tl.sigmoid(1.5957691216057308 * values * (1 + 0.044715 * values * values))


@triton.jit
def gelu(before, after, count, WIDTH: tl.constexpr, BLOCK_ROWS: tl.constexpr, BLOCK_COLUMNS: tl.constexpr):
    """GELU of every number."""
    row = tl.program_id(0) * BLOCK_ROWS + tl.arange(0, BLOCK_ROWS)
    column = tl.program_id(1) * BLOCK_COLUMNS + tl.arange(0, BLOCK_COLUMNS)
    place = row[:, None].to(tl.int64) * WIDTH + column[None, :]
    inside = (row < count)[:, None]
    values = tl.load(before + place, mask=inside, other=0.0).to(tl.float32)
    tl.store(after + place, (values * _gate(values)).to(after.dtype.element_ty), mask=inside)


@triton.jit
def gelu_backward(
    grads,
    before,
    out,
    sums,
    sums_stride,
    count,
    WIDTH: tl.constexpr,
    BLOCK_ROWS: tl.constexpr,
    BLOCK_COLUMNS: tl.constexpr,
):
    """Gradients times the derivative of GELU, and their column sums."""
    block = tl.program_id(0)
    row = block * BLOCK_ROWS + tl.arange(0, BLOCK_ROWS)
    column = tl.program_id(1) * BLOCK_COLUMNS + tl.arange(0, BLOCK_COLUMNS)
    place = row[:, None].to(tl.int64) * WIDTH + column[None, :]
    inside = (row < count)[:, None]
    total = tl.load(grads + place, mask=inside, other=0.0).to(tl.float32)
    values = tl.load(before + place, mask=inside, other=0.0).to(tl.float32)
    gate = _gate(values)
    slope = 1.5957691216057308 * (1 + 3 * 0.044715 * values * values)
    total *= gate * (1 + values * (1 - gate) * slope)
    tl.store(out + place, total.to(out.dtype.element_ty), mask=inside)
    tl.store(sums + block.to(tl.int64) * sums_stride + column, tl.sum(total, 0))


@triton.jit
def _normalize(total, WIDTH: tl.constexpr):
    centered = total - (tl.sum(total, 1) / WIDTH)[:, None]
    scale = 1 / tl.sqrt(tl.sum(centered * centered, 1) / WIDTH + _EPSILON)
    return centered * scale[:, None], scale


@triton.jit
def _normalize_backward(total, normal, scale, WIDTH: tl.constexpr):
    along = (tl.sum(total * normal, 1) / WIDTH)[:, None]
    return scale[:, None] * (total - (tl.sum(total, 1) / WIDTH)[:, None] - normal * along)


@triton.jit
def add_norm(
    branch,
    residual,
    positions,
    final_hat,
    final_rstd,
    final_weight,
    final_bias,
    state,
    entry,
    stream,
    hat,
    rstd,
    selected,
    count,
    TOKENS: tl.constexpr,
    SELECTED: tl.constexpr,
    WIDTH: tl.constexpr,
    BLOCK_ROWS: tl.constexpr,
):
    """residual + positions + branch, the body's last norm, the loop's input, the next norm."""
    row = tl.program_id(0) * BLOCK_ROWS + tl.arange(0, BLOCK_ROWS)
    column = tl.arange(0, WIDTH)
    inside = (row < count)[:, None]
    place = row[:, None].to(tl.int64) * WIDTH + column[None, :]
    if SELECTED:
        # the residual has all rows of a prompt, the rest only the selected ones
        chosen = tl.load(selected + row % SELECTED, mask=row < count, other=0)
        source = (row // SELECTED).to(tl.int64) * TOKENS + chosen
        total = tl.load(residual + source[:, None] * WIDTH + column[None, :], mask=inside, other=0.0)
    else:
        total = tl.load(residual + place, mask=inside, other=0.0)
    if positions is not None:
        token = chosen if SELECTED else row % TOKENS
        total += tl.load(positions + token[:, None] * WIDTH + column[None, :], mask=inside, other=0.0)
    if branch is not None:
        total += tl.load(branch + place, mask=inside, other=0.0).to(tl.float32)
    if final_hat is not None:
        normal, scale = _normalize(total, WIDTH)
        tl.store(final_hat + place, normal.to(final_hat.dtype.element_ty), mask=inside)
        tl.store(final_rstd + row, scale, mask=row < count)
        total = normal * tl.load(final_weight + column)[None, :] + tl.load(final_bias + column)[None, :]
        if state is not None:
            tl.store(state + place, total, mask=inside)
        if entry is not None:
            total += tl.load(entry + place, mask=inside, other=0.0)
    if stream is not None:
        tl.store(stream + place, total, mask=inside)
    if hat is not None:
        normal, scale = _normalize(total, WIDTH)
        tl.store(hat + place, normal.to(hat.dtype.element_ty), mask=inside)
        tl.store(rstd + row, scale, mask=row < count)


@triton.jit
def add_norm_backward(
    grads,
    hat,
    rstd,
    residual,
    entry_grad,
    final_hat,
    final_rstd,
    final_weight,
    state_grad,
    final_sums,
    final_sums_stride,
    out,
    out_half,
    sums,
    sums_stride,
    number,
    count,
    TOKENS: tl.constexpr,
    SELECTED: tl.constexpr,
    WIDTH: tl.constexpr,
    COLLECTED: tl.constexpr,
    BLOCK_ROWS: tl.constexpr,
    GROUPS: tl.constexpr,
):
    """Back through a norm, the residual joins, the loop's input collects; then back through the last norm.

    A block goes through its rows in groups: with one warp a group's column sums need no exchange between
    threads, and several groups make fewer partial sums.
    """
    block = tl.program_id(0)
    column = tl.arange(0, WIDTH)
    column_sum = tl.zeros((WIDTH,), dtype=tl.float32)
    weight_sum = tl.zeros((WIDTH,), dtype=tl.float32)
    bias_sum = tl.zeros((WIDTH,), dtype=tl.float32)
    for group in tl.static_range(GROUPS):
        row = (block * GROUPS + group) * BLOCK_ROWS + tl.arange(0, BLOCK_ROWS)
        inside = (row < count)[:, None]
        place = row[:, None].to(tl.int64) * WIDTH + column[None, :]
        total = tl.zeros((BLOCK_ROWS, WIDTH), dtype=tl.float32)
        if grads is not None:
            normal = tl.load(hat + place, mask=inside, other=0.0).to(tl.float32)
            scale = tl.load(rstd + row, mask=row < count, other=0.0)
            incoming = tl.load(grads + place, mask=inside, other=0.0).to(tl.float32)
            total = _normalize_backward(incoming, normal, scale, WIDTH)
            if SELECTED:
                chosen = tl.load(number + row % TOKENS, mask=row < count, other=-1)
                source = (row // TOKENS).to(tl.int64) * SELECTED + chosen
                known = (chosen >= 0)[:, None]
                total += tl.load(residual + source[:, None] * WIDTH + column[None, :], mask=known, other=0.0)
            else:
                total += tl.load(residual + place, mask=inside, other=0.0)
        if entry_grad is not None:
            reached = total
            if COLLECTED:
                reached += tl.load(entry_grad + place, mask=inside, other=0.0)
            tl.store(entry_grad + place, reached, mask=inside)
        if final_hat is not None:
            if state_grad is not None:
                total += tl.load(state_grad + place, mask=inside, other=0.0)
            normal = tl.load(final_hat + place, mask=inside, other=0.0).to(tl.float32)
            weight_sum += tl.sum(total * normal, 0)
            bias_sum += tl.sum(total, 0)
            total *= tl.load(final_weight + column)[None, :]
            scale = tl.load(final_rstd + row, mask=row < count, other=0.0)
            total = _normalize_backward(total, normal, scale, WIDTH)
        if out is not None:
            tl.store(out + place, total, mask=inside)
            tl.store(out_half + place, total.to(out_half.dtype.element_ty), mask=inside)
            column_sum += tl.sum(total, 0)
    if final_hat is not None:
        partial = final_sums + block.to(tl.int64) * final_sums_stride + column
        tl.store(partial, weight_sum)
        tl.store(partial + WIDTH, bias_sum)
    if out is not None:
        tl.store(sums + block.to(tl.int64) * sums_stride + column, column_sum)
