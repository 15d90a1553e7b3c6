"""Multi-head softmax attention."""

from typing import NamedTuple, Protocol, runtime_checkable

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn


@runtime_checkable
class Memory(Protocol):
    """Keys and values of tokens that were read before."""

    def extend(
        self,
        key: Float[Tensor, "batch head token score"],
        value: Float[Tensor, "batch head token score"],
    ) -> tuple[Float[Tensor, "batch head key score"], Float[Tensor, "batch head key score"]]:
        """Remember new keys and values; all those that queries are now compared with."""
        ...


class Sight(NamedTuple):
    """What the tokens of one attention call see, where that is not simply all or all before them.

    A mask says everything about it: where there is one, `causal` of the attention does not matter. `asked`
    are the tokens that look; the others are only looked at. None means all.
    """

    mask: Bool[Tensor, "#batch 1 #token key"] | None = None
    memory: Memory | None = None
    asked: Int[Tensor, " asked"] | None = None


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

    `dropout` is the share of reads that are left out while training; it is set by `set_dropout`.
    """

    def __init__(
        self, *, width: int, heads: int, head_width: int, causal: bool, scale: float, bias: bool = True
    ) -> None:
        super().__init__()
        self.heads = heads
        self.head_width = head_width
        self.causal = causal
        self.scale = scale
        self.dropout = 0.0
        self.qkv = nn.Linear(width, 3 * heads * head_width, bias=bias)
        self.output = nn.Linear(heads * head_width, width, bias=bias)

    def forward(
        self, stream: Float[Tensor, "batch token width"], sight: Sight | None = None
    ) -> Float[Tensor, "batch asked width"]:
        """What the heads add to the stream, at the tokens that are asked."""
        mask, memory, asked = sight or Sight()
        if asked is None:
            query, key, value = self._heads(self.qkv(stream), 3)
        else:
            query, key, value = self._asked_heads(stream, asked)
        if memory is not None:
            key, value = memory.extend(key, value)
        if asked is not None:
            mask = self._asked_mask(asked, mask, key.shape[2])
        read = F.scaled_dot_product_attention(
            query,
            key,
            value,
            attn_mask=mask,
            dropout_p=self.dropout if self.training else 0.0,
            is_causal=self.causal and mask is None,
            scale=self.scale,
        )
        return self.output(read.transpose(1, 2).flatten(2))

    def _heads(self, product: Tensor, kinds: int) -> tuple[Tensor, ...]:
        batch, tokens, _ = product.shape
        each = product.view(batch, tokens, kinds, self.heads, self.head_width)
        # (batch, head, token, head_width) each; taken apart in this order, gradients are copied only once
        return tuple(kind.transpose(1, 2) for kind in each.unbind(2))

    def _asked_heads(self, stream: Tensor, asked: Tensor) -> tuple[Tensor, ...]:
        """Queries of the asked tokens, keys and values of all."""
        parts = [self.heads * self.head_width, 2 * self.heads * self.head_width]
        weights = self.qkv.weight.split(parts)
        biases = (None, None) if self.qkv.bias is None else self.qkv.bias.split(parts)
        queries = F.linear(stream.index_select(1, asked), weights[0], biases[0])
        return *self._heads(queries, 1), *self._heads(F.linear(stream, weights[1], biases[1]), 2)

    def _asked_mask(self, asked: Tensor, mask: Tensor | None, keys: int) -> Tensor | None:
        if mask is not None:
            return mask if mask.shape[2] == 1 else mask.index_select(2, asked)
        return asked[:, None] >= torch.arange(keys, device=asked.device) if self.causal else None
