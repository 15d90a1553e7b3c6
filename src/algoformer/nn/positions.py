"""Positions of tokens in their sequence."""

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn


class LearnedPositions(nn.Module):
    """One learned vector for each position in the sequence, added to the stream."""

    def __init__(self, *, context: int, width: int) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.zeros(context, width))

    def forward(
        self,
        stream: Float[Tensor, "batch token width"],
        positions: Int[Tensor, "#batch token"] | None = None,
    ) -> Float[Tensor, "batch token width"]:
        """Add the vectors of `positions`, by default of 0, 1, 2, ..., to the stream."""
        tokens = stream.shape[1]
        if tokens > self.table.shape[0]:
            raise ValueError(
                f"a sequence of {tokens} tokens is longer than the context of {self.table.shape[0]} "
                "positions this model was built with; build it with a larger context"
            )
        return stream + (self.table[:tokens] if positions is None else F.embedding(positions, self.table))
