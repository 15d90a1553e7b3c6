"""Tiny random models of `transformers`, one for each family that is tested."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

transformers = pytest.importorskip("transformers")

TOKENS = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
SHAPE = {
    "vocab_size": 64,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_attention_heads": 4,
    "max_position_embeddings": 64,
    **TOKENS,
}
GROUPED = {**SHAPE, "num_key_value_heads": 2}
ALTERNATING = ["sliding_attention", "full_attention"]

OPTIONS: dict[str, tuple[str, dict[str, Any]]] = {
    "gpt2": ("GPT2LMHeadModel", {"vocab_size": 64, "n_positions": 64, "n_embd": 32, "n_head": 4, **TOKENS}),
    "gpt_neox": ("GPTNeoXForCausalLM", SHAPE),
    "opt": ("OPTForCausalLM", {**SHAPE, "ffn_dim": 48, "word_embed_proj_dim": 32}),
    "llama": ("LlamaForCausalLM", GROUPED),
    "mistral": ("MistralForCausalLM", {**GROUPED, "sliding_window": 6}),
    "mixtral": ("MixtralForCausalLM", {**GROUPED, "num_local_experts": 4}),
    "qwen2": ("Qwen2ForCausalLM", GROUPED),
    "qwen3": ("Qwen3ForCausalLM", {**GROUPED, "head_dim": 16}),
    "olmo2": ("Olmo2ForCausalLM", GROUPED),
    "phi3": ("Phi3ForCausalLM", GROUPED),
    "smollm3": ("SmolLM3ForCausalLM", {**GROUPED, "no_rope_layers": [1, 0, 0, 1]}),
    "hrm_text": ("HrmTextForCausalLM", {**SHAPE, "head_dim": 8, "H_cycles": 2, "L_cycles": 3}),
    "gemma2": ("Gemma2ForCausalLM", {**GROUPED, "head_dim": 8, "sliding_window": 6}),
}
"""The class and the options of each family; attention alternates with a sliding window in Gemma 2."""


def tiny(family: str, *, layers: int = 4, seed: int = 0, **options: Any) -> Any:
    """Return a tiny model of a family; no weight of a norm is one and no bias is zero."""
    name, given = OPTIONS[family]
    model_class: Callable[..., Any] = getattr(transformers, name)
    settings = {**given, "n_layer" if family == "gpt2" else "num_hidden_layers": layers, **options}
    torch.manual_seed(seed)
    model = model_class(model_class.config_class(**settings)).eval()
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(0.1 * torch.randn_like(weight))
    return model
