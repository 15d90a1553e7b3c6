"""The hypotheses that a beam search keeps, and the choice of the largest scores."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

NOWHERE = float("-inf")
"""The score of a missing hypothesis."""


class Hypotheses:
    """The best hypotheses of each sentence, best first."""

    def __init__(self, batch: int, size: int, longest: int, eos_id: int, device: torch.device) -> None:
        self.scores = torch.full((batch, size), NOWHERE, device=device)
        self.tokens = torch.full((batch, size, longest), eos_id, device=device)
        self.lengths = torch.zeros(batch, size, dtype=torch.int64, device=device)
        self.ended = torch.zeros(batch, size, dtype=torch.bool, device=device)

    def full(self, rows: Int[Tensor, " sequence"]) -> Bool[Tensor, " sequence"]:
        """Return which of these sentences have as many ended hypotheses as the beam is wide."""
        return (self.scores[rows] > NOWHERE).all(dim=1)

    def add(
        self, rows: Tensor, scores: Tensor, tokens: Tensor, length: int, *, ended: bool, which: Tensor
    ) -> None:
        """Offer hypotheses to those of the sentences `rows` that are not full, and keep the best."""
        offered = scores.masked_fill(~which | self.full(rows)[:, None], NOWHERE)
        size = self.scores.shape[1]
        best, order = first_largest(torch.cat([self.scores[rows], offered], dim=1), size)
        there = best > NOWHERE
        lengths = torch.full_like(offered, length, dtype=torch.int64)
        self.scores[rows] = best
        self.tokens[rows] = gather_beams(torch.cat([self.tokens[rows], tokens], dim=1), order)
        self.lengths[rows] = torch.cat([self.lengths[rows], lengths], dim=1).gather(1, order) * there
        flags = torch.full_like(offered, ended, dtype=torch.bool)
        self.ended[rows] = torch.cat([self.ended[rows], flags], dim=1).gather(1, order) & there

    def best(self, count: int) -> dict[str, Tensor]:
        """Return scores, tokens, lengths and ends of the first hypotheses of every sentence, by name."""
        return {name: hypotheses[:, :count] for name, hypotheses in vars(self).items()}


def first_largest(
    scores: Float[Tensor, "batch choice"], count: int
) -> tuple[Float[Tensor, "batch best"], Int[Tensor, "batch best"]]:
    """Return the largest scores and their indices, largest first; of equal scores, the first one.

    `torch.topk` does not define which of equal scores it takes. Where there may be equal ones, score and
    index are packed into one integer, no two of which are equal: the bits of the score, in an order that
    follows its value, then the index.

    >>> first_largest(torch.tensor([[1.0, 3.0, -2.0, 3.0]]), 3)[1].tolist()
    [[1, 3, 0]]
    """
    if scores.device.type == "cpu" and count < scores.shape[1]:
        value, index = scores.topk(count + 1, dim=1)
        if bool((value[:, 1:] < value[:, :-1]).all()):  # there is one order only
            return value[:, :count], index[:, :count]
    bits = (scores.float() + 0.0).view(torch.int32)  # + 0.0 makes one zero of the two there are
    ordered = bits ^ ((bits >> 31) & 0x7FFFFFFF)
    last = (1 << 32) - 1
    places = last - torch.arange(scores.shape[1], device=scores.device)
    best = ((ordered.long() << 32) | places).topk(count, dim=1).values
    index = last - (best & last)
    return scores.gather(1, index), index


def gather_beams(
    tokens: Int[Tensor, "batch hypothesis token"], index: Int[Tensor, "batch best"]
) -> Int[Tensor, "batch best token"]:
    """Return the tokens of the beams with these indices."""
    return tokens.gather(1, index[..., None].expand(-1, -1, tokens.shape[-1]))
