"""The language model: a program between an embedding and a distribution over the next token."""

from __future__ import annotations

import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from algoformer.language.trunk import Trunk, visible
from algoformer.model.algoformer import modules_of
from algoformer.model.parts import ProgramModule
from algoformer.model.program import Part, Program
from algoformer.model.visibility import Visibility
from algoformer.trace import Unroll


class TokenModel(nn.Module):
    """Runs a program on tokens and scores every next token.

    Args:
        program: and `vocabulary`, `context`, `width` and shares to leave out: as for `Trunk`.
        tied: whether the embedding is also the map to scores.
        prefix_lm: whether the tokens of a prefix (a sentence to translate) see each other whatever their
            order. What is generated after it sees only what comes before.

    >>> import torch
    >>> from algoformer import programs
    >>> model = TokenModel(programs.algoformer(heads=2), vocabulary=50, context=32, width=16)
    >>> model(torch.randint(50, (4, 7)), Unroll(steps=10, window=3)).shape
    torch.Size([3, 4, 7, 50])
    """

    def __init__(
        self,
        program: Program | Part | tuple[Part, ...],
        *,
        vocabulary: int,
        context: int,
        width: int = 256,
        tied: bool = True,
        prefix_lm: bool = False,
        dropout: int | float = 0.0,
        attention_dropout: int | float = 0.0,
        word_dropout: int | float = 0.0,
    ) -> None:
        super().__init__()
        self.trunk = Trunk(
            program,
            vocabulary=vocabulary,
            context=context,
            width=width,
            dropout=dropout,
            attention_dropout=attention_dropout,
            word_dropout=word_dropout,
        )
        for layers in modules_of(self.trunk.program):
            if not layers.causal:
                raise ValueError(
                    "full attention would see the tokens to be predicted; use causal layers, and "
                    "prefix_lm=True where the tokens of a prefix should see each other"
                )
        self.tied, self.prefix_lm = tied, prefix_lm
        self.output = None if tied else nn.Linear(width, vocabulary, bias=False)
        if self.output is not None:
            nn.init.normal_(self.output.weight, std=0.02)

    @property
    def program(self) -> Program:
        """What is run."""
        return self.trunk.program

    @property
    def body(self) -> ProgramModule:
        """The program with its weights, without embedding and output: what optimizers treat as hidden."""
        return self.trunk.body

    @property
    def context(self) -> int:
        """The most tokens a sequence may have."""
        return self.trunk.context

    @property
    def vocabulary(self) -> int:
        """How many different tokens there are."""
        return self.trunk.vocabulary

    @property
    def output_weight(self) -> Float[Tensor, "vocabulary width"]:
        """The map from states to scores: for `losses`, which never makes all scores at once."""
        return self.trunk.embedding.weight if self.output is None else self.output.weight

    def forward(
        self,
        ids: Int[Tensor, "batch token"],
        unroll: Unroll | None = None,
        *,
        real: Bool[Tensor, "batch token"] | None = None,
        prefix: Int[Tensor, " batch"] | None = None,
    ) -> Float[Tensor, "step batch token vocabulary"]:
        """Scores (logits) of the token after each token, for each iteration in the window.

        That is a large tensor. To train, give `states` to `window_cross_entropy`; to generate, use `decode`.
        """
        return self.scores(self.states(ids, unroll, real=real, prefix=prefix))

    def states(
        self,
        ids: Int[Tensor, "batch token"],
        unroll: Unroll | None = None,
        *,
        real: Bool[Tensor, "batch token"] | None = None,
        prefix: Int[Tensor, " batch"] | None = None,
    ) -> Float[Tensor, "step batch token width"]:
        """The final states that scores are made of.

        Args:
            ids: tokens.
            unroll: how far the loop runs; by default as the program says, read once.
            real: which tokens are not padding. Batches that are padded on the right need none.
            prefix: how many tokens of each sequence are given; a model with `prefix_lm` needs to know.
        """
        return self.trunk(ids, unroll, self.visibility(ids.shape[1], real, prefix))

    def visibility(
        self, tokens: int, real: Bool[Tensor, "batch token"] | None, prefix: Int[Tensor, " batch"] | None
    ) -> Visibility | None:
        """What the tokens of sequences of this length see in this model."""
        if self.prefix_lm and prefix is None:
            raise ValueError(
                "this model was built with prefix_lm=True: say how many tokens are given (prefix=)"
            )
        return visible(real, prefix=prefix if self.prefix_lm else None, tokens=tokens)

    def scores(self, states: Float[Tensor, "*batch width"]) -> Float[Tensor, "*batch vocabulary"]:
        """Scores (logits) of the next token."""
        return F.linear(states, self.output_weight)
