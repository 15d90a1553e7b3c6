"""One transformer layer, for training and for theorems."""

import math

from jaxtyping import Float
from torch import Tensor, nn

from algoformer.nn.attention import Attention
from algoformer.nn.feedforward import FeedForward


class Layer(nn.Module):
    """Attention, then a feed-forward network, each added to the stream.

    With `norm` and `scaled` and GELU it is the pre-norm block of GPT-2 that is trained; with neither and
    ReLU it is the paper's Equation 1 to the letter, in which the theorems are built.
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

    def forward(self, stream: Float[Tensor, "batch token width"]) -> Float[Tensor, "batch token width"]:
        """The stream after this layer."""
        stream = stream + self.attention(self.attention_norm(stream))
        return stream + self.feedforward(self.feedforward_norm(stream))


def initialize(layer: Layer, *, depth: int) -> None:
    """GPT-2's initialization: N(0, 0.02), and the two projections into the stream smaller by √(2·depth)."""
    for module in (layer.attention.qkv, layer.feedforward.up):
        nn.init.normal_(module.weight, std=0.02)
    for module in (layer.attention.output, layer.feedforward.down):
        nn.init.normal_(module.weight, std=0.02 / math.sqrt(2 * depth))
    for module in (layer.attention.qkv, layer.feedforward.up, layer.attention.output, layer.feedforward.down):
        if module.bias is not None:
            nn.init.zeros_(module.bias)
