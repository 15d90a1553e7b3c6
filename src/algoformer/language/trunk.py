"""Tokens through a program: what a language model and a classifier have in common."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from algoformer.model.address import Notebook
from algoformer.model.parts import ProgramModule
from algoformer.model.program import Layers, Loop, Part, Program, as_program, default_steps
from algoformer.model.visibility import Visibility
from algoformer.nn import set_dropout
from algoformer.trace import Unroll


class Trunk(nn.Module):
    """Embedding, program, and a norm at the end if the program has none of its own.

    Learned positions are the program's: each of its modules adds its own. While training, dropout leaves
    out shares of the embeddings, of what layers add and of what heads read, with fresh draws at every
    iteration of a loop.

    Args:
        program: what to run; a `Program`, a single part or a sequence of parts.
        vocabulary: how many different tokens there are.
        context: the most tokens a sequence may have.
        width: of the stream.
        dropout: share of the embeddings and of what each layer adds that is left out while training.
        attention_dropout: share of what heads read that is left out while training.
        word_dropout: share of the tokens whose embedding is left out while training, whole; the others are
            not made larger, as a sum over tokens would ask for: layers norm what they read.
    """

    def __init__(
        self,
        program: Program | Part | tuple[Part, ...],
        *,
        vocabulary: int,
        context: int,
        width: int = 256,
        dropout: int | float = 0.0,
        attention_dropout: int | float = 0.0,
        word_dropout: int | float = 0.0,
    ) -> None:
        super().__init__()
        if not 0 <= word_dropout < 1:
            raise ValueError(f"word dropout must lie in 0..1, 1 left out, got {word_dropout}")
        for name, size in {"vocabulary": vocabulary, "context": context, "width": width}.items():
            if size < 1:
                raise ValueError(f"{name} must be at least 1, got {size}")
        self.program = as_program(program)
        self.vocabulary, self.context, self.width = vocabulary, context, width
        self.dropout, self.attention_dropout = float(dropout), float(attention_dropout)
        self.word_dropout = float(word_dropout)
        self.embedding = nn.Embedding(vocabulary, width)
        nn.init.normal_(self.embedding.weight, std=0.02)
        self.body = ProgramModule(self.program, width=width, context=context)
        self.norm = None if ends_with_norm(self.program) else nn.LayerNorm(width)
        set_dropout(self.body, residual=self.dropout, attention=self.attention_dropout)

    def embed(self, ids: Int[Tensor, "batch token"]) -> Float[Tensor, "batch token width"]:
        """The first state of the stream."""
        tokens = self.embedding(ids)
        if self.training and self.word_dropout:
            kept = torch.rand(ids.shape, device=ids.device) >= self.word_dropout
            tokens = tokens * kept[..., None]
        return F.dropout(tokens, self.dropout) if self.training and self.dropout else tokens

    def forward(
        self,
        ids: Int[Tensor, "batch token"],
        unroll: Unroll | None = None,
        visibility: Visibility | None = None,
    ) -> Float[Tensor, "step batch token width"]:
        """The stream after the program and the norm, once for each iteration in the unroll's window."""
        if ids.shape[1] > self.context:
            raise ValueError(
                f"a sequence of {ids.shape[1]} tokens is longer than context={self.context}; "
                "shorten it, or build the model with a larger context"
            )
        unroll = unroll or Unroll(steps=default_steps(self.program), window=1)
        if unroll.keep:
            raise ValueError(f"hidden states of token models are not kept, yet keep={unroll.keep}")
        notebook = Notebook((), self.program, unroll.steps, visibility)
        return self.finish(self.body.unroll(self.embed(ids), unroll, notebook))

    def finish(self, states: Tensor) -> Tensor:
        """Final states with the norm that the program itself does not have."""
        return states if self.norm is None else self.norm(states)


def ends_with_norm(program: Program) -> bool:
    """Whether the last thing that a program does to every token is a layer norm."""
    last = program.parts[-1]
    if isinstance(last, Layers):
        return last.final_norm
    return isinstance(last, Loop) and ends_with_norm(last.body)


def visible(
    real: Bool[Tensor, "batch token"] | None,
    *,
    prefix: Int[Tensor, " batch"] | None = None,
    tokens: int | None = None,
) -> Visibility | None:
    """What tokens see: nobody sees padding, and the tokens of the prefix see each other.

    Args:
        real: which tokens are not padding; it may stand left, right or in between, and positions count real
            tokens only. None means that nothing real comes after padding: a causal model then never
            sees it, and needs no mask.
        prefix: how many real tokens at the start of each sequence see each other whatever their order (a
            prefix language model); None means none.
        tokens: how many tokens a sequence has, padding included; needed without `real`.
    """
    marks = real if real is not None else prefix
    if marks is None:
        return None
    order = torch.arange(marks.shape[1] if real is not None else tokens or 0, device=marks.device)
    places = order[None] if real is None else places_of(real)
    seen = (order[:, None] >= order)[None]  # (1, token, key)
    if prefix is not None:
        given = places < prefix[:, None]
        seen = seen | (given[:, :, None] & given[:, None, :])
    if real is None:
        return Visibility(before=seen[:, None])
    # a row of scores that is masked as a whole has no softmax: every token sees itself, padding too,
    # and in a sequence of nothing but padding everything sees everything
    seen = (seen & real[:, None, :]) | torch.eye(len(order), dtype=torch.bool, device=marks.device)
    around = real | ~real.any(dim=1, keepdim=True)
    return Visibility(places=places, before=seen[:, None], around=around[:, None, None])


def places_of(real: Bool[Tensor, "batch token"]) -> Int[Tensor, "batch token"]:
    """Where each real token stands among the real ones; padding stands where the last one before it does."""
    return (real.long().cumsum(dim=1) - 1).clamp(min=0)
