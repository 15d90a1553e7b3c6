"""Triton kernels for attention's backward pass: short prompts in one launch, longer ones in two."""

from __future__ import annotations

import triton
import triton.language as tl

from algoformer.kernels.attention import asked_rows, load_rows, masked_scores


@triton.jit
def _share(
    queries,
    keys,
    values,
    grad,
    own,
    row,
    key,
    tokens,
    log_sum,
    scale,
    CAUSAL: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """The softmax's weights again, and the gradient of the scores."""
    scores = masked_scores(queries, keys, row, key, tokens, scale, CAUSAL, PRECISION)
    weights = tl.exp2(scores - log_sum[:, None])
    back = tl.dot(grad, tl.trans(values), input_precision=PRECISION)
    return weights.to(keys.dtype), (weights * (back - own[:, None]) * scale).to(keys.dtype)


@triton.jit
def _tile_backward(
    queries,
    grad,
    own,
    row,
    furthest,
    log_sum,
    keys,
    values,
    key_grads,
    value_grads,
    query_grads,
    tokens,
    scale,
    START: tl.constexpr,
    TILE: tl.constexpr,
    CAUSAL: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """What a block of queries and a tile of keys are to each other, added to the gradients of both."""
    if not CAUSAL or furthest >= START:
        key = START + tl.arange(0, TILE)
        weights, share = _share(
            queries, keys, values, grad, own, row, key, tokens, log_sum, scale, CAUSAL, PRECISION
        )
        value_grads = tl.dot(tl.trans(weights), grad, value_grads, input_precision=PRECISION)
        key_grads = tl.dot(tl.trans(share), queries, key_grads, input_precision=PRECISION)
        query_grads = tl.dot(share, keys, query_grads, input_precision=PRECISION)
    return key_grads, value_grads, query_grads


@triton.jit
def _store_tile(
    out,
    key_grads,
    value_grads,
    tokens,
    column,
    START: tl.constexpr,
    TILE: tl.constexpr,
    INNER: tl.constexpr,
):
    key = START + tl.arange(0, TILE)
    place = key[:, None].to(tl.int64) * (3 * INNER) + column[None, :]
    inside = (key < tokens)[:, None]
    tl.store(out + INNER + place, key_grads.to(out.dtype.element_ty), mask=inside)
    tl.store(out + 2 * INNER + place, value_grads.to(out.dtype.element_ty), mask=inside)


@triton.jit
def attend_backward_short(
    grads,
    qkv,
    asked,
    answer,
    log_sum,
    out,
    sums,
    sums_stride,
    tokens: tl.constexpr,
    count: tl.constexpr,
    scale,
    HEADS: tl.constexpr,
    WIDTH: tl.constexpr,
    CAUSAL: tl.constexpr,
    EVERY: tl.constexpr,
    TILE: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """All gradients of one head of one short prompt: up to four tiles of keys stay where they are.

    Tiles are small, so that pairs of queries and keys that do not see each other are not computed.
    """
    INNER: tl.constexpr = HEADS * WIDTH
    prompt, head = tl.program_id(0) // HEADS, tl.program_id(0) % HEADS
    column = tl.arange(0, WIDTH)
    first = prompt.to(tl.int64) * tokens * 3 * INNER + head * WIDTH
    base, base_out = qkv + first, out + first
    answered = prompt.to(tl.int64) * count * INNER + head * WIDTH
    tile = tl.arange(0, TILE)
    keys0 = load_rows(base + INNER, tile, tile < tokens, column, 3 * INNER)
    values0 = load_rows(base + 2 * INNER, tile, tile < tokens, column, 3 * INNER)
    key_grads0 = tl.zeros((TILE, WIDTH), dtype=tl.float32)
    value_grads0 = tl.zeros((TILE, WIDTH), dtype=tl.float32)
    # a tile that no key falls into is never touched, and costs nothing
    keys1 = load_rows(base + INNER, TILE + tile, TILE + tile < tokens, column, 3 * INNER)
    values1 = load_rows(base + 2 * INNER, TILE + tile, TILE + tile < tokens, column, 3 * INNER)
    key_grads1, value_grads1 = key_grads0, value_grads0
    keys2 = load_rows(base + INNER, 2 * TILE + tile, 2 * TILE + tile < tokens, column, 3 * INNER)
    values2 = load_rows(base + 2 * INNER, 2 * TILE + tile, 2 * TILE + tile < tokens, column, 3 * INNER)
    key_grads2, value_grads2 = key_grads0, value_grads0
    keys3 = load_rows(base + INNER, 3 * TILE + tile, 3 * TILE + tile < tokens, column, 3 * INNER)
    values3 = load_rows(base + 2 * INNER, 3 * TILE + tile, 3 * TILE + tile < tokens, column, 3 * INNER)
    key_grads3, value_grads3 = key_grads0, value_grads0
    query_sum = tl.zeros((WIDTH,), dtype=tl.float32)
    for position in range(0, count, TILE):
        query = position + tile
        row = asked_rows(asked, query, count, EVERY)
        furthest = tl.max(row, 0)
        inside = query < count
        queries = load_rows(base, row, inside, column, 3 * INNER)
        grad = load_rows(grads + answered, query, inside, column, INNER)
        read = load_rows(answer + answered, query, inside, column, INNER)
        own = tl.sum(grad.to(tl.float32) * read.to(tl.float32), 1)
        level = tl.load(
            log_sum + tl.program_id(0).to(tl.int64) * count + query, mask=inside, other=float("inf")
        )
        query_grads = tl.zeros((TILE, WIDTH), dtype=tl.float32)
        key_grads0, value_grads0, query_grads = _tile_backward(
            queries, grad, own, row, furthest, level, keys0, values0, key_grads0, value_grads0, query_grads,
            tokens, scale, 0, TILE, CAUSAL, PRECISION,
        )  # fmt: skip
        if tokens > TILE:
            key_grads1, value_grads1, query_grads = _tile_backward(
                queries, grad, own, row, furthest, level, keys1, values1, key_grads1, value_grads1,
                query_grads, tokens, scale, TILE, TILE, CAUSAL, PRECISION,
            )  # fmt: skip
        if tokens > 2 * TILE:
            key_grads2, value_grads2, query_grads = _tile_backward(
                queries, grad, own, row, furthest, level, keys2, values2, key_grads2, value_grads2,
                query_grads, tokens, scale, 2 * TILE, TILE, CAUSAL, PRECISION,
            )  # fmt: skip
        if tokens > 3 * TILE:
            key_grads3, value_grads3, query_grads = _tile_backward(
                queries, grad, own, row, furthest, level, keys3, values3, key_grads3, value_grads3,
                query_grads, tokens, scale, 3 * TILE, TILE, CAUSAL, PRECISION,
            )  # fmt: skip
        tl.store(
            base_out + row[:, None].to(tl.int64) * (3 * INNER) + column[None, :],
            query_grads.to(out.dtype.element_ty),
            mask=inside[:, None],
        )
        query_sum += tl.sum(query_grads, 0)
    _store_tile(base_out, key_grads0, value_grads0, tokens, column, 0, TILE, INNER)
    if tokens > TILE:
        _store_tile(base_out, key_grads1, value_grads1, tokens, column, TILE, TILE, INNER)
    if tokens > 2 * TILE:
        _store_tile(base_out, key_grads2, value_grads2, tokens, column, 2 * TILE, TILE, INNER)
    if tokens > 3 * TILE:
        _store_tile(base_out, key_grads3, value_grads3, tokens, column, 3 * TILE, TILE, INNER)
    partial = sums + prompt.to(tl.int64) * sums_stride + head * WIDTH + column
    tl.store(partial, query_sum)
    tl.store(partial + INNER, tl.sum(key_grads0 + key_grads1 + key_grads2 + key_grads3, 0))
    tl.store(partial + 2 * INNER, tl.sum(value_grads0 + value_grads1 + value_grads2 + value_grads3, 0))


@triton.jit
def attend_backward_keys(
    grads,
    qkv,
    asked,
    answer,
    log_sum,
    out,
    sums,
    sums_stride,
    tokens: tl.constexpr,
    count: tl.constexpr,
    scale,
    blocks,
    HEADS: tl.constexpr,
    WIDTH: tl.constexpr,
    CAUSAL: tl.constexpr,
    EVERY: tl.constexpr,
    BLOCK_QUERIES: tl.constexpr,
    BLOCK_KEYS: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """Gradients of a block of keys and values."""
    INNER: tl.constexpr = HEADS * WIDTH
    prompt, head = tl.program_id(0) // HEADS, tl.program_id(0) % HEADS
    block = tl.program_id(1)
    key = block * BLOCK_KEYS + tl.arange(0, BLOCK_KEYS)
    column = tl.arange(0, WIDTH)
    first = prompt.to(tl.int64) * tokens * 3 * INNER + head * WIDTH
    base, base_out = qkv + first, out + first
    keys = load_rows(base + INNER, key, key < tokens, column, 3 * INNER)
    values = load_rows(base + 2 * INNER, key, key < tokens, column, 3 * INNER)
    key_grads = tl.zeros((BLOCK_KEYS, WIDTH), dtype=tl.float32)
    value_grads = tl.zeros((BLOCK_KEYS, WIDTH), dtype=tl.float32)
    answered = prompt.to(tl.int64) * count * INNER + head * WIDTH
    for position in range(0, count, BLOCK_QUERIES):
        query = position + tl.arange(0, BLOCK_QUERIES)
        row = asked_rows(asked, query, count, EVERY)
        # queries that see none of these keys are left out
        if not CAUSAL or tl.max(row, 0) >= block * BLOCK_KEYS:
            inside = query < count
            queries = load_rows(base, row, inside, column, 3 * INNER)
            grad = load_rows(grads + answered, query, inside, column, INNER)
            read = load_rows(answer + answered, query, inside, column, INNER)
            level = tl.load(
                log_sum + tl.program_id(0).to(tl.int64) * count + query, mask=inside, other=float("inf")
            )
            own = tl.sum(grad.to(tl.float32) * read.to(tl.float32), 1)
            weights, share = _share(
                queries, keys, values, grad, own, row, key, tokens, level, scale, CAUSAL, PRECISION
            )
            value_grads = tl.dot(tl.trans(weights), grad, value_grads, input_precision=PRECISION)
            key_grads = tl.dot(tl.trans(share), queries, key_grads, input_precision=PRECISION)
    place = key[:, None].to(tl.int64) * (3 * INNER) + column[None, :]
    inside_keys = (key < tokens)[:, None]
    tl.store(base_out + INNER + place, key_grads.to(out.dtype.element_ty), mask=inside_keys)
    tl.store(base_out + 2 * INNER + place, value_grads.to(out.dtype.element_ty), mask=inside_keys)
    partial = sums + (prompt * blocks + block).to(tl.int64) * sums_stride + head * WIDTH + column
    tl.store(partial + INNER, tl.sum(key_grads, 0))
    tl.store(partial + 2 * INNER, tl.sum(value_grads, 0))


@triton.jit
def attend_backward_queries(
    grads,
    qkv,
    asked,
    answer,
    log_sum,
    out,
    sums,
    sums_stride,
    tokens: tl.constexpr,
    count: tl.constexpr,
    scale,
    blocks,
    HEADS: tl.constexpr,
    WIDTH: tl.constexpr,
    CAUSAL: tl.constexpr,
    EVERY: tl.constexpr,
    BLOCK_QUERIES: tl.constexpr,
    BLOCK_KEYS: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """Gradients of a block of queries, where keys take several blocks."""
    INNER: tl.constexpr = HEADS * WIDTH
    prompt, head = tl.program_id(0) // HEADS, tl.program_id(0) % HEADS
    query = tl.program_id(1) * BLOCK_QUERIES + tl.arange(0, BLOCK_QUERIES)
    column = tl.arange(0, WIDTH)
    row = asked_rows(asked, query, count, EVERY)
    inside = query < count
    first = prompt.to(tl.int64) * tokens * 3 * INNER + head * WIDTH
    base = qkv + first
    answered = prompt.to(tl.int64) * count * INNER + head * WIDTH
    queries = load_rows(base, row, inside, column, 3 * INNER)
    grad = load_rows(grads + answered, query, inside, column, INNER)
    read = load_rows(answer + answered, query, inside, column, INNER)
    level = tl.load(log_sum + tl.program_id(0).to(tl.int64) * count + query, mask=inside, other=float("inf"))
    own = tl.sum(grad.to(tl.float32) * read.to(tl.float32), 1)
    query_grads = tl.zeros((BLOCK_QUERIES, WIDTH), dtype=tl.float32)
    furthest = tl.max(row, 0)
    for start in range(0, tokens, BLOCK_KEYS):
        if not CAUSAL or start <= furthest:
            key = start + tl.arange(0, BLOCK_KEYS)
            keys = load_rows(base + INNER, key, key < tokens, column, 3 * INNER)
            values = load_rows(base + 2 * INNER, key, key < tokens, column, 3 * INNER)
            _, share = _share(
                queries, keys, values, grad, own, row, key, tokens, level, scale, CAUSAL, PRECISION
            )
            query_grads = tl.dot(share, keys, query_grads, input_precision=PRECISION)
    tl.store(
        out + first + row[:, None].to(tl.int64) * (3 * INNER) + column[None, :],
        query_grads.to(out.dtype.element_ty),
        mask=inside[:, None],
    )
    partial = sums + (prompt * blocks + tl.program_id(1)).to(tl.int64) * sums_stride + head * WIDTH + column
    tl.store(partial, tl.sum(query_grads, 0))
