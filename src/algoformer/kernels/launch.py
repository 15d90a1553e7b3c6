"""The operations of `operations.py` as Triton kernels: same names, same arguments, same results."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from algoformer.kernels import attention, attention_backward, rows
from algoformer.kernels.operations import FinalNorm, FinalNormBackward, Heads, Norm, Selection
from algoformer.kernels.operations import weight_gradient as weight_gradient


@dataclass(frozen=True, kw_only=True)
class Tile:
    """The block sizes of a kernel."""

    rows: int
    columns: int
    warps: int
    groups: int = 1
    stages: int = 2


WHOLE_ROWS = Tile(rows=8, columns=0, warps=4)
"""For kernels whose blocks hold whole rows, whatever the width."""

WHOLE_ROWS_BACKWARD = Tile(rows=4, columns=0, warps=1, groups=2)
"""The same, backward."""

MANY_ROWS = 16_000
"""From this many rows on there are blocks enough for each to be taller."""

MANY_ROWS_BACKWARD = Tile(rows=4, columns=0, warps=1, groups=4)
"""For whole rows, backward, when there are many."""

GELU = Tile(rows=16, columns=128, warps=4)
"""For the hidden layer of a feed-forward network."""

GELU_BACKWARD = Tile(rows=64, columns=64, warps=4)
"""The same, backward: taller, for fewer partial sums."""

MANY_PROMPTS = 256
"""From this many prompts on there are blocks enough for each to be larger."""

SHORT = Tile(rows=64, columns=128, warps=4)
"""Queries and keys of a block of attention for prompts whose keys fit into one block."""

SHORT_BACKWARD = Tile(rows=16, columns=32, warps=2, groups=8)
"""The same, backward: `groups` blocks of queries at once."""

SHORT_BACKWARD_MANY = Tile(rows=32, columns=32, warps=1, groups=4)
"""For many short prompts, backward."""

LONG = Tile(rows=64, columns=64, warps=4, stages=3)
"""Queries and keys of a block of attention for longer prompts."""

LONG_BACKWARD = Tile(rows=64, columns=64, warps=4, groups=5, stages=1)
"""The same, backward."""


def blocks_of(rows: int) -> int:
    """Return the number of partial sums of a gradient over `rows` rows."""
    tile = _backward_tile(rows)
    return -(-rows // (tile.rows * tile.groups))


def _backward_tile(rows: int) -> Tile:
    return WHOLE_ROWS_BACKWARD if rows < MANY_ROWS else MANY_ROWS_BACKWARD


def gelu_blocks_of(rows: int) -> int:
    """Return the number of partial sums of the gradient of a feed-forward network's hidden layer."""
    return -(-rows // GELU_BACKWARD.rows)


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
    """See `operations.add_norm`."""
    count, width = (residual if branch is None else branch).shape
    by_token = positions if selection is None else selection.number
    rows.add_norm[(-(-count // WHOLE_ROWS.rows),)](
        branch,
        residual,
        positions,
        *((None, None) if final is None else (final.norm.hat, final.norm.rstd)),
        *((None, None) if final is None else (final.weight, final.bias)),
        *((None, None) if final is None else (final.state, final.entry)),
        stream,
        *((None, None) if following is None else (following.hat, following.rstd)),
        None if selection is None else selection.rows,
        count,
        TOKENS=0 if by_token is None else len(by_token),
        SELECTED=0 if selection is None else len(selection.rows),
        WIDTH=width,
        BLOCK_ROWS=WHOLE_ROWS.rows,
        num_warps=WHOLE_ROWS.warps,
    )


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
    """See `operations.add_norm_backward`."""
    count, width = next(tensor.shape for tensor in (grads, out) if tensor is not None)
    tile = _backward_tile(count)
    rows.add_norm_backward[(blocks_of(count),)](
        grads,
        *((None, None) if before is None else (before.hat, before.rstd)),
        residual,
        entry_grad,
        *((None, None) if final is None else (final.norm.hat, final.norm.rstd)),
        *((None, None) if final is None else (final.weight, final.state_grad)),
        *((None, 0) if final is None else (final.sums, final.sums.stride(0))),
        out,
        out_half,
        *((None, 0) if sums is None else (sums, sums.stride(0))),
        None if selection is None else selection.number,
        count,
        TOKENS=0 if selection is None else len(selection.number),
        SELECTED=0 if selection is None else len(selection.rows),
        WIDTH=width,
        COLLECTED=collected,
        BLOCK_ROWS=tile.rows,
        GROUPS=tile.groups,
        num_warps=tile.warps,
    )


def gelu(before: Tensor, *, after: Tensor) -> None:
    """See `operations.gelu`."""
    count, width = before.shape
    columns = min(GELU.columns, width)
    rows.gelu[(-(-count // GELU.rows), width // columns)](
        before,
        after,
        count,
        WIDTH=width,
        BLOCK_ROWS=GELU.rows,
        BLOCK_COLUMNS=columns,
        num_warps=GELU.warps,
    )


def gelu_backward(grads: Tensor, before: Tensor, *, out: Tensor, sums: Tensor) -> None:
    """See `operations.gelu_backward`."""
    count, width = before.shape
    columns = min(GELU_BACKWARD.columns, width)
    rows.gelu_backward[(gelu_blocks_of(count), width // columns)](
        grads,
        before,
        out,
        sums,
        sums.stride(0),
        count,
        WIDTH=width,
        BLOCK_ROWS=GELU_BACKWARD.rows,
        BLOCK_COLUMNS=columns,
        num_warps=GELU_BACKWARD.warps,
    )


def attend(
    qkv: Tensor, heads: Heads, *, selection: Selection | None = None, out: Tensor, log_sum: Tensor
) -> None:
    """See `operations.attend`."""
    batch, tokens, _ = qkv.shape
    count = log_sum.shape[-1]
    tile = SHORT if tokens <= SHORT.columns else LONG
    columns = min(tile.columns, max(16, 1 << (tokens - 1).bit_length()))
    attention.attend[(batch * heads.count, -(-count // tile.rows))](
        qkv,
        None if selection is None else selection.rows,
        out,
        log_sum,
        tokens,
        count,
        heads.scale,
        HEADS=heads.count,
        WIDTH=heads.width,
        CAUSAL=heads.causal,
        BLOCK_QUERIES=tile.rows,
        BLOCK_KEYS=columns,
        num_warps=tile.warps,
        num_stages=tile.stages,
    )


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
    """See `operations.attend_backward`."""
    batch, tokens, _ = qkv.shape
    count = log_sum.shape[-1]
    grid = (batch * heads.count,)
    tile = _backward_attention_tile(batch, tokens)
    tiles = min(tile.groups, -(-count // tile.rows))
    in_parts = tiles * tile.rows < count
    waiting = qkv.new_empty(*grid, tokens, 2 * heads.width, dtype=torch.float32) if in_parts else None
    attention_backward.attend_backward[grid](
        grads,
        qkv,
        *((None, None) if selection is None else (selection.rows, selection.number)),
        answer,
        log_sum,
        out,
        waiting,
        sums,
        sums.stride(0),
        tokens,
        count,
        heads.scale,
        HEADS=heads.count,
        WIDTH=heads.width,
        CAUSAL=heads.causal,
        BLOCK_QUERIES=tile.rows,
        BLOCK_KEYS=tile.columns,
        TILES=tiles,
        num_warps=tile.warps,
        num_stages=tile.stages,
    )


def _backward_attention_tile(batch: int, tokens: int) -> Tile:
    if tokens > SHORT.columns:
        return LONG_BACKWARD
    return SHORT_BACKWARD if batch < MANY_PROMPTS else SHORT_BACKWARD_MANY
