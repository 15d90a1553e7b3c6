"""Decoders of `transformers` as programs of this library, with their weights."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, overload

import torch
from torch import Tensor

from algoformer.hf.installed import transformers
from algoformer.hf.loopify import LoopedConfig
from algoformer.hf.model import AlgoformerForSequenceClassification, ProgramModel
from algoformer.language.classifier import TextClassifier
from algoformer.language.token_model import TokenModel
from algoformer.model.formats import FORMATS, MODERN
from algoformer.model.program import Layers, Loop, Part, Program
from algoformer.model.two_states import TwoStates

PRE_NORM = {"attention_norm": "input_layernorm", "feedforward_norm": "post_attention_layernorm"}
ACTIVATIONS = {
    "silu": "silu",
    "gelu_new": "gelu",
    "gelu_pytorch_tanh": "gelu",
    "gelu": "gelu_exact",
    "relu": "relu",
}

Maps = dict[str, tuple[str, ...]]
"""For each map or norm of our layer, those of theirs."""

LLAMA_MAPS: Maps = {
    "attention.qkv": ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"),
    "attention.output": ("self_attn.o_proj",),
    "attention.gate": ("self_attn.gate_proj",),
    "attention.query_norm": ("self_attn.q_norm",),
    "attention.key_norm": ("self_attn.k_norm",),
    "feedforward.up": ("mlp.gate_proj", "mlp.up_proj"),
    "feedforward.down": ("mlp.down_proj",),
}
GPT2_MAPS: Maps = {
    "attention.qkv": ("attn.c_attn",),
    "attention.output": ("attn.c_proj",),
    "feedforward.up": ("mlp.c_fc",),
    "feedforward.down": ("mlp.c_proj",),
}


@dataclass(frozen=True, kw_only=True)
class Family:
    """The layers of one family of `transformers` as fields of `Layers`.

    Attributes:
        words: fields of `Layers` that the family always has, besides those that its configuration sets.
        maps: for each map or norm of our layer those of theirs whose rows it holds, one after another; a
            layer without them has none.
        transposed: whether their products have the input first.
        norms: our norms of a layer by theirs.
        norm_shift: what is added to their norm weights.
        scale: factor of the embeddings, from the configuration.
    """

    words: dict[str, Any] = field(default_factory=lambda: MODERN)
    maps: Maps = field(default_factory=lambda: LLAMA_MAPS)
    transposed: bool = False
    norms: dict[str, str] = field(default_factory=lambda: PRE_NORM)
    norm_shift: float = 0.0
    scale: Callable[[Any], float] = lambda config: 1.0


OUT_NORMS = {
    "attention_out_norm": "post_attention_layernorm",
    "feedforward_out_norm": "post_feedforward_layernorm",
}
BOTH_NORMS = {
    "attention_norm": "input_layernorm",
    "feedforward_norm": "pre_feedforward_layernorm",
    **OUT_NORMS,
}
FAMILIES = {
    "llama": Family(),
    "mistral": Family(),
    "qwen2": Family(words=FORMATS["qwen2"]),
    "qwen3": Family(words=FORMATS["qwen3"]),
    "olmo2": Family(words=FORMATS["olmo2"], norms=OUT_NORMS),
    "gemma2": Family(
        words={**MODERN, "norm_at": "in+out"},
        norms=BOTH_NORMS,
        norm_shift=1.0,
        scale=lambda config: config.hidden_size**0.5,
    ),
    "gpt2": Family(
        maps=GPT2_MAPS, transposed=True, norms={"attention_norm": "ln_1", "feedforward_norm": "ln_2"}
    ),
    "hrm_text": Family(words=FORMATS["hrm_text"], norms={}, scale=lambda config: config.embedding_scale),
}
"""The families that are imported, by `model_type`."""


@overload
def from_hf(model: AlgoformerForSequenceClassification) -> TextClassifier: ...


@overload
def from_hf(model: Any) -> TokenModel: ...


def from_hf(model: Any) -> TokenModel | TextClassifier:
    """Return a decoder of `transformers` as a `TokenModel` with a copy of its weights.

    A model that `loopify` has looped becomes a program with that loop. The result computes the logits of the
    original up to rounding, for an HRM-Text without `token_type_ids`. Dropout rates are those of the
    original; the embeddings have that of the layers. Gradients flow through every iteration. A program does
    not hold the numbers of special tokens: give those of the original to `generate`.

    Args:
        model: a causal language model of one of `FAMILIES`, or what `to_hf` returned.

    Raises:
        ValueError: it is not a causal language model, the family is not known, or the model uses a feature
            that programs do not have.
    """
    if isinstance(model, ProgramModel):
        return model.own_model()
    # of peft, or of transformers with an adapter inside; some versions leave `peft_config` after a merge
    if hasattr(model, "merge_and_unload") or getattr(model, "_hf_peft_config_loaded", False):
        raise ValueError("from_hf needs plain weights; merge the adapter first: model.merge_and_unload()")
    if not isinstance(model, transformers.PreTrainedModel):
        raise ValueError(
            f"from_hf needs a model of transformers, got {type(model).__name__}; "
            "open one with AutoModelForCausalLM.from_pretrained"
        )
    config = model.config
    family = FAMILIES.get(config.model_type)
    if family is None:
        raise ValueError(
            f"from_hf does not know the family {config.model_type!r}; it knows {', '.join(FAMILIES)}"
        )
    if model.get_output_embeddings() is None:
        raise ValueError(
            f"from_hf needs a causal language model, got {type(model).__name__}, which scores no tokens; "
            "open it with AutoModelForCausalLM"
        )
    _check_features(config)
    if config.model_type == "hrm_text" and bool(model.model.z_L_init.any()):
        raise ValueError(
            "from_hf cannot import this hrm_text: it has a fast state that does not start at zero"
        )
    scale = family.scale(config)
    tied = bool(config.tie_word_embeddings) and scale == 1.0
    gpt2 = config.model_type == "gpt2"
    with torch.device("meta"):
        ours = TokenModel(
            _program(config, family),
            vocabulary=config.vocab_size,
            context=config.max_position_embeddings,
            width=config.hidden_size,
            tied=tied,
            dropout=config.resid_pdrop if gpt2 else 0.0,
            attention_dropout=config.attn_pdrop if gpt2 else config.attention_dropout,
        )
    weights = _weights(model, ours.program, family, scale)
    if not tied:
        weights["output.weight"] = model.get_output_embeddings().weight
    copied = {name: weight.detach().clone().contiguous() for name, weight in weights.items()}
    ours.load_state_dict(copied, assign=True)
    return ours.train(model.training)


def _program(config: Any, family: Family) -> Program:
    layers = _gpt2_layers(config) if config.model_type == "gpt2" else _llama_layers(config, family)
    if config.model_type == "hrm_text":
        stack = replace(layers, count=config.num_layers_per_stack)
        low = Loop(stack, steps=config.L_cycles, name="low")
        both = (low, replace(stack, name="high"))
        return Program(TwoStates(both, steps=config.H_cycles, inject="none", name="loop"))
    loop = config.loop if isinstance(config, LoopedConfig) else None
    if loop is None:
        return Program(replace(layers, count=config.num_hidden_layers))
    # positions that are added to the stream are added once, positions that rotate belong to every layer
    kept = "none" if layers.adds_positions else layers.positions
    inner = replace(layers, final_norm=False, positions=kept)
    parts: list[Part] = []
    if loop["prelude"] or layers.adds_positions:
        parts.append(replace(layers, count=loop["prelude"], final_norm=False, name="prelude"))
    parts.append(Loop(replace(inner, count=loop["core"]), steps=loop["steps"], inject="none", name="loop"))
    parts.append(replace(inner, count=loop["coda"], final_norm=True, name="coda"))
    return Program(*parts)


def _llama_layers(config: Any, family: Family) -> Layers:
    heads = config.num_attention_heads
    groups = getattr(config, "num_key_value_heads", None) or heads
    sizes: dict[str, Any] = {
        "norm_eps": config.rms_norm_eps,
        "rope_base": config.rope_parameters["rope_theta"],
        "activation": ACTIVATIONS[_activation(config)],
        "hidden": config.intermediate_size,
        "head_width": getattr(config, "head_dim", None) or config.hidden_size // heads,
        "kv_heads": None if groups == heads else groups,
    }
    return Layers(1, heads, **(family.words | sizes))


def _gpt2_layers(config: Any) -> Layers:
    return Layers(
        1,
        config.n_head,
        hidden=config.n_inner or 4 * config.n_embd,
        activation=ACTIVATIONS[_activation(config)],
        norm_eps=config.layer_norm_epsilon,
    )


def _activation(config: Any) -> str:
    # families keep it under different names
    names = ("hidden_activation", "hidden_act", "activation_function")
    return str(next(filter(None, (getattr(config, name, None) for name in names))))


def _check_features(config: Any) -> None:
    rope = getattr(config, "rope_parameters", None) or {}
    head_width = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    windowed = "sliding_attention" in (getattr(config, "layer_types", None) or ())
    window = getattr(config, "sliding_window", None)
    short = window is not None and window < config.max_position_embeddings
    unknown = {
        "rope of type " + str(rope.get("rope_type")): rope.get("rope_type", "default") != "default",
        "a sliding window": short and (windowed or config.model_type == "mistral"),
        "capped scores": bool(getattr(config, "attn_logit_softcapping", None)),
        "capped logits": bool(getattr(config, "final_logit_softcapping", None)),
        "another scale of scores": getattr(config, "query_pre_attn_scalar", head_width) != head_width,
        "biases": bool(getattr(config, "attention_bias", False) or getattr(config, "mlp_bias", False)),
        "scores scaled by layer": bool(getattr(config, "scale_attn_by_inverse_layer_idx", False)),
        "attention in both directions": not getattr(config, "is_causal", True),
        "unscaled scores": not getattr(config, "scale_attn_weights", True),
        f"an activation {_activation(config)}": _activation(config) not in ACTIVATIONS,
    }
    for feature, present in unknown.items():
        if present:
            raise ValueError(f"from_hf cannot import this {config.model_type}: it has {feature}")


def _weights(model: Any, program: Program, family: Family, scale: float) -> dict[str, Tensor]:
    decoder = model.get_decoder()
    gpt2 = model.config.model_type == "gpt2"
    stored = stored_layers(model.config.model_type, decoder)
    weights = {"trunk.embedding.weight": model.get_input_embeddings().weight * scale}
    places = list(_places(program))
    for place, layer in zip(places, stored, strict=True):
        found = _layer_weights(layer, family)
        for ours, theirs in family.norms.items():
            norm = getattr(layer, theirs)
            found |= {f"{ours}.{name}": weight for name, weight in norm.named_parameters()}
            found[f"{ours}.weight"] = norm.weight + family.norm_shift
        weights |= {f"trunk.body.{place}.{name}": weight for name, weight in found.items()}
    if model.config.model_type == "hrm_text":
        return weights  # its norms have no weights
    final, last = decoder.ln_f if gpt2 else decoder.norm, f"trunk.body.parts.{len(program) - 1}.final_norm"
    weights |= {f"{last}.{name}": weight for name, weight in final.named_parameters()}
    weights[f"{last}.weight"] = final.weight + family.norm_shift
    if gpt2:
        weights["trunk.body.parts.0.positions.table"] = decoder.wpe.weight
    return weights


def stored_layers(model_type: str, decoder: Any) -> list[Any]:
    """Return the layers of a decoder of `transformers`, each once, in the order of the program's."""
    if model_type == "gpt2":
        return list(decoder.h.children())
    if model_type == "hrm_text":
        return [*decoder.L_module.layers, *decoder.H_module.layers]
    return list(decoder.layers.children())


def _places(program: Program, prefix: str = "parts") -> Iterator[str]:
    for index, part in enumerate(program):
        here = f"{prefix}.{index}"
        if isinstance(part, Loop):
            yield from _places(part.body, f"{here}.body.parts")
        else:
            assert isinstance(part, Layers)
            yield from (f"{here}.layers.{number}" for number in range(part.count))


def module_at(layer: Any, path: str) -> Any:
    """Return a module inside a layer by its path; None if the layer has none there."""
    for name in path.split("."):
        layer = getattr(layer, name, None)
    return layer


def _layer_weights(layer: Any, family: Family) -> dict[str, Tensor]:
    found = {}
    for ours, theirs in family.maps.items():
        modules = [module_at(layer, path) for path in theirs]
        if modules[0] is None:
            continue
        over_heads = ours.endswith("_norm") and family.words.get("qk_norm") == "full"
        for name, _ in modules[0].named_parameters():
            weight = torch.cat([module.get_parameter(name) for module in modules])
            # a norm over all heads together is a module around the norm
            place = f"{ours}.norm.{name}" if over_heads else f"{ours}.{name}"
            found[place] = weight.T if family.transposed and weight.ndim == 2 else weight
    return found
