"""Continue prefixes with greedy search or beam search."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from algoformer.common.plain_data import check_count
from algoformer.common.terminal import short
from algoformer.language.beams import NOWHERE, Hypotheses, first_largest, gather_beams
from algoformer.language.cache import Policy
from algoformer.language.decode import CachedDecoder, Decoder, fast_products
from algoformer.language.token_model import TokenModel
from algoformer.model.stopping import StoppingRule

LARGEST_PENALTY = 10
"""The largest length penalty; with a larger one, powers of the length overflow."""

LEAVE_AT = 0.75
"""Ended sequences leave the batch when at most this fraction of it is still running."""


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
    check_search(model, **search, beam=beam, nbest=nbest)  # type: ignore[arg-type]
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
        if beam == 1:
            return greedy_search(decoder, input_ids, attention_mask, **search)  # type: ignore[arg-type]
        return beam_search(decoder, input_ids, attention_mask, **search, beam=beam, nbest=nbest)  # type: ignore[arg-type]


def greedy_search(
    decoder: Decoder,
    input_ids: Int[Tensor, "batch token"],
    attention_mask: Bool[Tensor, "batch token"] | None = None,
    *,
    eos_id: int,
    max_new_tokens: int,
    length_penalty: int | float = 1.0,
) -> Generation:
    """Generate the most probable token at every step; of equal ones, the one with the smallest id.

    A sequence that has reached the end token stays as it is, and on a CPU leaves the batch; the batch stops
    when all have ended. A beam search with a beam of one gives the same tokens, with three times as many
    operations for each of them: on a GPU these take as long as the model.

    Args:
        decoder: a new decoder; the other arguments are those of `generate`.
    """
    check_search(decoder.model, eos_id=eos_id, max_new_tokens=max_new_tokens, length_penalty=length_penalty)
    scores = decoder.prefill(input_ids, attention_mask)
    batch, device = len(input_ids), input_ids.device
    tokens = torch.full((batch, max_new_tokens), eos_id, device=device)
    ended = torch.zeros(batch, dtype=torch.bool, device=device)
    lengths, total, iterations = (torch.zeros(batch, device=device) for _ in range(3))
    rows = torch.arange(batch, device=device)  # the sequences that the decoder continues
    for place in range(max_new_tokens):
        before = ended[rows]
        best, token = (scores.float().log_softmax(dim=-1) + total[rows, None]).max(dim=-1)
        total[rows] = torch.where(before, total[rows], best)
        token = token.masked_fill(before, eos_id)
        tokens[rows, place] = token
        lengths[rows] += ~before
        iterations[rows] += torch.where(before, 0, decoder.iterations)
        ended[rows] = before | (token == eos_id)
        if place + 1 == max_new_tokens or bool(ended.all()):
            break
        going = _worth_moving(decoder, ~ended[rows])
        if len(going) < len(rows):
            decoder.select(going)
            rows, token = rows[going], token[going]
        scores = decoder.step(token)
    return Generation(
        tokens=tokens[:, None],
        lengths=lengths[:, None].long(),
        scores=(total / lengths**length_penalty)[:, None],
        ended=ended[:, None],
        iterations=float(iterations.sum() / lengths.sum()),
    )


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
    decoder.fork(beam)
    scores = scores.repeat_interleave(beam, dim=0)
    batch, device = len(input_ids), input_ids.device
    pool = Hypotheses(batch, beam, max_new_tokens, eos_id, device)
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
        total, source = value.gather(1, going), source.gather(1, going)
        tokens = gather_beams(candidates, going)
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
        decoder.select((kept[:, None] * beam + source).flatten(), same_prefix=True)
        scores = decoder.step(tokens[:, :, length - 1].flatten())
    return Generation(**pool.best(nbest), iterations=float(iterations[0] / iterations[1]))


def _continued(
    scores: Tensor, total: Tensor, tokens: Tensor, length: int
) -> tuple[Float[Tensor, "batch best"], Int[Tensor, "batch best"], Int[Tensor, "batch best token"]]:
    """Return twice as many continuations as beams, best first: log-probability, beam and tokens of each."""
    chances = scores.float().log_softmax(dim=-1).view(*total.shape, -1) + total[..., None]
    value, index = first_largest(chances.flatten(1), 2 * total.shape[1])
    source = index // chances.shape[2]
    candidates = gather_beams(tokens, source)
    candidates[:, :, length - 1] = index % chances.shape[2]
    return value, source, candidates


def _worth_moving(decoder: Decoder, running: Bool[Tensor, " sequence"]) -> Int[Tensor, " row"]:
    """Return the sentences to go on with: all, unless enough have ended to pay for moving the rest."""
    if decoder.fixed_batch or int(running.sum()) > LEAVE_AT * len(running):
        return torch.arange(len(running), device=running.device)
    return running.nonzero()[:, 0]


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
    check_count("max_new_tokens", max_new_tokens)
    if not 0 <= length_penalty <= LARGEST_PENALTY:
        raise ValueError(
            f"length_penalty must lie in 0..{LARGEST_PENALTY}, got {short(length_penalty)}; 1 is neutral"
        )
    check_count("beam", beam)
    if not 1 <= nbest <= beam:
        raise ValueError(f"nbest must lie in 1..{beam} (the beam), got {nbest}")
    if model.vocabulary < 2:
        raise ValueError("a search needs a token besides the end token")
