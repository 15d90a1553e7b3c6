"""The trunk of text models: an embedding and a program, which language models and classifiers share."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import TypedDict, Unpack

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from algoformer.common.meta import on_meta, why_not_rebuilt
from algoformer.model.driver import DEFAULT, Edit, ForwardContext
from algoformer.model.parts import ProgramModule
from algoformer.model.program import Layers, Loop, Part, Program, as_program, default_steps
from algoformer.nn import set_dropout
from algoformer.trace import Trace, Unroll


class TrunkOptions(TypedDict, total=False):
    """The keyword arguments of `Trunk`, which every text model has too."""

    vocabulary: int
    context: int
    width: int
    dropout: int | float
    attention_dropout: int | float
    word_dropout: int | float


class Trunk(nn.Module):
    """Embedding, program, and a norm at the end if the program has none of its own.

    Positions are the program's: each of its modules adds its own. Dropout masks are drawn anew at every
    iteration of a loop.

    Args:
        program: what to run; a `Program`, a single part or a sequence of parts.
        vocabulary: the number of different tokens.
        context: the maximum number of tokens of a sequence.
        width: the width of the residual stream.
        dropout: dropout rate of the embeddings and of what each layer adds to the stream.
        attention_dropout: dropout rate of the attention weights.
        word_dropout: probability of zeroing the whole embedding of a token while training; the other
            embeddings are not rescaled, because layers normalize what they read.
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
        for name, size in {"vocabulary": vocabulary, "context": context, "width": width}.items():
            if size < 1:
                raise ValueError(f"{name} must be at least 1, got {size}")
        self.program = as_program(program)
        self.vocabulary, self.context, self.width = vocabulary, context, width
        self.embedding = nn.Embedding(vocabulary, width)
        nn.init.normal_(self.embedding.weight, std=0.02)
        self.body = ProgramModule(self.program, width=width, context=context)
        self.norm = None if ends_with_norm(self.program) else nn.LayerNorm(width)
        self.set_dropout(dropout=dropout, attention_dropout=attention_dropout, word_dropout=word_dropout)

    def set_dropout(
        self,
        *,
        dropout: int | float = 0.0,
        attention_dropout: int | float = 0.0,
        word_dropout: int | float = 0.0,
    ) -> None:
        """Set the dropout rates, which are those of `Trunk`."""
        if not 0 <= word_dropout < 1:
            raise ValueError(f"word dropout must be at least 0 and below 1, got {word_dropout}")
        set_dropout(self.body, residual=float(dropout), attention=float(attention_dropout))
        self.dropout, self.attention_dropout = float(dropout), float(attention_dropout)
        self.word_dropout = float(word_dropout)

    def embed(self, input_ids: Int[Tensor, "batch token"]) -> Float[Tensor, "batch token width"]:
        """Return the embeddings: the first state of the stream."""
        tokens = self.embedding(input_ids)
        if self.training and self.word_dropout:
            kept = torch.rand(input_ids.shape, device=input_ids.device) >= self.word_dropout
            tokens = tokens * kept[..., None]
        return F.dropout(tokens, self.dropout) if self.training and self.dropout else tokens

    def forward(
        self,
        input_ids: Int[Tensor, "batch token"],
        unroll: Unroll | None = None,
        context: ForwardContext = DEFAULT,
    ) -> Float[Tensor, "step batch token width"]:
        """Return the stream after the program and the norm, for each iteration in the unroll's window."""
        if unroll is not None and unroll.keep:
            raise ValueError(f"keep={unroll.keep} records hidden states; call trace(), which returns them")
        return self.run(input_ids, unroll, context)[0]

    def run(
        self, input_ids: Int[Tensor, "batch token"], unroll: Unroll | None, context: ForwardContext
    ) -> tuple[Float[Tensor, "step batch token width"], Float[Tensor, "step batch token"] | None]:
        """Run the program; return its states, and what its loop says about halting (`Trace.halting`).

        The states that `unroll.keep` names are recorded in the context's access.
        """
        self.check(input_ids)
        unroll = unroll or Unroll(steps=default_steps(self.program), window=1)
        if context.access is None:
            context = replace(context, access=self.body.access(unroll.keep, unroll.steps, unroll.inner))
        states, halting = self.body.unroll(self.embed(input_ids), unroll, context)
        return self.finish(states), halting

    def check(self, input_ids: Tensor) -> None:
        """Refuse what is not a batch of token numbers, and sequences longer than the context."""
        if not isinstance(input_ids, Tensor) or input_ids.ndim != 2 or input_ids.is_floating_point():
            found = tuple(input_ids.shape) if isinstance(input_ids, Tensor) else type(input_ids).__name__
            raise ValueError(f"input_ids must be whole numbers of shape (batch, token), got {found}")
        if input_ids.shape[1] > self.context:
            raise ValueError(
                f"a sequence of {input_ids.shape[1]} tokens is longer than context={self.context}; "
                "shorten it, or build the model with a larger context"
            )

    def finish(self, states: Tensor) -> Tensor:
        """Apply the final norm that the program itself does not have."""
        return states if self.norm is None else self.norm(states)


class TextModel(nn.Module):
    """The base class of language models and classifiers: a trunk and what is read from its states."""

    def __init__(self, program: Program | Part | tuple[Part, ...], **options: Unpack[TrunkOptions]) -> None:
        super().__init__()
        self.trunk = Trunk(program, **options)

    @property
    def program(self) -> Program:
        """The program of the model."""
        return self.trunk.program

    @property
    def body(self) -> ProgramModule:
        """The program with its weights, without embedding and output: the hidden layers of optimizers."""
        return self.trunk.body

    @property
    def context(self) -> int:
        """The maximum number of tokens of a sequence."""
        return self.trunk.context

    @property
    def vocabulary(self) -> int:
        """The number of different tokens."""
        return self.trunk.vocabulary

    def edit(self, edits: Mapping[str, Edit]) -> AbstractContextManager[None]:
        """Replace states by address inside a `with` block, as `AlgoFormer.edit` does."""
        return self.body.edit(edits)

    def rebuildable(self) -> str | None:
        """Return why this model could not be built again from its program; None if it could."""
        sizes = {name: getattr(self.trunk, name) for name in ("vocabulary", "context", "width")}
        with on_meta():
            return why_not_rebuilt(self, self._built_again(sizes))

    @abstractmethod
    def _built_again(self, sizes: dict[str, int]) -> TextModel:
        """Return a model of the same program and sizes with fresh weights."""

    def _trace(
        self,
        input_ids: Int[Tensor, "batch token"],
        unroll: Unroll | None,
        context: ForwardContext,
        read: Callable[[Tensor], Tensor],
    ) -> Trace:
        """Return what `read` makes of the final states, with the hidden states that `unroll.keep` names."""
        unroll = unroll or Unroll(steps=default_steps(self.program), window=1)
        access = self.body.access(unroll.keep, unroll.steps, unroll.inner)
        states, _ = self.trunk.run(input_ids, unroll, replace(context, access=access))
        found = {} if access is None else access.states
        return Trace(predictions=read(states), first_step=unroll.first_step, states=found)


def ends_with_norm(program: Program) -> bool:
    """Return whether the last thing that a program does to every token is a norm."""
    last = program.parts[-1]
    if isinstance(last, Layers):
        return last.ends_with_norm
    return isinstance(last, Loop) and ends_with_norm(last.body)


def token_context(
    attention_mask: Bool[Tensor, "batch token"] | None,
    *,
    prefix: Int[Tensor, " batch"] | None = None,
    tokens: int | None = None,
) -> ForwardContext:
    """Return the masks and positions of a batch of token sequences.

    Args:
        attention_mask: which tokens are not padding; padding may stand left, right or in between, and
            positions count the other tokens only. None means that padding stands at the end only: a causal
            model then never attends to it, and needs no mask.
        prefix: number of tokens at the start of each sequence, without padding, that attend to each other
            in both directions (a prefix language model); None means none.
        tokens: tokens in a sequence, padding included; needed without `attention_mask`.
    """
    given = attention_mask if attention_mask is not None else prefix
    if given is None:
        return DEFAULT
    device = given.device
    order = torch.arange(given.shape[1] if attention_mask is not None else tokens or 0, device=device)
    positions = order[None] if attention_mask is None else positions_of(attention_mask)
    causal = (order[:, None] >= order)[None]  # (1, token, key)
    if prefix is not None:
        inside = positions < prefix[:, None]
        causal = causal | (inside[:, :, None] & inside[:, None, :])
    if attention_mask is None:
        return ForwardContext(causal_mask=causal[:, None])
    # a row of scores that is masked as a whole has no softmax: every token attends to itself, padding too,
    # and in a sequence of nothing but padding everything attends to everything
    itself = torch.eye(len(order), dtype=torch.bool, device=device)
    causal = (causal & attention_mask[:, None, :]) | itself
    full = attention_mask | ~attention_mask.any(dim=1, keepdim=True)
    return ForwardContext(positions=positions, causal_mask=causal[:, None], full_mask=full[:, None, None])


def positions_of(attention_mask: Bool[Tensor, "batch token"]) -> Int[Tensor, "batch token"]:
    """Return each token's position among those that are not padding; padding has the position before it."""
    return (attention_mask.long().cumsum(dim=1) - 1).clamp(min=0)
