"""The network that each token passes through on its own."""

from jaxtyping import Float
from torch import Tensor, nn

from algoformer.nn.activations import ACTIVATIONS


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
