"""Beam search."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from algoformer.language.decode import NextToken
from algoformer.language.greedy import Generation, check_search
from algoformer.language.token_model import TokenModel

NOWHERE = float("-inf")
"""The score of a missing hypothesis."""


def beam_search(
    decoder: NextToken,
    input_ids: Int[Tensor, "batch token"],
    attention_mask: Bool[Tensor, "batch token"] | None = None,
    *,
    end: int,
    most: int,
    beam: int,
    length_penalty: int | float = 1.0,
    nbest: int = 1,
) -> Generation:
    """Keep the `beam` most probable sequences; return the best by log-probability / length ** penalty.

    A sequence ends when the end token is among the `beam` best continuations. When `beam` sequences of a
    sentence have ended, it is done. Sequences that have not ended after `most` tokens compete with
    those that have. Ties are broken in a fixed order, by the better beam and then by the smaller token id, so
    that the result is deterministic.

    Args:
        decoder: a new decoder.
        input_ids: the prefixes to continue.
        attention_mask: the attention mask of the prefixes, padded left or right; None means no padding.
        end: the id of the token that ends a sequence.
        most: the maximum number of new tokens, including the end token.
        beam: the beam width; 1 is greedy search.
        length_penalty: 0 favors short sequences; 1 compares mean log-probabilities.
        nbest: the number of hypotheses returned for each sequence.
    """
    model = decoder.model
    check_search(model, end=end, most=most, length_penalty=length_penalty)
    check_beam(model, beam=beam, nbest=nbest)
    scores = decoder.prefill(input_ids, attention_mask)
    batch, device = len(input_ids), input_ids.device
    first = torch.arange(batch, device=device)[:, None] * beam  # where each sentence's beams begin
    decoder.select((first // beam).expand(batch, beam).flatten())
    scores = scores.repeat_interleave(beam, dim=0)
    total = torch.full((batch, beam), NOWHERE, device=device)
    total[:, 0] = 0.0  # all beams are alike at first
    tokens = torch.full((batch, beam, most), end, device=device)
    pool = _Pool(batch, beam, most, end, device)
    iterations, count = torch.zeros((), device=device), 0
    for length in range(1, most + 1):
        iterations, count = iterations + decoder.iterations.mean(), count + 1
        chances = scores.float().log_softmax(dim=-1).view(batch, beam, -1) + total[..., None]
        value, index = first_largest(chances.flatten(1), 2 * beam)
        source, token = index // model.vocabulary, index % model.vocabulary
        candidates = _gather(tokens, source)
        candidates[:, :, length - 1] = token
        ends = token == end
        within = ends & (torch.arange(2 * beam, device=device) < beam)
        pool.add(value / length**length_penalty, candidates, length, ended=True, which=within)
        # at most one continuation of each beam is the end, so that there are enough others
        going = ends.int().argsort(dim=1, stable=True)[:, :beam]
        total, tokens = value.gather(1, going), _gather(candidates, going)
        if length == most:
            everyone = torch.ones_like(total, dtype=torch.bool)
            pool.add(total / length**length_penalty, tokens, length, ended=False, which=everyone)
            break
        if bool(pool.full.all()):
            break
        decoder.select((first + source.gather(1, going)).flatten(), same_prefix=True)
        scores = decoder.step(tokens[:, :, length - 1].flatten())
    return Generation(
        tokens=pool.tokens[:, :nbest],
        lengths=pool.lengths[:, :nbest],
        scores=pool.scores[:, :nbest],
        ended=pool.ended[:, :nbest],
        iterations=float(iterations / count),
    )


class _Pool:
    """The best hypotheses of each sentence, best first."""

    def __init__(self, batch: int, size: int, most: int, end: int, device: torch.device) -> None:
        self.scores = torch.full((batch, size), NOWHERE, device=device)
        self.tokens = torch.full((batch, size, most), end, device=device)
        self.lengths = torch.zeros(batch, size, dtype=torch.int64, device=device)
        self.ended = torch.zeros(batch, size, dtype=torch.bool, device=device)

    @property
    def full(self) -> Tensor:
        """Mark the sequences that have as many ended hypotheses as the beam is wide."""
        return (self.scores > NOWHERE).all(dim=1)

    def add(self, scores: Tensor, tokens: Tensor, length: int, *, ended: bool, which: Tensor) -> None:
        """Add hypotheses to the sequences that are not full, and keep the best."""
        offered = scores.masked_fill(~which | self.full[:, None], NOWHERE)
        size = self.scores.shape[1]
        best, order = first_largest(torch.cat([self.scores, offered], dim=1), size)
        there = best > NOWHERE
        lengths = torch.cat([self.lengths, torch.full_like(offered, length, dtype=torch.int64)], dim=1)
        flags = torch.cat([self.ended, torch.full_like(offered, ended, dtype=torch.bool)], dim=1)
        self.scores = best
        self.tokens = _gather(torch.cat([self.tokens, tokens], dim=1), order)
        self.lengths = lengths.gather(1, order) * there
        self.ended = flags.gather(1, order) & there


def first_largest(
    scores: Float[Tensor, "batch choice"], count: int
) -> tuple[Float[Tensor, "batch best"], Int[Tensor, "batch best"]]:
    """Return the largest scores and their indices, largest first; of equal scores, the first one.

    `torch.topk` does not define which of equal scores it takes. Here score and index are packed into one
    integer, no two of which are equal: the bits of the score, in an order that follows its value, then the
    index.

    >>> first_largest(torch.tensor([[1.0, 3.0, -2.0, 3.0]]), 3)[1].tolist()
    [[1, 3, 0]]
    """
    bits = (scores.float() + 0.0).view(torch.int32)  # + 0.0 makes one zero of the two there are
    ordered = bits ^ ((bits >> 31) & 0x7FFFFFFF)
    last = (1 << 32) - 1
    places = last - torch.arange(scores.shape[1], device=scores.device)
    best = ((ordered.long() << 32) | places).topk(count, dim=1).values
    index = last - (best & last)
    return scores.gather(1, index), index


def _gather(tokens: Tensor, index: Tensor) -> Tensor:
    return tokens.gather(1, index[..., None].expand(-1, -1, tokens.shape[-1]))


def check_beam(model: TokenModel, *, beam: int, nbest: int) -> None:
    """Refuse a beam width or a number of hypotheses that is out of range."""
    if beam < 1:
        raise ValueError(f"beam must be at least 1, got {beam}")
    if not 1 <= nbest <= beam:
        raise ValueError(f"nbest must lie in 1..{beam} (the beam), got {nbest}")
    if model.vocabulary < 2:
        raise ValueError("beam search needs a token besides the end token")
