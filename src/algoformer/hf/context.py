"""Masks, positions and KV caches of `transformers` as the context of a forward pass."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from algoformer.hf.inputs import check_cache, check_positions, check_type_of_cache, checked_mask
from algoformer.language.cache import slots_of
from algoformer.language.trunk import positions_of
from algoformer.model.driver import DEFAULT, ForwardContext


def context_of(
    model: Any,
    input_ids: Tensor,
    attention_mask: Tensor | None,
    position_ids: Tensor | None,
    cache: Any,
    steps: int,
) -> ForwardContext:
    """Return the context of a forward pass of a wrapped language model that runs `steps` iterations."""
    if attention_mask is None and position_ids is None and cache is None:
        return DEFAULT
    check_type_of_cache(cache)
    tokens, device = input_ids.shape[1], input_ids.device
    past = 0 if cache is None else cache.get_seq_length()  # of a static cache a tensor on the device
    # a compiled step does not wait for the device
    if not torch.compiler.is_compiling() and past + tokens > model.config.max_position_embeddings:
        raise ValueError(
            f"a sequence of {int(past + tokens)} tokens is longer than "
            f"max_position_embeddings={model.config.max_position_embeddings}; shorten it"
        )
    if position_ids is not None:
        check_positions(position_ids, input_ids.shape, model.learned_positions)
    keys = tokens if cache is None else cache.get_mask_sizes(tokens, 0)[0]
    if attention_mask is not None:
        attention_mask = checked_mask(attention_mask, input_ids, past, keys, model.dtype)
    rows = past + torch.arange(tokens, device=device)
    mask = _causal_mask(rows, keys, attention_mask)
    if position_ids is not None and attention_mask is None and cache is None:
        mask = mask & _same_document(position_ids)
    if position_ids is None:
        padded = attention_mask is not None and attention_mask.ndim == 2
        position_ids = positions_of(attention_mask.bool())[:, rows] if padded else rows[None]  # type: ignore[union-attr]
    if cache is None:
        return ForwardContext(causal_mask=mask, positions=position_ids)
    names = list(slots_of(model.model.program, steps=steps))
    check_cache(cache, max(len(names), 1))
    if not names:
        _count(cache, input_ids, model.dtype)
    index = {name: number for number, name in enumerate(names)}
    return ForwardContext(
        causal_mask=mask, positions=position_ids, cache=lambda address: CacheEntry(cache, index[address])
    )


def _causal_mask(rows: Tensor, keys: int, attention_mask: Tensor | None) -> Tensor:
    if attention_mask is not None and attention_mask.ndim == 4:
        return attention_mask
    places = torch.arange(keys, device=rows.device)
    mask = (places[None] <= rows[:, None])[None, None]
    if attention_mask is None:
        return mask
    real = nn.functional.pad(attention_mask.bool(), (0, keys - attention_mask.shape[1]))
    # a row that is masked as a whole has no softmax: every token attends to itself, padding too
    return (mask & real[:, None, None]) | (places[None] == rows[:, None])


def _same_document(position_ids: Tensor) -> Tensor:
    """Return which tokens belong to one document of a packed row: its positions count up one by one."""
    document = nn.functional.pad((position_ids.diff(dim=1) != 1).cumsum(dim=1), (1, 0))
    return (document[:, :, None] == document[:, None, :])[:, None]


def _count(cache: Any, input_ids: Tensor, dtype: torch.dtype) -> None:
    """Count the tokens in a cache that no attention layer fills: later tokens stand behind them."""
    nothing = torch.zeros(len(input_ids), 1, input_ids.shape[1], 1, device=input_ids.device, dtype=dtype)
    cache.update(nothing, nothing, 0)


class CacheEntry:
    """One entry of a cache of `transformers`, as the cache of one layer."""

    def __init__(self, cache: Any, index: int) -> None:
        self.cache, self.index = cache, index

    def update(self, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """Store new keys and values; return all keys and values to attend to."""
        return self.cache.update(key, value, self.index)
