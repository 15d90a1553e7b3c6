"""One transformer layer, for training and for theorems."""

import math

import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from algoformer.nn.attention import Attention, Sight
from algoformer.nn.feedforward import FeedForward


class Layer(nn.Module):
    """Attention, then a feed-forward network, each added to the stream.

    With `norm` and `scaled` and GELU it is the pre-norm block of GPT-2 that is trained; with neither and
    ReLU it is the paper's Equation 1 to the letter, in which the theorems are built. `dropout` is the share
    of what is added that is left out while training; it is set by `set_dropout`.
    """

    def __init__(
        self,
        *,
        width: int,
        heads: int,
        head_width: int,
        hidden: int,
        causal: bool = True,
        norm: bool = True,
        scaled: bool = True,
        activation: str = "gelu",
        bias: bool = True,
    ) -> None:
        super().__init__()
        scale = 1 / math.sqrt(head_width) if scaled else 1.0
        self.attention_norm = nn.LayerNorm(width) if norm else nn.Identity()
        self.attention = Attention(
            width=width, heads=heads, head_width=head_width, causal=causal, scale=scale, bias=bias
        )
        self.feedforward_norm = nn.LayerNorm(width) if norm else nn.Identity()
        self.feedforward = FeedForward(width=width, hidden=hidden, activation=activation, bias=bias)
        self.dropout = 0.0

    def forward(
        self, stream: Float[Tensor, "batch token width"], sight: Sight | None = None
    ) -> Float[Tensor, "batch asked width"]:
        """The stream after this layer, at the tokens that are asked."""
        normed = self.attention_norm(stream)
        read = self._read(normed, sight)
        if sight is not None and sight.asked is not None:
            stream = stream.index_select(1, sight.asked)
        stream = stream + self._thinned(read)
        return stream + self._thinned(self.feedforward(self.feedforward_norm(stream)))

    def _read(self, normed: Tensor, sight: Sight | None) -> Tensor:
        attention: nn.Module = self.attention
        if sight is None:
            return attention(normed)
        if sight.asked is None or isinstance(attention, Attention):
            return attention(normed, sight)
        # somebody's own attention need not know of questions, nor of anything that is not there
        plain = sight.mask is None and sight.memory is None
        whole = attention(normed) if plain else attention(normed, sight._replace(asked=None))
        return whole.index_select(1, sight.asked)

    def _thinned(self, added: Tensor) -> Tensor:
        return F.dropout(added, self.dropout) if self.training and self.dropout else added


def set_dropout(module: nn.Module, *, residual: float, attention: float) -> None:
    """Let every layer inside leave out shares of what it adds and of what its heads read, while training.

    Draws are fresh whenever a layer runs. A layer in a loop runs with other draws at every iteration, so
    that an iteration learns to carry on from a state that another draw has made.
    """
    for name, rate in {"residual": residual, "attention": attention}.items():
        if not 0 <= rate < 1:
            raise ValueError(f"{name} dropout must lie in 0..1, 1 left out, got {rate}")
    for layer in module.modules():
        if isinstance(layer, Layer):
            layer.dropout = residual
            layer.attention.dropout = attention


def initialize(layer: Layer, *, depth: int) -> None:
    """GPT-2's initialization: N(0, 0.02), and the two projections into the stream smaller by √(2·depth)."""
    for module in (layer.attention.qkv, layer.feedforward.up):
        nn.init.normal_(module.weight, std=0.02)
    for module in (layer.attention.output, layer.feedforward.down):
        nn.init.normal_(module.weight, std=0.02 / math.sqrt(2 * depth))
    for module in (layer.attention.qkv, layer.feedforward.up, layer.attention.output, layer.feedforward.down):
        if module.bias is not None:
            nn.init.zeros_(module.bias)
