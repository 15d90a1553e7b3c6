"""Greedy search, and the result that every search returns."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from algoformer.common.terminal import short
from algoformer.language.decode import NextToken
from algoformer.language.token_model import TokenModel

LARGEST_PENALTY = 10
"""The largest length penalty; with a larger one, powers of the length overflow."""


@dataclass(frozen=True, kw_only=True)
class Generation:
    """The generated hypotheses of each sequence of a batch, best first.

    Attributes:
        tokens: the new tokens, including the end token if it was reached; padded with end tokens.
        lengths: the number of new tokens; 0 if there is no such hypothesis.
        scores: log-probability divided by length ** length_penalty.
        ended: whether the end token was reached.
        iterations: the mean number of loop iterations per generated token.
    """

    tokens: Int[Tensor, "batch hypothesis token"]
    lengths: Int[Tensor, "batch hypothesis"]
    scores: Float[Tensor, "batch hypothesis"]
    ended: Bool[Tensor, "batch hypothesis"]
    iterations: float

    def texts(self, rank: int = 0) -> list[list[int]]:
        """Return the tokens of the hypothesis at `rank` for every sequence, without the end token."""
        counts = (self.lengths[:, rank] - self.ended[:, rank].long()).tolist()
        rows = self.tokens[:, rank].tolist()
        return [row[:count] for row, count in zip(rows, counts, strict=True)]


def greedy_search(
    decoder: NextToken,
    input_ids: Int[Tensor, "batch token"],
    attention_mask: Bool[Tensor, "batch token"] | None = None,
    *,
    end: int,
    most: int,
    length_penalty: int | float = 1.0,
) -> Generation:
    """Generate the most probable token at every step; of equal ones, the one with the smallest id.

    A sequence that has reached the end token stays as it is; the batch stops when all have ended.

    Args:
        decoder: a new decoder.
        input_ids: the prefixes to continue.
        attention_mask: the attention mask of the prefixes, padded left or right; None means no padding.
        end: the id of the token that ends a sequence.
        most: the maximum number of new tokens, including the end token.
        length_penalty: used for the scores only.
    """
    check_search(decoder.model, end=end, most=most, length_penalty=length_penalty)
    scores = decoder.prefill(input_ids, attention_mask)
    batch = len(input_ids)
    tokens = torch.full((batch, most), end, device=input_ids.device)
    lengths = torch.zeros(batch, dtype=torch.int64, device=input_ids.device)
    ended = torch.zeros(batch, dtype=torch.bool, device=input_ids.device)
    total = torch.zeros(batch, device=input_ids.device)
    iterations = torch.zeros(batch, device=input_ids.device)
    for place in range(most):
        best, token = (scores.float().log_softmax(dim=-1) + total[:, None]).max(dim=-1)
        total = torch.where(ended, total, best)
        token = token.masked_fill(ended, end)
        tokens[:, place] = token
        lengths += ~ended
        iterations += torch.where(ended, 0, decoder.iterations)
        ended = ended | (token == end)
        if place + 1 == most or bool(ended.all()):
            break
        scores = decoder.step(token)
    return Generation(
        tokens=tokens[:, None],
        lengths=lengths[:, None],
        scores=(total / lengths**length_penalty)[:, None],
        ended=ended[:, None],
        iterations=float(iterations.sum() / lengths.sum()),
    )


def check_search(model: TokenModel, *, end: int, most: int, length_penalty: int | float) -> None:
    """Refuse search arguments that are out of range."""
    if not 0 <= end < model.vocabulary:
        raise ValueError(f"end must be a token, 0..{model.vocabulary - 1}, got {end}")
    if most < 1:
        raise ValueError(f"most must be at least 1, got {most}")
    if not 0 <= length_penalty <= LARGEST_PENALTY:
        raise ValueError(
            f"length_penalty must lie in 0..{LARGEST_PENALTY}, got {short(length_penalty)}; 1 is neutral"
        )
