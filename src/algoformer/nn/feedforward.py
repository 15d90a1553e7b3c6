"""The network that each token passes through on its own."""

import math
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

STEEPNESS = math.sqrt(8 / math.pi)
"""Of the sigmoid at 0 by which GELU multiplies."""

CURVATURE = 0.044715 * STEEPNESS


def gelu(values: Tensor) -> Tensor:
    """GPT-2's GELU, x (1 + tanh(u)) / 2 = x sigmoid(2u) with 2u = (STEEPNESS + CURVATURE x²) x.

    On a CPU PyTorch's own kernel computes a slow tanh on the way there and again on the way back.
    """
    if values.device.type != "cpu" or values.dtype not in (torch.float32, torch.float64):
        return F.gelu(values, approximate="tanh")
    found: Tensor = _Gelu.apply(values, torch.is_grad_enabled())
    return found


class _Gelu(torch.autograd.Function):
    """GELU by a sigmoid; its slope is made on the way there, and kept instead of the input."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, tracked: bool) -> Tensor:
        # as few passes over the values as there can be
        steepness = values.new_full((), STEEPNESS)
        share = torch.addcmul(steepness, values, values, value=CURVATURE).mul_(values).sigmoid_()
        result = values * share
        if tracked:
            # x σ (1 - σ) first: zero for large x, before it meets their squares
            rest = torch.addcmul(result, result, share, value=-1)
            steep = torch.addcmul(steepness, values, values, value=3 * CURVATURE)
            ctx.save_for_backward(share.addcmul_(steep, rest))
        return result

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        if torch.is_grad_enabled():  # create_graph: the input, which the slope's own slope needs, is gone
            raise RuntimeError(
                "on a CPU this GELU can be differentiated once only; for second derivatives let each "
                'FeedForward have activation = functools.partial(F.gelu, approximate="tanh")'
            )
        return grad * ctx.saved_tensors[0], None


ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "gelu": gelu,
    "relu": F.relu,
}
"""Activation by name: GPT-2's tanh GELU for trained layers, ReLU for the paper's Equation 1."""


class FeedForward(nn.Module):
    """W_2 activation(W_1 x + b_1) + b_2."""

    def __init__(self, *, width: int, hidden: int, activation: str, bias: bool = True) -> None:
        super().__init__()
        self.activation_name = activation
        self.activation = ACTIVATIONS[activation]
        self.up = nn.Linear(width, hidden, bias=bias)
        self.down = nn.Linear(hidden, width, bias=bias)

    def forward(self, stream: Float[Tensor, "batch token width"]) -> Float[Tensor, "batch token width"]:
        """What the network adds to the stream."""
        return self.down(self.activation(self.up(stream)))
