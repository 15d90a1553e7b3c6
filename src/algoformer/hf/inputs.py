"""Checks of inputs, attention masks and KV caches that callers of `transformers` models pass."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

STATES = "model.model.trace(input_ids, unroll) returns the states that unroll.keep names"


def check_inputs(
    input_ids: Tensor | None, options: Mapping[str, Any], config: Any, *, refused: tuple[str, ...] = ()
) -> Tensor:
    """Return the tokens; refuse inputs and outputs that models of `transformers` have and programs do not.

    Raises:
        ValueError: the message says what to use instead.
    """
    for name in ("output_hidden_states", "output_attentions"):
        if options.get(name, getattr(config, name)):
            raise ValueError(f"{name}=True is not supported; {STATES}")
    for name in ("inputs_embeds", *refused):
        if options.get(name) is not None:
            raise ValueError(f"{name} is not supported; leave it out and give input_ids")
    if input_ids is None:
        raise ValueError("input_ids must be given")
    return input_ids


def check_checkpointing(use_cache: bool, cache: Any) -> None:
    """Refuse a KV cache where gradient checkpointing would fill it a second time."""
    if use_cache or cache is not None:
        raise ValueError(
            "gradient checkpointing runs iterations twice and cannot fill a KV cache; leave out "
            "past_key_values and use_cache while training"
        )


def check_embedding(weight: Tensor, states: Tensor) -> None:
    """Refuse scores from an embedding that was offloaded after it was looked up in."""
    if weight.is_meta and not states.is_meta:
        raise ValueError(
            "the embedding also gives the scores and cannot be offloaded; "
            'give device_map={"model.trunk.embedding": a device, ...}'
        )


def checked_mask(mask: Tensor, tokens: int | Tensor, dtype: torch.dtype) -> Tensor:
    """Return an attention mask for a cache and input of `tokens` tokens together.

    It is one for each token, (batch, token), or what attention takes, (batch, 1, token, key): booleans, or
    numbers that are added to the scores.

    Raises:
        ValueError: it has another shape, or is one of whole numbers where they could mean both.
    """
    if mask.ndim == 4 and mask.is_floating_point():
        # the least number of a broader type would be infinite, and a row of nothing else has no softmax
        return mask.to(dtype).clamp(min=torch.finfo(dtype).min)
    if mask.ndim == 4 and mask.dtype != torch.bool:
        raise ValueError(
            f"attention_mask of 4 dimensions must be of booleans, or of numbers that are added to the "
            f"scores, got {mask.dtype}; use attention_mask.bool() if 1 means that a token is seen"
        )
    if mask.ndim not in (2, 4):
        raise ValueError(f"attention_mask must have 2 or 4 dimensions, got shape {tuple(mask.shape)}")
    # a compiled step does not wait for the device
    if mask.ndim == 2 and not torch.compiler.is_compiling() and mask.shape[1] != tokens:
        raise ValueError(
            f"attention_mask must cover all {int(tokens)} tokens, those in the KV cache included, "
            f"got {mask.shape[1]}"
        )
    return mask


def check_cache(cache: Any, slots: int) -> None:
    """Refuse a cache that was made for another number of steps.

    Raises:
        ValueError: the message names both numbers of layers.
    """
    layers = getattr(cache, "layers", ())
    if len(layers) not in (0, slots):
        made = "filled by" if cache.get_seq_length() else "made for"
        raise ValueError(
            f"the KV cache was {made} {len(layers)} layers and the model now runs {slots}; "
            "start from an empty DynamicCache() after a change of steps"
        )
