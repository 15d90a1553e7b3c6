"""The network that each token passes through on its own."""

from jaxtyping import Float
from torch import Tensor, nn

from algoformer.nn.activations import ACTIVATIONS


class FeedForward(nn.Module):
    """W_2 activation(W_1 x + b_1) + b_2."""

    def __init__(self, *, width: int, hidden: int, activation: str, bias: bool = True) -> None:
        super().__init__()
        self.activation = ACTIVATIONS[activation].function
        self.up = nn.Linear(width, hidden, bias=bias)
        self.down = nn.Linear(hidden, width, bias=bias)

    def forward(self, stream: Float[Tensor, "batch token width"]) -> Float[Tensor, "batch token width"]:
        """Return what the network adds to the stream."""
        return self.down(self.activation(self.up(stream)))
