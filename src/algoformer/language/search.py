"""Continue prefixes with greedy search or beam search."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from algoformer.common.terminal import short
from algoformer.language.cache import Policy
from algoformer.language.decode import CachedDecoder, Decoder, fast_products
from algoformer.language.token_model import TokenModel
from algoformer.model.stopping import StoppingRule

LARGEST_PENALTY = 10
"""The largest length penalty; with a larger one, powers of the length overflow."""

LEAVE_AT = 0.75
"""Ended sequences leave the batch when at most this fraction of it is still running."""

NOWHERE = float("-inf")
"""The score of a missing hypothesis."""


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


def generate(
    model: TokenModel,
    input_ids: Int[Tensor, "batch token"],
    attention_mask: Bool[Tensor, "batch token"] | None = None,
    *,
    eos_id: int,
    max_new_tokens: int,
    beam: int = 1,
    length_penalty: int | float = 1.0,
    nbest: int = 1,
    steps: int | None = None,
    inner: Mapping[str, int] | None = None,
    policy: Policy = "full",
    early_exit: StoppingRule | None = None,
    captured: bool | None = None,
) -> Generation:
    """Continue prefixes with a KV cache, by greedy search or beam search.

    Args:
        model: the model; call `model.eval()` first if it has dropout.
        input_ids: the prefixes to continue.
        attention_mask: the attention mask of the prefixes, padded left or right; None means no padding.
        eos_id: the token that ends a sequence.
        max_new_tokens: the maximum number of new tokens, including the end token.
        beam: the beam width; 1 is greedy search.
        length_penalty: 0 favors short sequences; 1 compares mean log-probabilities.
        nbest: the number of hypotheses returned for each sequence.
        steps: as for `CachedDecoder`, and so are `inner`, `policy`, `early_exit` and `captured`.

    >>> import torch
    >>> from algoformer import programs
    >>> model = TokenModel(programs.looped(heads=2, steps=3), vocabulary=9, context=32, width=8).eval()
    >>> prefixes = torch.tensor([[1, 2], [3, 4]])
    >>> generate(model, prefixes, eos_id=0, max_new_tokens=5, beam=4, nbest=2).tokens.shape
    torch.Size([2, 2, 5])
    """
    search = {"eos_id": eos_id, "max_new_tokens": max_new_tokens, "length_penalty": length_penalty}
    search |= {"beam": beam, "nbest": nbest}
    check_search(model, **search)  # type: ignore[arg-type]
    decoder = CachedDecoder(
        model,
        batch=input_ids.shape[0],
        length=input_ids.shape[1] + max_new_tokens - 1,  # the last token is never read
        steps=steps,
        inner=inner,
        policy=policy,
        early_exit=early_exit,
        captured=captured,
    )
    with fast_products(model):
        return beam_search(decoder, input_ids, attention_mask, **search)  # type: ignore[arg-type]


def greedy_search(
    decoder: Decoder,
    input_ids: Int[Tensor, "batch token"],
    attention_mask: Bool[Tensor, "batch token"] | None = None,
    **options: int | float,
) -> Generation:
    """Generate the most probable token at every step: `beam_search` with a beam of one."""
    return beam_search(decoder, input_ids, attention_mask, beam=1, **options)  # type: ignore[arg-type]


def beam_search(
    decoder: Decoder,
    input_ids: Int[Tensor, "batch token"],
    attention_mask: Bool[Tensor, "batch token"] | None = None,
    *,
    eos_id: int,
    max_new_tokens: int,
    beam: int,
    length_penalty: int | float = 1.0,
    nbest: int = 1,
) -> Generation:
    """Keep the `beam` most probable sequences; return the best by log-probability / length ** penalty.

    A sequence ends when the end token is among the `beam` best continuations. A sentence is done when `beam`
    of its sequences have ended, or when no other can become one of the `nbest`; on a CPU it then leaves the
    batch. Sequences that have not ended after `max_new_tokens` tokens compete with those that have. Ties are
    broken in a fixed order, by the better beam and then by the smaller token id, so that the result is
    deterministic.

    Args:
        decoder: a new decoder; the other arguments are those of `generate`.
    """
    options = {"eos_id": eos_id, "max_new_tokens": max_new_tokens, "length_penalty": length_penalty}
    check_search(decoder.model, **options, beam=beam, nbest=nbest)  # type: ignore[arg-type]
    scores = decoder.prefill(input_ids, attention_mask)
    if beam > 1:
        decoder.fork(beam)
        scores = scores.repeat_interleave(beam, dim=0)
    batch, device = len(input_ids), input_ids.device
    pool = _Pool(batch, beam, max_new_tokens, eos_id, device)
    rows = torch.arange(batch, device=device)  # the sentences that the decoder continues
    running = torch.ones_like(rows, dtype=torch.bool)
    total = torch.full((batch, beam), NOWHERE, device=device)
    total[:, 0] = 0.0  # all beams are alike at first
    tokens = torch.full((batch, beam, max_new_tokens), eos_id, device=device)
    iterations = torch.zeros(2, device=device)  # their sum over the sequences that are read, and the number
    for length in range(1, max_new_tokens + 1):
        read = running.repeat_interleave(beam).to(iterations.dtype)
        iterations += torch.stack([decoder.iterations @ read, read.sum()])
        value, source, candidates = _continued(scores, total, tokens, length)
        ends = candidates[:, :, length - 1] == eos_id
        within = ends & (torch.arange(2 * beam, device=device) < beam)
        pool.add(rows, value / length**length_penalty, candidates, length, ended=True, which=within)
        # at most one continuation of each beam is the end, so that there are enough others
        going = ends.int().argsort(dim=1, stable=True)[:, :beam]
        total, tokens, source = value.gather(1, going), _gather(candidates, going), source.gather(1, going)
        if length == max_new_tokens:
            everyone = torch.ones_like(total, dtype=torch.bool)
            pool.add(rows, total / length**length_penalty, tokens, length, ended=False, which=everyone)
            break
        # probabilities are at most 1: no longer continuation has a better score than this
        bound = total.amax(dim=1) / max_new_tokens**length_penalty
        running = ~pool.full(rows) & (pool.scores[rows, nbest - 1] < bound)
        if not bool(running.any()):
            break
        kept = _worth_moving(decoder, running)
        rows, running, total, tokens, source = (one[kept] for one in (rows, running, total, tokens, source))
        if beam > 1 or len(kept) < len(scores):
            decoder.select((kept[:, None] * beam + source).flatten(), same_prefix=True)
        scores = decoder.step(tokens[:, :, length - 1].flatten())
    return pool.best(nbest, iterations=float(iterations[0] / iterations[1]))


def _continued(
    scores: Tensor, total: Tensor, tokens: Tensor, length: int
) -> tuple[Float[Tensor, "batch best"], Int[Tensor, "batch best"], Int[Tensor, "batch best token"]]:
    """Return twice as many continuations as beams, best first: log-probability, beam and tokens of each."""
    chances = scores.float().log_softmax(dim=-1).view(*total.shape, -1) + total[..., None]
    value, index = first_largest(chances.flatten(1), 2 * total.shape[1])
    source = index // chances.shape[2]
    candidates = _gather(tokens, source)
    candidates[:, :, length - 1] = index % chances.shape[2]
    return value, source, candidates


def _worth_moving(decoder: Decoder, running: Bool[Tensor, " sequence"]) -> Int[Tensor, " row"]:
    """Return the sentences to go on with: all, unless enough have ended to pay for moving the rest."""
    if decoder.fixed_batch or int(running.sum()) > LEAVE_AT * len(running):
        return torch.arange(len(running), device=running.device)
    return running.nonzero()[:, 0]


class _Pool:
    """The best hypotheses of each sentence, best first."""

    def __init__(self, batch: int, size: int, longest: int, eos_id: int, device: torch.device) -> None:
        self.scores = torch.full((batch, size), NOWHERE, device=device)
        self.tokens = torch.full((batch, size, longest), eos_id, device=device)
        self.lengths = torch.zeros(batch, size, dtype=torch.int64, device=device)
        self.ended = torch.zeros(batch, size, dtype=torch.bool, device=device)

    def full(self, rows: Int[Tensor, " sentence"]) -> Bool[Tensor, " sentence"]:
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
        self.tokens[rows] = _gather(torch.cat([self.tokens[rows], tokens], dim=1), order)
        self.lengths[rows] = torch.cat([self.lengths[rows], lengths], dim=1).gather(1, order) * there
        flags = torch.full_like(offered, ended, dtype=torch.bool)
        self.ended[rows] = torch.cat([self.ended[rows], flags], dim=1).gather(1, order) & there

    def best(self, count: int, *, iterations: float) -> Generation:
        """Return the first hypotheses of every sentence."""
        found = {name: hypotheses[:, :count] for name, hypotheses in vars(self).items()}
        return Generation(**found, iterations=iterations)


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


def _gather(tokens: Tensor, index: Tensor) -> Tensor:
    return tokens.gather(1, index[..., None].expand(-1, -1, tokens.shape[-1]))


def check_search(
    model: TokenModel,
    *,
    eos_id: int,
    max_new_tokens: int,
    length_penalty: int | float,
    beam: int = 1,
    nbest: int = 1,
) -> None:
    """Refuse search options that are out of range."""
    if not 0 <= eos_id < model.vocabulary:
        raise ValueError(f"eos_id must be a token, 0..{model.vocabulary - 1}, got {eos_id}")
    if max_new_tokens < 1:
        raise ValueError(f"max_new_tokens must be at least 1, got {max_new_tokens}")
    if not 0 <= length_penalty <= LARGEST_PENALTY:
        raise ValueError(
            f"length_penalty must lie in 0..{LARGEST_PENALTY}, got {short(length_penalty)}; 1 is neutral"
        )
    if beam < 1:
        raise ValueError(f"beam must be at least 1, got {beam}")
    if not 1 <= nbest <= beam:
        raise ValueError(f"nbest must lie in 1..{beam} (the beam), got {nbest}")
    if model.vocabulary < 2:
        raise ValueError("a search needs a token besides the end token")
