"""Triton kernels for softmax attention of short prompts, on the projections as they lie in memory."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def load_rows(base, row, inside, column, STRIDE: tl.constexpr):
    """Some columns of some rows, zero where a row is not there."""
    return tl.load(
        base + row[:, None].to(tl.int64) * STRIDE + column[None, :], mask=inside[:, None], other=0.0
    )


@triton.jit
def asked_rows(asked, query, count, EVERY: tl.constexpr):
    """The rows that queries are."""
    # where every row asks, its number is known without a load; a row beyond the end sees what row 0 sees
    if EVERY:
        return tl.where(query < count, query, 0)
    return tl.load(asked + query, mask=query < count, other=0).to(tl.int32)


@triton.jit
def masked_scores(queries, keys, row, key, tokens, scale, CAUSAL: tl.constexpr, PRECISION: tl.constexpr):
    """Scores in base 2, -inf where a query may not look."""
    scores = tl.dot(queries, tl.trans(keys), input_precision=PRECISION) * (scale * 1.4426950408889634)
    seen = (key < tokens)[None, :]
    if CAUSAL:
        seen = seen & (key[None, :] <= row[:, None])
    return tl.where(seen, scores, float("-inf"))


@triton.jit
def attend(
    qkv,
    asked,
    out,
    log_sum,
    tokens: tl.constexpr,
    count: tl.constexpr,
    scale,
    HEADS: tl.constexpr,
    WIDTH: tl.constexpr,
    CAUSAL: tl.constexpr,
    EVERY: tl.constexpr,
    BLOCK_QUERIES: tl.constexpr,
    BLOCK_KEYS: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """A block of one head's queries on all keys that they may see."""
    INNER: tl.constexpr = HEADS * WIDTH
    prompt, head = tl.program_id(0) // HEADS, tl.program_id(0) % HEADS
    query = tl.program_id(1) * BLOCK_QUERIES + tl.arange(0, BLOCK_QUERIES)
    column = tl.arange(0, WIDTH)
    row = asked_rows(asked, query, count, EVERY)
    base = qkv + prompt.to(tl.int64) * tokens * 3 * INNER + head * WIDTH
    queries = load_rows(base, row, query < count, column, 3 * INNER)
    most = tl.full((BLOCK_QUERIES,), float("-inf"), dtype=tl.float32)
    total = tl.zeros((BLOCK_QUERIES,), dtype=tl.float32)
    read = tl.zeros((BLOCK_QUERIES, WIDTH), dtype=tl.float32)
    furthest = tl.max(row, 0)
    for start in range(0, tokens, BLOCK_KEYS):
        # keys beyond every query of the block are left out
        if not CAUSAL or start <= furthest:
            key = start + tl.arange(0, BLOCK_KEYS)
            keys = load_rows(base + INNER, key, key < tokens, column, 3 * INNER)
            values = load_rows(base + 2 * INNER, key, key < tokens, column, 3 * INNER)
            scores = masked_scores(queries, keys, row, key, tokens, scale, CAUSAL, PRECISION)
            higher = tl.maximum(most, tl.max(scores, 1))
            weights = tl.exp2(scores - higher[:, None])
            fade = tl.exp2(most - higher)
            total = total * fade + tl.sum(weights, 1)
            read = tl.dot(weights.to(values.dtype), values, read * fade[:, None], input_precision=PRECISION)
            most = higher
    place = (prompt.to(tl.int64) * count + query) * INNER + head * WIDTH
    tl.store(
        out + place[:, None] + column[None, :],
        (read / total[:, None]).to(out.dtype.element_ty),
        mask=(query < count)[:, None],
    )
    tl.store(
        log_sum + tl.program_id(0).to(tl.int64) * count + query, most + tl.log2(total), mask=query < count
    )
