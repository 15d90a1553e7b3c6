"""Checks of inputs, attention masks and KV caches that callers of `transformers` models pass."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from algoformer.common.names import did_you_mean
from algoformer.common.terminal import short
from algoformer.model.program import Program, traced_part

STATES = "model.model.trace(input_ids, unroll) returns the states that unroll.keep names"

LOSS = ("num_items_in_batch", "ignore_index", "shift_labels")
"""Keywords that the loss functions of `transformers` know."""


def check_inputs(
    input_ids: Tensor | None, labels: Tensor | None, options: Mapping[str, Any], model: Any
) -> Tensor:
    """Return the tokens; refuse inputs and outputs that models of `transformers` have and programs do not.

    What asks for nothing, None or False, is accepted. A loss function of the user's own gets every keyword.

    Raises:
        ValueError: the message says what to use instead.
    """
    for name in ("output_hidden_states", "output_attentions"):
        if options.get(name, getattr(model.config, name)):
            raise ValueError(f"{name}=True is not supported; {STATES}")
    known = tuple(options) if labels is not None and has_own_loss(model) else LOSS
    for name, value in options.items():
        if name in known or value is None or (value is False and name != "is_causal"):
            continue
        if name == "token_type_ids" and _is_one_segment(value):
            continue
        hint = _INSTEAD.get(name) or did_you_mean(name, ("input_ids", "attention_mask", "labels", "steps"))
        raise ValueError(f"{name} is not supported; leave it out{hint}")
    if input_ids is None:
        raise ValueError("input_ids must be given")
    if not isinstance(input_ids, Tensor) or input_ids.ndim != 2 or input_ids.is_floating_point():
        raise ValueError(f"input_ids must be whole numbers of shape (batch, token), got {_found(input_ids)}")
    return input_ids


def has_own_loss(model: Any) -> bool:
    """Return whether the user has set the loss function of a model, which may then take any keyword."""
    return hasattr(model, "_loss_function")  # where `transformers` keeps it


def _is_one_segment(token_type_ids: Any) -> bool:
    # some tokenizers number the segments of a text; a compiled step does not wait for the device
    return torch.compiler.is_compiling() or (isinstance(token_type_ids, Tensor) and not token_type_ids.any())


_INSTEAD = {
    "inputs_embeds": " and give input_ids",
    "cache_position": ": it follows from past_key_values",
}


def check_positions(position_ids: Tensor, tokens: torch.Size, limit: int | None) -> None:
    """Refuse positions that are not one for each token, or not among the `limit` that were learned.

    Without a limit any whole numbers are positions, as in `transformers`.
    """
    check_rows("position_ids", position_ids, tokens)
    if position_ids.dtype not in (torch.int64, torch.int32):
        raise ValueError(
            f"position_ids must be whole numbers, got {position_ids.dtype}; use position_ids.long()"
        )
    # a compiled step does not wait for the device
    if limit is None or torch.compiler.is_compiling() or not position_ids.numel():
        return
    least, most = (int(one) for one in position_ids.aminmax())
    if least < 0 or most >= limit:
        raise ValueError(
            f"position_ids must be from 0 to {limit - 1}, because the model has learned positions, "
            f"got {least if least < 0 else most}; begin at 0, or build the model with a larger context"
        )


def check_rows(name: str, values: Any, tokens: torch.Size) -> None:
    """Refuse what is neither a tensor of (batch, token) nor one row for all sequences."""
    batch, length = tokens
    if not isinstance(values, Tensor):
        raise ValueError(f"{name} must be a tensor, got {type(values).__name__}")
    if values.ndim != 2 or values.shape[0] not in (1, batch) or values.shape[1] != length:
        every = "" if batch == 1 else f", or (1, {length}) for all sequences"
        raise ValueError(f"{name} must have shape {(batch, length)}{every}, got {_found(values)}")


def _found(values: Any) -> str:
    return f"shape {tuple(values.shape)}" if isinstance(values, Tensor) else type(values).__name__


def kept_rows(logits_to_keep: int | Tensor) -> slice | Tensor:
    """Return which tokens logits are computed of: the last ones by their number, or some by their indices."""
    if isinstance(logits_to_keep, Tensor) and logits_to_keep.ndim == 1:
        if not logits_to_keep.is_floating_point():
            return logits_to_keep
    elif isinstance(logits_to_keep, int) and not isinstance(logits_to_keep, bool) and logits_to_keep >= 0:
        return slice(-logits_to_keep or None, None)
    raise ValueError(
        "logits_to_keep must be the number of last tokens, 0 for all, or a vector of indices, "
        f"got {_found(logits_to_keep) if isinstance(logits_to_keep, Tensor) else short(logits_to_keep)}"
    )


def check_labels(labels: Tensor, logits: Tensor) -> None:
    """Refuse labels that are not one for each token whose logits were computed."""
    if labels.shape != logits.shape[:2]:
        raise ValueError(
            f"labels must have the shape of the logits, {tuple(logits.shape[:2])}, "
            f"got {tuple(labels.shape)}; leave out logits_to_keep, or give labels of the same tokens"
        )


def check_recompute(program: Program, function: Any, every_n_layers: int) -> None:
    """Refuse gradient checkpointing of anything but every iteration of the traced loop."""
    if traced_part(program) is None:
        raise ValueError(
            "gradient checkpointing runs the iterations of a loop again, and the program has none; "
            "leave it out"
        )
    if every_n_layers != 1 or getattr(function, "func", function) is not checkpoint:
        raise ValueError(
            "gradient checkpointing runs every iteration of a loop again, and keeps its input on the device; "
            f"leave out every_n_layers={every_n_layers} and offload"
        )


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


def checked_mask(
    mask: Tensor, input_ids: Tensor, past: int | Tensor, keys: int, dtype: torch.dtype
) -> Tensor:
    """Return an attention mask for the tokens behind `past` others, which attend to `keys` places of a cache.

    It is one for each token, (batch, token), those in the cache included, or what attention takes,
    (batch, 1, token, key): booleans, or numbers that are added to the scores.

    Raises:
        ValueError: it has another shape, or is one of whole numbers where they could mean both.
    """
    if not isinstance(mask, Tensor):
        raise ValueError(f"attention_mask must be a tensor, got {type(mask).__name__}")
    if mask.ndim == 4:
        return _added_mask(mask, input_ids, keys, dtype)
    if mask.ndim != 2:
        raise ValueError(f"attention_mask must have 2 or 4 dimensions, got shape {tuple(mask.shape)}")
    # a compiled step does not wait for the device
    if torch.compiler.is_compiling():
        return mask
    tokens = int(past + input_ids.shape[1])
    if mask.shape[1] != tokens:
        raise ValueError(
            f"attention_mask must cover all {tokens} tokens, those in the KV cache included, "
            f"got {mask.shape[1]}"
        )
    check_rows("attention_mask", mask, torch.Size((len(input_ids), tokens)))
    return mask


def _added_mask(mask: Tensor, input_ids: Tensor, keys: int, dtype: torch.dtype) -> Tensor:
    batch, tokens = input_ids.shape
    given = (mask.shape[0] in (1, batch), mask.shape[2] in (1, tokens), mask.shape[3] == keys)
    if not torch.compiler.is_compiling() and not all(given):
        raise ValueError(
            f"attention_mask must have shape {(batch, 1, tokens, keys)}, got shape {tuple(mask.shape)}"
        )
    if mask.is_floating_point():
        # the least number of a broader type would be infinite, and a row of nothing else has no softmax
        return mask.to(dtype).clamp(min=torch.finfo(dtype).min)
    if mask.dtype != torch.bool:
        raise ValueError(
            f"attention_mask of 4 dimensions must be of booleans, or of numbers that are added to the "
            f"scores, got {mask.dtype}; use attention_mask.bool() if 1 means that a token is seen"
        )
    return mask


def check_type_of_cache(cache: Any) -> None:
    """Refuse tuples of keys and values, which releases of `transformers` before 5 took."""
    if cache is not None and not hasattr(cache, "get_seq_length"):
        raise ValueError(
            f"past_key_values must be a Cache of transformers, got {type(cache).__name__}; "
            "start from DynamicCache()"
        )


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
