"""Greedy search, and what every search returns."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from algoformer.language.decode import NextToken
from algoformer.language.token_model import TokenModel


@dataclass(frozen=True, kw_only=True)
class Generation:
    """What was generated for each sequence of a batch, best first.

    Attributes:
        tokens: the new tokens, with the end token if it was reached; all behind it are end tokens too.
        lengths: how many there are; 0 where there is no such hypothesis.
        scores: log-probability divided by length ** length_penalty.
        ended: whether the end token was reached.
        iterations: of the loop, a mean over generated tokens.
    """

    tokens: Int[Tensor, "batch hypothesis token"]
    lengths: Int[Tensor, "batch hypothesis"]
    scores: Float[Tensor, "batch hypothesis"]
    ended: Bool[Tensor, "batch hypothesis"]
    iterations: float

    def texts(self, rank: int = 0) -> list[list[int]]:
        """The tokens of every sequence's hypothesis at a rank, without the end token."""
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
    """The most probable token again and again, the first of them if several are.

    A sequence that has reached the end token is frozen; the batch stops when all have.

    Args:
        decoder: a fresh decoder.
        input_ids: prefixes.
        attention_mask: which of their tokens are not padding, which may stand left or right; None
            means all.
        end: the token that ends a sequence.
        most: how many tokens are generated at most, the end token included.
        length_penalty: for the scores only.
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
    """Refuse a search that cannot be done."""
    if not 0 <= end < model.vocabulary:
        raise ValueError(f"end must be a token, 0..{model.vocabulary - 1}, got {end}")
    if most < 1:
        raise ValueError(f"most must be at least 1, got {most}")
    if not 0 <= length_penalty < math.inf:
        raise ValueError(
            f"length_penalty must be finite and not negative, got {length_penalty}; 1 is neutral"
        )
