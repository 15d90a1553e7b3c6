"""One transformer layer, for training and for theorems: attention and a feed-forward network."""

import inspect
import math
from collections.abc import Callable
from typing import NamedTuple, Protocol, runtime_checkable

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from algoformer.nn.tables import ACTIVATIONS, NORMS, PLACES, POSITIONS, LayerSizes, RMSNorm

AttentionMask = Bool[Tensor, "#batch 1 #token key"] | Float[Tensor, "#batch 1 #token key"]
"""The keys that each query may attend to, as booleans or as numbers that are added to the scores."""


@runtime_checkable
class KVCache(Protocol):
    """Keys and values of the tokens that one layer has read before."""

    def update(
        self, key: Float[Tensor, "batch head token score"], value: Float[Tensor, "batch head token score"]
    ) -> tuple[Float[Tensor, "batch head key score"], Float[Tensor, "batch head key score"]]:
        """Store new keys and values; return all keys and values to attend to."""
        ...


class AttentionContext(NamedTuple):
    """Everything that one attention call needs beside the stream; all of it is optional.

    Attributes:
        mask: which keys each query may attend to: True where it may, or numbers that are added to the scores,
            as `F.scaled_dot_product_attention` takes them. A mask replaces the causal mask.
        cache: keys and values of earlier tokens.
        positions: where each token stands in its sequence; None means 0, 1, 2, ...
        query_rows: the rows whose output is computed; None means all. Keys and values are always those of
            all rows.
        visit_weights: called with the attention weights; what it returns is used in their place. The
            weights are computed explicitly only if it is given.
    """

    mask: AttentionMask | None = None
    cache: KVCache | None = None
    positions: Int[Tensor, "#batch token"] | None = None
    query_rows: Int[Tensor, " row"] | None = None
    visit_weights: Callable[[Tensor], Tensor] | None = None

    @property
    def is_default(self) -> bool:
        """True if a call without this context would do the same."""
        return all(value is None for value in self)


class Attention(nn.Module):
    """Each token reads from the tokens it may see: sum over heads of W_O W_V x softmax(x W_K W_Q x).

    Queries, keys and values of all heads come from one product. The width of a head is free: the heads
    together need not be as wide as the stream.

    Attributes:
        scale: factor of the scores before the softmax.
        dropout: dropout rate of the attention weights; `set_dropout` sets it.
    """

    def __init__(self, sizes: LayerSizes) -> None:
        super().__init__()
        layers, width, one = sizes.settings, sizes.width, sizes.head_width
        self.heads, self.kv_heads, self.head_width = layers.heads, layers.kv_heads or layers.heads, one
        self.causal = layers.causal
        self.scale = 1 / math.sqrt(one) if layers.scaled else 1.0
        self.dropout = 0.0
        rotation = POSITIONS[layers.positions].rotation
        self.rotation = None if rotation is None else rotation(sizes)
        self.qkv = nn.Linear(width, (self.heads + 2 * self.kv_heads) * one, bias=bool(layers.bias))
        self.output = nn.Linear(self.heads * one, width, bias=layers.bias is True)
        self.query_norm = _qk_norm(sizes, self.heads)
        self.key_norm = _qk_norm(sizes, self.kv_heads)
        self.gate = nn.Linear(width, self.heads * one, bias=False) if layers.output_gate else None

    def forward(
        self, stream: Float[Tensor, "batch token width"], context: AttentionContext | None = None
    ) -> Float[Tensor, "batch row width"]:
        """Return what the heads add to the stream, at the query rows."""
        mask, cache, positions, rows, visit_weights = context or AttentionContext()
        query, key, value = self._heads(self.qkv(stream))
        if self.rotation is not None:
            query, key = self.rotation(query, positions), self.rotation(key, positions)
        if cache is not None:
            key, value = cache.update(key, value)
        if rows is not None:
            # on the token axis as it lies in memory, so that the heads' output needs no copy either
            query = query.transpose(1, 2).index_select(1, rows).transpose(1, 2)
            mask = self._mask_of_rows(rows, mask, key.shape[2])
        if visit_weights is None:
            read = F.scaled_dot_product_attention(
                query,
                key,
                value,
                attn_mask=mask,
                dropout_p=self.dropout if self.training else 0.0,
                is_causal=self.causal and mask is None,
                scale=self.scale,
                enable_gqa=self.kv_heads != self.heads,
            )
        else:
            key, value = (each.repeat_interleave(self.heads // self.kv_heads, 1) for each in (key, value))
            weights = visit_weights(self._weights(query, key, mask))
            read = F.dropout(weights, self.dropout, self.training) @ value
        found = read.transpose(1, 2).flatten(2)
        if self.gate is not None:
            found = found * torch.sigmoid(self.gate(stream if rows is None else stream.index_select(1, rows)))
        return self.output(found)

    def _heads(self, product: Tensor) -> tuple[Tensor, ...]:
        batch, tokens, _ = product.shape
        each = product.view(batch, tokens, self.heads + 2 * self.kv_heads, self.head_width)
        # (batch, head, token, head_width) each; split in this order, gradients are copied only once
        query, key, value = each.split([self.heads, self.kv_heads, self.kv_heads], dim=2)
        if self.query_norm is not None and self.key_norm is not None:
            query, key = self.query_norm(query), self.key_norm(key)
        return query.transpose(1, 2), key.transpose(1, 2), value.transpose(1, 2)

    def _weights(self, query: Tensor, key: Tensor, mask: Tensor | None) -> Tensor:
        """Return the attention weights, (batch, head, row, key)."""
        if mask is None and self.causal:
            mask = torch.ones(query.shape[2], key.shape[2], dtype=torch.bool, device=query.device).tril()
        scores = query @ key.mT * self.scale
        if mask is not None:
            scores = scores.masked_fill(~mask, float("-inf")) if mask.dtype == torch.bool else scores + mask
        return scores.softmax(dim=-1)

    def _mask_of_rows(self, rows: Tensor, mask: Tensor | None, keys: int) -> Tensor | None:
        if mask is not None:
            return mask if mask.shape[2] == 1 else mask.index_select(2, rows)
        return rows[:, None] >= torch.arange(keys, device=rows.device) if self.causal else None


class FullHeadNorm(nn.Module):
    """One RMS norm over all heads of a token together."""

    def __init__(self, heads: int, head_width: int, eps: float) -> None:
        super().__init__()
        self.norm = RMSNorm(heads * head_width, eps=eps)

    def forward(
        self, values: Float[Tensor, "batch token head score"]
    ) -> Float[Tensor, "batch token head score"]:
        """Return queries or keys, normed."""
        return self.norm(values.flatten(2)).view_as(values)


def _qk_norm(sizes: LayerSizes, heads: int) -> nn.Module | None:
    kind, eps = sizes.settings.qk_norm, sizes.norm_eps
    if kind == "full":
        return FullHeadNorm(heads, sizes.head_width, eps)
    return None if kind == "none" else RMSNorm(sizes.head_width, eps=eps, elementwise_affine=kind == "head")


class FeedForward(nn.Module):
    """W_2 activation(W_1 x + b_1) + b_2; gated, W_2 (activation(W_1 x + b_1) ⊙ (W_3 x + b_3)) + b_2.

    A gated network makes W_1 x and W_3 x, in this order, by one product `up`.
    """

    def __init__(self, sizes: LayerSizes) -> None:
        super().__init__()
        layers, width = sizes.settings, sizes.width
        hidden, bias = layers.hidden or 4 * width, layers.bias is True
        self.activation, self.gated = ACTIVATIONS[layers.activation].function, layers.gated
        self.up = nn.Linear(width, 2 * hidden if layers.gated else hidden, bias=bias)
        self.down = nn.Linear(hidden, width, bias=bias)

    def forward(self, stream: Float[Tensor, "batch token width"]) -> Float[Tensor, "batch token width"]:
        """Return what the network adds to the stream."""
        hidden = self.up(stream)
        if not self.gated:
            return self.down(self.activation(hidden))
        gate, values = hidden.chunk(2, dim=-1)
        return self.down(self.activation(gate) * values)


class Layer(nn.Module):
    """Attention, then a feed-forward network, each added to the stream.

    With norms, scaled scores and GELU it is the pre-norm block of GPT-2 that is trained; with neither and
    ReLU it is the paper's Equation 1 to the letter, in which the theorems are built. Of the positions only
    those that rotate queries and keys belong to a layer. `dropout` is the dropout rate of what is added to
    the stream; `set_dropout` sets it.

    Args:
        sizes: the sizes and the `Layers` that say what the layer is like: `Layers(...).sizes(width)`.
    """

    def __init__(self, sizes: LayerSizes) -> None:
        super().__init__()
        layers = sizes.settings
        places = [] if layers.norm == "none" else layers.norm_at.split("+")
        build = NORMS[layers.norm].build
        norms = [build(sizes) if place in places else None for place in PLACES for _ in range(2)]
        self.attention_norm, feedforward_norm = norms[0] or nn.Identity(), norms[1] or nn.Identity()
        self.attention_out_norm, feedforward_out_norm = norms[2:4]
        self.attention_after_norm, feedforward_after_norm = norms[4:]
        self.attention = Attention(sizes)
        self.feedforward_norm = feedforward_norm
        self.feedforward_out_norm, self.feedforward_after_norm = feedforward_out_norm, feedforward_after_norm
        self.feedforward = FeedForward(sizes)
        self.dropout = 0.0

    def forward(
        self, stream: Float[Tensor, "batch token width"], context: AttentionContext | None = None
    ) -> Float[Tensor, "batch row width"]:
        """Return the stream after this layer, at the query rows of the context."""
        rows = None if context is None else context.query_rows
        read = self._attend(self.attention_norm(stream), context)
        if rows is not None:
            stream = stream.index_select(1, rows)
        stream = self._add(stream, read, self.attention_out_norm, self.attention_after_norm)
        made = self.feedforward(self.feedforward_norm(stream))
        return self._add(stream, made, self.feedforward_out_norm, self.feedforward_after_norm)

    def _attend(self, normed: Tensor, context: AttentionContext | None) -> Tensor:
        attention: nn.Module = self.attention
        if context is None:
            return attention(normed)
        if isinstance(attention, Attention):
            return attention(normed, context)
        # an attention module of the user's own need not know about query rows, nor about contexts
        rows, context = context.query_rows, context._replace(query_rows=None)
        if context.visit_weights is not None and len(inspect.signature(attention.forward).parameters) < 2:
            context = context._replace(visit_weights=None)
        read = attention(normed) if context.is_default else attention(normed, context)
        return read if rows is None else read.index_select(1, rows)

    def _add(
        self, stream: Tensor, added: Tensor, out_norm: nn.Module | None, after_norm: nn.Module | None
    ) -> Tensor:
        if out_norm is not None:
            added = out_norm(added)
        stream = stream + (F.dropout(added, self.dropout) if self.training and self.dropout else added)
        return stream if after_norm is None else after_norm(stream)


def added_to_scores(
    mask: Bool[Tensor, "#batch 1 #token key"], dtype: torch.dtype
) -> Float[Tensor, "#batch 1 #token key"]:
    """Return a mask as numbers that are added to the scores: 0 where a query may attend, -inf elsewhere.

    PyTorch makes these numbers from booleans in every layer that attends. Rows begin at multiples of 16
    bytes, as its kernels need them; others are copied.
    """
    keys = mask.shape[-1]
    room = torch.zeros(*mask.shape[:-1], keys + -keys % 8, dtype=dtype, device=mask.device)
    return room[..., :keys].masked_fill_(~mask, float("-inf"))


def set_dropout(module: nn.Module, *, residual: float, attention: float) -> None:
    """Set the dropout rates of every layer inside `module`.

    Masks are drawn anew whenever a layer runs. A layer in a loop runs with another mask at every iteration,
    so that an iteration learns to continue from a state that another mask has made.
    """
    for name, rate in {"residual": residual, "attention": attention}.items():
        if not 0 <= rate < 1:
            raise ValueError(f"{name} dropout must be at least 0 and below 1, got {rate}")
    for layer in module.modules():
        if isinstance(layer, Layer):
            layer.dropout = residual
            layer.attention.dropout = attention


def initialize(layer: Layer, *, depth: int) -> None:
    """Initialize as GPT-2 does: N(0, 0.02), the two projections into the stream smaller by √(2·depth)."""
    for module in (layer.attention.qkv, layer.feedforward.up, layer.attention.gate):
        if module is not None:
            nn.init.normal_(module.weight, std=0.02)
    for module in (layer.attention.output, layer.feedforward.down):
        nn.init.normal_(module.weight, std=0.02 / math.sqrt(2 * depth))
    for module in (layer.attention.qkv, layer.feedforward.up, layer.attention.output, layer.feedforward.down):
        if module.bias is not None:
            nn.init.zeros_(module.bias)
