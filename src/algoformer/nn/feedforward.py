"""The network that each token passes through on its own."""

from collections.abc import Callable
from functools import partial

import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "gelu": partial(F.gelu, approximate="tanh"),
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
