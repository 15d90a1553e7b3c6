"""Continue a text with a language model, token by token: temperature, top-k, top-p, stop strings."""

from __future__ import annotations

import codecs
import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from algoformer.common.plain_data import check_count
from algoformer.common.terminal import short
from algoformer.language.cache import Policy
from algoformer.language.checkpoint import TextModelFile, TextTool
from algoformer.language.decode import CachedDecoder
from algoformer.language.token_model import TokenModel
from algoformer.language.tokenizer import EOS
from algoformer.model.stopping import StoppingRule


@dataclass(frozen=True, kw_only=True)
class Sampling:
    """Options for drawing the next token and for ending a text.

    Attributes:
        max_new_tokens: the maximum number of new tokens.
        temperature: logits are divided by it; 0 takes the most probable token (greedy decoding).
        top_k: draw from this many most probable tokens only; None means all.
        top_p: draw from the smallest set of most probable tokens with this total probability, which is
            counted among the `top_k` most probable ones if that is set; 1 means all.
        stop: the text ends before the first of these strings.
        seed: the seed of the draws: the same prompt and seed give the same text.
        steps: iterations of the loop for every token; None means as many as in training.
        early_exit: the stopping rule of the loop for a new token; None runs all iterations.
        policy: the policy of the KV cache.
    """

    max_new_tokens: int = 200
    temperature: int | float = 0.8
    top_k: int | None = None
    top_p: int | float = 1.0
    stop: tuple[str, ...] = ()
    seed: int = 0
    steps: int | None = None
    early_exit: StoppingRule | None = None
    policy: Policy = "full"

    def __post_init__(self) -> None:
        check_count("max_new_tokens", self.max_new_tokens)
        if not 0 <= self.temperature < math.inf:
            raise ValueError(f"temperature must be a number of at least 0, got {self.temperature}")
        if self.top_k is not None and self.top_k < 1:
            raise ValueError(f"top_k must be at least 1, or None for all tokens, got {self.top_k}")
        if not 0 < self.top_p <= 1:
            raise ValueError(f"top_p must lie in (0, 1], got {self.top_p}")
        if not 0 <= self.seed < 2**63:
            raise ValueError(f"seed must lie in 0..{2**63 - 1}, got {short(self.seed)}")
        if not all(self.stop):
            raise ValueError("stop strings must not be empty")


def next_token_probabilities(
    logits: Float[Tensor, " vocabulary"], sampling: Sampling
) -> Float[Tensor, " vocabulary"]:
    """Return the distribution that the next token is drawn from.

    >>> logits = torch.tensor([0.5, 0.3, 0.2]).log()
    >>> next_token_probabilities(logits, Sampling(temperature=1.0, top_p=0.7)).tolist()
    [0.625, 0.375, 0.0]
    """
    if sampling.temperature == 0:
        return torch.nn.functional.one_hot(logits.argmax(), len(logits)).to(logits.dtype)
    # below the largest: divided by a tiny temperature, none becomes infinite but those without probability
    below = logits.double() - logits.max()
    probabilities = (below / sampling.temperature).softmax(dim=-1)
    ordered, places = probabilities.sort(descending=True, stable=True)
    if sampling.top_k is not None:
        ordered[sampling.top_k :] = 0
        ordered = ordered / ordered.sum()
    # a token is kept while the tokens before it have not reached top_p, so that one always stays
    kept = ordered.cumsum(0) - ordered < sampling.top_p - 1e-12
    limited = torch.zeros_like(probabilities).scatter(0, places, ordered * kept)
    return (limited / limited.sum()).to(logits.dtype)


class Writer(TextTool[TokenModel]):
    """A language model and its tokenizer, ready to continue texts.

    Args:
        checkpoint: a language model; it stays on its device.

    Raises:
        ValueError: the checkpoint holds a classifier or has no tokenizer.
    """

    def __init__(self, checkpoint: TextModelFile) -> None:
        super().__init__(checkpoint, TokenModel, "language model")

    def stream(self, prompt: str, sampling: Sampling | None = None) -> Iterator[str]:
        """Yield the continuation of a prompt piece by piece, as soon as its characters are complete.

        A prompt that is longer than the model's context is shortened to its end, and so is the text when it
        outgrows the context: the model then continues from the last half of it.
        """
        sampling = sampling or Sampling()
        held = ""
        for piece in self._pieces(prompt, sampling):
            held += piece
            ends = [held.find(stop) for stop in sampling.stop if stop in held]
            if ends:
                yield held[: min(ends)]
                return
            # the beginning of a stop string may still be completed by the next token
            safe = len(held) - max((_overlap(held, stop) for stop in sampling.stop), default=0)
            if safe:
                yield held[:safe]
                held = held[safe:]
        if held:
            yield held

    def write(self, prompt: str, sampling: Sampling | None = None) -> str:
        """Return the whole continuation of a prompt."""
        return "".join(self.stream(prompt, sampling))

    def _pieces(self, prompt: str, sampling: Sampling) -> Iterator[str]:
        """Yield the text of the new tokens; bytes wait until they are whole characters."""
        text = codecs.getincrementaldecoder("utf-8")(errors="replace")
        for token in self._tokens(self.tokenizer.encode(prompt), sampling):
            if piece := text.decode(self.tokenizer.piece(token)):
                yield piece
        if rest := text.decode(b"", final=True):
            yield rest

    @torch.no_grad()
    def _tokens(self, prompt: list[int], sampling: Sampling) -> Iterator[int]:
        context, device = self.model.context, self.model.output_weight.device
        generator = torch.Generator().manual_seed(sampling.seed)
        tokens = list(prompt) or [EOS]
        decoder, room = None, 0
        for _ in range(sampling.max_new_tokens):
            if decoder is None or room == 0:
                kept = tokens[-max(1, context // 2) :] if len(tokens) >= context else tokens
                length = min(context, len(kept) + sampling.max_new_tokens)
                decoder = CachedDecoder(
                    self.model,
                    batch=1,
                    length=length,
                    steps=sampling.steps,
                    policy=sampling.policy,
                    early_exit=sampling.early_exit,
                )
                logits = decoder.prefill(torch.tensor([kept], device=device))[0]
                room = length - len(kept)
            else:
                logits = decoder.step(torch.tensor([tokens[-1]], device=device))[0]
                room -= 1
            chances = next_token_probabilities(logits.float().cpu(), sampling)
            token = int(torch.multinomial(chances, 1, generator=generator))
            if token == EOS:
                return
            tokens.append(token)
            yield token


def _overlap(text: str, stop: str) -> int:
    """Return the length of the longest end of `text` that is a beginning of `stop`."""
    return next(
        (size for size in range(min(len(text), len(stop) - 1), 0, -1) if text.endswith(stop[:size])), 0
    )
