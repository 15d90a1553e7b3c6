"""Prompt rows to tokens of the stream, and tokens back to answers."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor, nn


class ReadIn(nn.Module):
    """A linear map from rows to tokens, with blank tokens before and after them if asked.

    `maps` is 1 for one map shared by all rows (the trained models), or the number of rows in a sample for
    a map of its own for each kind of row, so that an x and a y land in different coordinates of the
    stream (the theorems). A blank token is zero: only its position tells it from others.
    """

    def __init__(self, *, dim: int, width: int, maps: int = 1, blanks: tuple[int, int] = (0, 0)) -> None:
        super().__init__()
        self.width = width
        self.maps = nn.ModuleList(nn.Linear(dim, width) for _ in range(maps))
        self.blanks = blanks

    def forward(self, rows: Float[Tensor, "batch row dim"]) -> Float[Tensor, "batch token width"]:
        """The first state of the stream."""
        if len(self.maps) == 1:
            tokens = self.maps[0](rows)
        else:
            kinds = len(self.maps)
            tokens = rows.new_empty(*rows.shape[:2], self.width)
            for kind, linear in enumerate(self.maps):
                tokens[:, kind::kinds] = linear(rows[:, kind::kinds])
        before, after = self.blanks
        return nn.functional.pad(tokens, (0, 0, before, after)) if before or after else tokens
