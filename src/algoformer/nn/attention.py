"""Multi-head softmax attention."""

import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn


class Attention(nn.Module):
    """Each token reads from the tokens it may see: sum over heads of W_O W_V x softmax(x W_K W_Q x).

    Queries, keys and values of all heads come from one product. The width of a head is free: the heads
    together need not be as wide as the stream.

    Args:
        width: of the stream.
        heads: how many.
        head_width: of the queries, keys and values of one head.
        causal: whether a token sees only itself and what comes before it.
        scale: what scores are multiplied by before the softmax.
        bias: whether the two projections have a bias.
    """

    def __init__(
        self, *, width: int, heads: int, head_width: int, causal: bool, scale: float, bias: bool = True
    ) -> None:
        super().__init__()
        self.heads = heads
        self.head_width = head_width
        self.causal = causal
        self.scale = scale
        self.qkv = nn.Linear(width, 3 * heads * head_width, bias=bias)
        self.output = nn.Linear(heads * head_width, width, bias=bias)

    def forward(self, stream: Float[Tensor, "batch token width"]) -> Float[Tensor, "batch token width"]:
        """What the heads add to the stream."""
        batch, tokens, _ = stream.shape
        qkv = self.qkv(stream).view(batch, tokens, 3, self.heads, self.head_width)
        # (batch, head, token, head_width) each; taken apart in this order, gradients are copied only once
        query, key, value = (each.transpose(1, 2) for each in qkv.unbind(2))
        read = F.scaled_dot_product_attention(query, key, value, is_causal=self.causal, scale=self.scale)
        return self.output(read.transpose(1, 2).reshape(batch, tokens, -1))
