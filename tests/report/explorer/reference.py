"""Layers and injections written out in PyTorch, for words of programs that the page knows."""

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

Part = dict[str, Any]
Weights = dict[str, Tensor]

ACTIVATIONS = {
    "gelu": lambda x: F.gelu(x, approximate="tanh"),
    "gelu_exact": F.gelu,
    "relu": F.relu,
    "silu": F.silu,
    "relu2": lambda x: F.relu(x).square(),
}


def shapes(part: Part, width: int, prefix: str) -> dict[str, tuple[int, ...]]:
    """The parameters of a module of layers, by name."""
    heads, size = part["heads"], part.get("head_width") or width // part["heads"]
    groups, hidden = part.get("kv_heads") or heads, part.get("hidden") or 4 * width
    norm = {"layer": ("weight", "bias"), "rms": ("weight",)}.get(part["norm"], ())
    found: dict[str, tuple[int, ...]] = {f"{prefix}.final_norm.{name}": (width,) for name in norm}
    for number in range(part["count"]):
        layer = f"{prefix}.layers.{number}"
        for side in ("attention", "feedforward"):
            for place in part.get("norm_at", ["in"]):
                suffix = "" if place == "in" else f"_{place}"
                found |= {f"{layer}.{side}_norm{suffix}.{name}": (width,) for name in norm}
        found[f"{layer}.attention.qkv.weight"] = ((heads + 2 * groups) * size, width)
        if part["bias"]:
            found[f"{layer}.attention.qkv.bias"] = ((heads + 2 * groups) * size,)
        found[f"{layer}.attention.output.weight"] = (width, heads * size)
        if part.get("gate"):
            found[f"{layer}.attention.gate.weight"] = (heads * size, width)
        lengths = {"head": (size, size), "full": (heads * size, groups * size)}.get(part.get("qk_norm", ""))
        if lengths and part["norm"] == "rms":
            found[f"{layer}.attention.query_norm.weight"] = (lengths[0],)
            found[f"{layer}.attention.key_norm.weight"] = (lengths[1],)
        found[f"{layer}.feedforward.up.weight"] = (hidden * (2 if part.get("gated") else 1), width)
        found[f"{layer}.feedforward.down.weight"] = (width, hidden)
    return found


def normed(x: Tensor, kind: str, weights: Weights, name: str, eps: float) -> Tensor:
    if kind == "layer":
        return F.layer_norm(x, x.shape[-1:], weights[f"{name}.weight"], weights[f"{name}.bias"], eps)
    return F.rms_norm(x, x.shape[-1:], weights.get(f"{name}.weight"), eps)


def rotated(x: Tensor, base: float) -> Tensor:
    """RoPE in halves for (head, token, size)."""
    size = x.shape[-1]
    angles = torch.arange(x.shape[1])[:, None] * base ** (-torch.arange(0, size, 2) / size)
    first, second = x.chunk(2, dim=-1)
    cosine, sine = angles.cos(), angles.sin()
    return torch.cat([first * cosine - second * sine, second * cosine + first * sine], dim=-1)


def run_layers(part: Part, weights: Weights, prefix: str, stream: Tensor) -> Tensor:
    """A module of layers on a stream (token, width)."""
    tokens, width = stream.shape
    if part["positions"] == "sinusoid":
        even = torch.arange(0, width, 2)
        angles = torch.arange(tokens)[:, None] / 10_000 ** (even / width)
        stream = stream + torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)[:, :width]
    eps, kind = part.get("norm_eps", 1e-5), part["norm"]
    for number in range(part["count"]):
        layer = f"{prefix}.layers.{number}"
        for side, run in (("attention", run_attention), ("feedforward", run_feedforward)):
            places = part.get("norm_at", ["in"]) if kind != "none" else []
            inner = normed(stream, kind, weights, f"{layer}.{side}_norm", eps) if "in" in places else stream
            added = run(part, weights, f"{layer}.{side}", inner)
            if "out" in places:
                added = normed(added, kind, weights, f"{layer}.{side}_norm_out", eps)
            stream = stream + added
            if "after" in places:
                stream = normed(stream, kind, weights, f"{layer}.{side}_norm_after", eps)
    return normed(stream, kind, weights, f"{prefix}.final_norm", eps) if part["final_norm"] else stream


def run_attention(part: Part, weights: Weights, name: str, x: Tensor) -> Tensor:
    heads, size = part["heads"], part.get("head_width") or x.shape[1] // part["heads"]
    groups, scope = part.get("kv_heads") or heads, part.get("qk_norm", "none")
    product = F.linear(x, weights[f"{name}.qkv.weight"], weights.get(f"{name}.qkv.bias"))
    query, key, value = product.split([heads * size, groups * size, groups * size], dim=-1)
    eps = part.get("norm_eps", 1e-5)
    if scope == "full":
        query = normed(query, "rms", weights, f"{name}.query_norm", eps)
        key = normed(key, "rms", weights, f"{name}.key_norm", eps)
    query, key, value = (each.unflatten(1, (-1, size)).transpose(0, 1) for each in (query, key, value))
    if scope == "head":
        query = normed(query, "rms", weights, f"{name}.query_norm", eps)
        key = normed(key, "rms", weights, f"{name}.key_norm", eps)
    if part["positions"] == "rope":
        query, key = (rotated(each, part.get("rope_base", 10_000.0)) for each in (query, key))
    read = F.scaled_dot_product_attention(
        query[None],
        key[None],
        value[None],
        is_causal=True,
        scale=1 / math.sqrt(size),
        enable_gqa=True,
    )[0]
    read = read.transpose(0, 1).flatten(1)
    if part.get("gate"):
        read = read * torch.sigmoid(F.linear(x, weights[f"{name}.gate.weight"]))
    return F.linear(read, weights[f"{name}.output.weight"])


def run_feedforward(part: Part, weights: Weights, name: str, x: Tensor) -> Tensor:
    inner = F.linear(x, weights[f"{name}.up.weight"])
    activation = ACTIVATIONS[part["activation"]]
    if part.get("gated"):
        gate, up = inner.chunk(2, dim=-1)
        inner = activation(gate) * up
    else:
        inner = activation(inner)
    return F.linear(inner, weights[f"{name}.down.weight"])


def injected(kind: str, weights: Weights, name: str, state: Tensor, entry: Tensor) -> Tensor:
    if kind == "concat":
        return F.linear(torch.cat([state, entry], dim=-1), weights[f"{name}.mix.weight"])
    if kind == "decay":
        step = F.softplus(weights[f"{name}.step_size"])
        keep = torch.exp(-step * weights[f"{name}.log_rate"].exp())
        return keep * state + step * F.linear(entry, weights[f"{name}.input_map.weight"])
    return state + entry
