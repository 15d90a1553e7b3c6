"""Triton kernel for softmax attention, on the projections as they lie in memory.

Products of single precision are not rounded to TF32. Without `selected` every row is a query.
"""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def load_rows(base, row, inside, column, STRIDE: tl.constexpr):
    """Some columns of some rows of a prompt, zero where a row is not there."""
    return tl.load(base + row[:, None] * STRIDE + column[None, :], mask=inside[:, None], other=0.0)


@triton.jit
def selected_rows(selected, query, count):
    """The rows that queries are."""
    # where every row asks, its number is known without a load; a row beyond the end sees what row 0 sees
    if selected is None:
        row = tl.where(query < count, query, 0)
    else:
        row = tl.load(selected + query, mask=query < count, other=0).to(tl.int32)
    return row


@triton.jit
def selected_span(selected, position, count, BLOCK: tl.constexpr):
    """The first and the last row of a block of queries; selected rows rise."""
    first, last = position, tl.minimum(position + BLOCK, count) - 1
    if selected is not None:
        first = tl.load(selected + tl.minimum(position, last)).to(tl.int32)
        last = tl.load(selected + last).to(tl.int32)
    return first, last


@triton.jit
def in_base_2(scale):
    """The factor of scores where weights are powers of 2."""
    return scale * 1.4426950408889634


@triton.jit
def _look(
    queries,
    base,
    row,
    start,
    most,
    total,
    read,
    tokens: tl.constexpr,
    scale,
    WIDTH: tl.constexpr,
    INNER: tl.constexpr,
    CAUSAL: tl.constexpr,
    MASKED: tl.constexpr,
    BLOCK_KEYS: tl.constexpr,
):
    """One more block of keys; without a mask every query sees all of it."""
    key = start + tl.arange(0, BLOCK_KEYS)
    column = tl.arange(0, WIDTH)
    there = key < tokens if MASKED else key >= 0
    keys = load_rows(base + INNER, key, there, column, 3 * INNER)
    values = load_rows(base + 2 * INNER, key, there, column, 3 * INNER)
    scores = tl.dot(queries, tl.trans(keys), input_precision="ieee")
    if MASKED:
        seen = there[None, :]
        if CAUSAL:
            seen = seen & (key[None, :] <= row[:, None])
        scores = tl.where(seen, scores, float("-inf"))
    higher = tl.maximum(most, tl.max(scores, 1) * in_base_2(scale))
    weights = tl.exp2(scores * in_base_2(scale) - higher[:, None])
    if tokens <= BLOCK_KEYS:
        # what lies beyond the end is known when this is compiled, and costs nothing
        weights = tl.where(there[None, :], weights, 0.0)
    fade = tl.exp2(most - higher)
    total = total * fade + tl.sum(weights, 1)
    read = tl.dot(weights.to(values.dtype), values, read * fade[:, None], input_precision="ieee")
    return higher, total, read


@triton.jit
def attend(
    qkv,
    selected,
    out,
    log_sum,
    tokens: tl.constexpr,
    count: tl.constexpr,
    scale,
    HEADS: tl.constexpr,
    WIDTH: tl.constexpr,
    CAUSAL: tl.constexpr,
    BLOCK_QUERIES: tl.constexpr,
    BLOCK_KEYS: tl.constexpr,
):
    """A block of one head's queries on all keys that they may see."""
    INNER: tl.constexpr = HEADS * WIDTH
    program = tl.program_id(0).to(tl.int64)
    prompt, head = program // HEADS, program % HEADS
    position = tl.program_id(1) * BLOCK_QUERIES
    query = position + tl.arange(0, BLOCK_QUERIES)
    column = tl.arange(0, WIDTH)
    row = selected_rows(selected, query, count)
    base = qkv + prompt * tokens * 3 * INNER + head * WIDTH
    queries = load_rows(base, row, query < count, column, 3 * INNER)
    most = tl.full((BLOCK_QUERIES,), float("-inf"), dtype=tl.float32)
    total = tl.zeros((BLOCK_QUERIES,), dtype=tl.float32)
    read = tl.zeros((BLOCK_QUERIES, WIDTH), dtype=tl.float32)
    if tokens <= BLOCK_KEYS:
        most, total, read = _look(
            queries, base, row, 0, most, total, read, tokens, scale,
            WIDTH, INNER, CAUSAL, True, BLOCK_KEYS,
        )  # fmt: skip
    else:
        # blocks that all queries see whole, then those at the edge; what nobody sees is left out
        whole, end = tokens // BLOCK_KEYS * BLOCK_KEYS, tokens
        if CAUSAL:
            nearest, furthest = selected_span(selected, position, count, BLOCK_QUERIES)
            whole, end = (nearest + 1) // BLOCK_KEYS * BLOCK_KEYS, furthest + 1
        for start in range(0, whole, BLOCK_KEYS):
            most, total, read = _look(
                queries, base, row, start, most, total, read, tokens, scale,
                WIDTH, INNER, CAUSAL, False, BLOCK_KEYS,
            )  # fmt: skip
        for start in range(whole, end, BLOCK_KEYS):
            most, total, read = _look(
                queries, base, row, start, most, total, read, tokens, scale,
                WIDTH, INNER, CAUSAL, True, BLOCK_KEYS,
            )  # fmt: skip
    place = (prompt * count + query) * INNER + head * WIDTH
    tl.store(
        out + place[:, None] + column[None, :],
        (read / total[:, None]).to(out.dtype.element_ty),
        mask=(query < count)[:, None],
    )
    tl.store(log_sum + program * count + query, most + tl.log2(total), mask=query < count)
