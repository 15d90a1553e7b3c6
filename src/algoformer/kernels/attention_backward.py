"""A Triton kernel for attention's backward pass."""

# ruff: noqa: RUF005 -- Triton's language has no unpacking

from __future__ import annotations

import triton
import triton.language as tl

from algoformer.kernels.attention import in_base_2, load_rows, selected_rows, selected_span


@triton.jit
def _share(queries, keys, values, grad, own, row, key, tokens, log_sum, scale, masked, CAUSAL: tl.constexpr):
    """The softmax's weights again, and the gradient of the scores but for the scale."""
    scores = tl.dot(queries, tl.trans(keys), input_precision="ieee")
    if masked:
        # no row is further than the last, so a row that may not look ahead sees no key beyond the end
        seen = key[None, :] <= row[:, None] if CAUSAL else (key < tokens)[None, :]
        scores = tl.where(seen, scores, float("-inf"))
    weights = tl.exp2(scores * in_base_2(scale) - log_sum[:, None])
    back = tl.dot(grad, tl.trans(values), input_precision="ieee")
    return weights.to(keys.dtype), (weights * (back - own[:, None])).to(keys.dtype)


@triton.jit
def _store_keys(
    out,
    number,
    key_grads,
    value_grads,
    start,
    tokens,
    WIDTH: tl.constexpr,
    INNER: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Gradients of a block of keys and values; and zero for those of its rows that did not ask."""
    key = start + tl.arange(0, BLOCK)
    place = key[:, None] * (3 * INNER) + tl.arange(0, WIDTH)[None, :]
    inside = key < tokens
    tl.store(out + INNER + place, key_grads.to(out.dtype.element_ty), mask=inside[:, None])
    tl.store(out + 2 * INNER + place, value_grads.to(out.dtype.element_ty), mask=inside[:, None])
    if number is not None:
        silent = tl.load(number + key, mask=inside, other=0) < 0
        tl.store(out + place, tl.zeros((BLOCK, WIDTH), dtype=out.dtype.element_ty), mask=silent[:, None])


@triton.jit
def attend_backward(
    grads,
    qkv,
    selected,
    number,
    answer,
    log_sum,
    out,
    waiting,
    sums,
    sums_stride,
    tokens: tl.constexpr,
    count: tl.constexpr,
    scale,
    HEADS: tl.constexpr,
    WIDTH: tl.constexpr,
    CAUSAL: tl.constexpr,
    BLOCK_QUERIES: tl.constexpr,
    BLOCK_KEYS: tl.constexpr,
    TILES: tl.constexpr,
):
    """All gradients of one head of one prompt: five products for a block of queries and one of keys.

    The gradients of several blocks of queries stay where they are while the keys go by. Where there are
    more queries than that, they come in parts, and what keys and values got so far is kept in `waiting`.
    """
    INNER: tl.constexpr = HEADS * WIDTH
    PART: tl.constexpr = TILES * BLOCK_QUERIES
    program = tl.program_id(0).to(tl.int64)
    prompt, head = program // HEADS, program % HEADS
    column = tl.arange(0, WIDTH)
    block = tl.arange(0, BLOCK_QUERIES)
    first = prompt * tokens * 3 * INNER + head * WIDTH
    base, base_out = qkv + first, out + first
    answered = prompt * count * INNER + head * WIDTH
    # blocks lie at a constant distance from the first one: one address for all of them
    first_queries = base + block[:, None] * (3 * INNER) + column[None, :]
    first_grads = grads + answered + block[:, None] * INNER + column[None, :]
    query_sum = tl.zeros((WIDTH,), dtype=tl.float32)
    key_sum = tl.zeros((WIDTH,), dtype=tl.float32)
    value_sum = tl.zeros((WIDTH,), dtype=tl.float32)
    for part in range(0, count, PART):
        query_grads, own, level, nearest, furthest = (), (), (), (), ()
        for tile in tl.static_range(TILES):
            query = part + tile * BLOCK_QUERIES + block
            inside = query < count
            span = selected_span(selected, part + tile * BLOCK_QUERIES, count, BLOCK_QUERIES)
            nearest, furthest = nearest + (span[0],), furthest + (span[1],)
            grad = tl.load(
                first_grads + (part + tile * BLOCK_QUERIES) * INNER, mask=inside[:, None], other=0.0
            )
            read = load_rows(answer + answered, query, inside, column, INNER)
            own = own + (tl.sum(grad.to(tl.float32) * read.to(tl.float32), 1),)
            # a query that is not there has no weight anywhere
            level = level + (tl.load(log_sum + program * count + query, mask=inside, other=float("inf")),)
            query_grads = query_grads + (tl.zeros((BLOCK_QUERIES, WIDTH), dtype=tl.float32),)
        for start in range(0, tokens, BLOCK_KEYS):
            key = start + tl.arange(0, BLOCK_KEYS)
            keys = load_rows(base + INNER, key, key < tokens, column, 3 * INNER)
            values = load_rows(base + 2 * INNER, key, key < tokens, column, 3 * INNER)
            key_grads = tl.zeros((BLOCK_KEYS, WIDTH), dtype=tl.float32)
            value_grads = tl.zeros((BLOCK_KEYS, WIDTH), dtype=tl.float32)
            updated = ()
            for tile in tl.static_range(TILES):
                made = query_grads[tile]
                # queries that see none of these keys are left out
                if not CAUSAL or furthest[tile] >= start:
                    query = part + tile * BLOCK_QUERIES + block
                    row = selected_rows(selected, query, count)
                    if selected is None:
                        places = first_queries + (part + tile * BLOCK_QUERIES) * (3 * INNER)
                    else:
                        places = base + row[:, None] * (3 * INNER) + column[None, :]
                    queries = tl.load(places, mask=(query < count)[:, None], other=0.0)
                    grad = tl.load(
                        first_grads + (part + tile * BLOCK_QUERIES) * INNER,
                        mask=(query < count)[:, None],
                        other=0.0,
                    )
                    limit = nearest[tile] + 1 if CAUSAL else tokens
                    weights, share = _share(
                        queries, keys, values, grad, own[tile], row, key, tokens, level[tile], scale,
                        start + BLOCK_KEYS > limit, CAUSAL,
                    )  # fmt: skip
                    value_grads = tl.dot(tl.trans(weights), grad, value_grads, input_precision="ieee")
                    key_grads = tl.dot(tl.trans(share), queries, key_grads, input_precision="ieee")
                    made = tl.dot(share, keys, made, input_precision="ieee")
                updated = updated + (made,)
            query_grads = updated
            key_sum += tl.sum(key_grads, 0)
            value_sum += tl.sum(value_grads, 0)
            if count > PART:
                kept = waiting + program * tokens * 2 * WIDTH + key[:, None] * (2 * WIDTH) + column[None, :]
                if part > 0:
                    key_grads += tl.load(kept, mask=(key < tokens)[:, None], other=0.0)
                    value_grads += tl.load(kept + WIDTH, mask=(key < tokens)[:, None], other=0.0)
                tl.store(kept, key_grads, mask=(key < tokens)[:, None])
                tl.store(kept + WIDTH, value_grads, mask=(key < tokens)[:, None])
            _store_keys(
                base_out, number, key_grads * scale, value_grads, start, tokens,
                WIDTH, INNER, BLOCK_KEYS,
            )  # fmt: skip
        for tile in tl.static_range(TILES):
            query = part + tile * BLOCK_QUERIES + block
            row = selected_rows(selected, query, count)
            made = query_grads[tile] * scale
            tl.store(
                base_out + row[:, None] * (3 * INNER) + column[None, :],
                made.to(out.dtype.element_ty),
                mask=(query < count)[:, None],
            )
            query_sum += tl.sum(made, 0)
        if count > PART:
            tl.debug_barrier()  # what waits was written by other threads than will read it
    partial = sums + prompt * sums_stride + head * WIDTH + column
    tl.store(partial, query_sum)
    tl.store(partial + INNER, key_sum * scale)
    tl.store(partial + 2 * INNER, value_sum)
