"""One transformer layer, for training and for theorems: attention and a feed-forward network."""

import math
from typing import Any

import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from algoformer.nn.attention import Attention, AttentionContext
from algoformer.nn.positions import POSITIONS
from algoformer.nn.tables import ACTIVATIONS, NORMS, PLACES, LayerSizes, check_places


class FeedForward(nn.Module):
    """W_2 activation(W_1 x + b_1) + b_2; gated, W_2 (activation(W_1 x + b_1) ⊙ (W_3 x + b_3)) + b_2.

    A gated network makes W_1 x and W_3 x, in this order, by one product `up`.
    """

    def __init__(
        self, *, width: int, hidden: int, activation: str, bias: bool = True, gated: bool = False
    ) -> None:
        super().__init__()
        self.activation = ACTIVATIONS[activation].function
        self.gated = gated
        self.up = nn.Linear(width, 2 * hidden if gated else hidden, bias=bias)
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

    With `norm` and `scaled` and GELU it is the pre-norm block of GPT-2 that is trained; with neither and
    ReLU it is the paper's Equation 1 to the letter, in which the theorems are built. `norm`, `activation` and
    `positions` are names of the tables `NORMS`, `ACTIVATIONS` and `POSITIONS`; of the positions only those
    that rotate queries and keys belong to a layer. `norm_at` says where norms stand: f(norm(x)) is "in",
    x + norm(f(x)) "out", norm(x + f(x)) "after", and "in+out" has two of them. `settings` is handed
    to the builders of the tables. `dropout` is the dropout rate of what is added to the stream;
    `set_dropout` sets it.
    """

    def __init__(
        self,
        *,
        width: int,
        heads: int,
        head_width: int,
        hidden: int,
        causal: bool = True,
        norm: str | bool = "layer",
        scaled: bool = True,
        activation: str = "gelu",
        bias: bool | str = True,
        positions: str | bool = "none",
        norm_at: str = "in",
        norm_eps: float = 1e-5,
        kv_heads: int | None = None,
        qk_norm: str = "none",
        output_gate: bool = False,
        gated: bool = False,
        settings: Any = None,
    ) -> None:
        super().__init__()
        sizes = LayerSizes(width=width, head_width=head_width, norm_eps=norm_eps, settings=settings)
        rotation = POSITIONS[positions].rotation
        kind = NORMS[norm]
        if norm_at not in PLACES:
            norm_at = check_places(norm_at)
        places = norm_at.split("+") if kind is not NORMS["none"] else []
        norms = {
            place: [kind.build(sizes) if place in places else None for _ in range(2)] for place in PLACES
        }
        self.attention_norm, feedforward_norm = (one or nn.Identity() for one in norms["in"])
        self.attention_out_norm, feedforward_out_norm = norms["out"]
        self.attention_after_norm, feedforward_after_norm = norms["after"]
        self.attention = Attention(
            width=width,
            heads=heads,
            head_width=head_width,
            causal=causal,
            scale=1 / math.sqrt(head_width) if scaled else 1.0,
            bias=bias,
            kv_heads=kv_heads,
            qk_norm=qk_norm,
            norm_eps=norm_eps,
            output_gate=output_gate,
            rotation=None if rotation is None else rotation(sizes),
        )
        self.feedforward_norm = feedforward_norm
        self.feedforward_out_norm, self.feedforward_after_norm = feedforward_out_norm, feedforward_after_norm
        self.feedforward = FeedForward(
            width=width, hidden=hidden, activation=activation, bias=bias is True, gated=gated
        )
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
        read = attention(normed) if context.is_default else attention(normed, context)
        return read if rows is None else read.index_select(1, rows)

    def _add(
        self, stream: Tensor, added: Tensor, out_norm: nn.Module | None, after_norm: nn.Module | None
    ) -> Tensor:
        if out_norm is not None:
            added = out_norm(added)
        stream = stream + (F.dropout(added, self.dropout) if self.training and self.dropout else added)
        return stream if after_norm is None else after_norm(stream)


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
