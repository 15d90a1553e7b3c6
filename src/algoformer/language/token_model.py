"""The language model: a program between an embedding and a distribution over the next token."""

from __future__ import annotations

from typing import Unpack

import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from algoformer.language.trunk import TextModel, TrunkOptions, token_context
from algoformer.model.driver import ForwardContext
from algoformer.model.program import Part, Program, modules_of
from algoformer.trace import Trace, Unroll


class TokenModel(TextModel):
    """A language model: a program on tokens that scores every next token.

    Args:
        program: and `vocabulary`, `context`, `width` and dropout rates (`options`): as for `Trunk`.
        tied: whether the embedding is also the map to scores.
        prefix_lm: whether the tokens of a prefix (a sentence to translate) attend to each other in both
            directions. What is generated after it attends only to earlier tokens.

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
        tied: bool = True,
        prefix_lm: bool = False,
        **options: Unpack[TrunkOptions],
    ) -> None:
        super().__init__(program, **options)
        for layers in modules_of(self.trunk.program):
            if not layers.causal:
                raise ValueError(
                    "full attention would see the tokens to be predicted; use causal layers, and "
                    "prefix_lm=True where the tokens of a prefix should see each other"
                )
        self.tied, self.prefix_lm = tied, prefix_lm
        self.output = None if tied else nn.Linear(self.trunk.width, self.vocabulary, bias=False)
        if self.output is not None:
            nn.init.normal_(self.output.weight, std=0.02)

    @property
    def output_weight(self) -> Float[Tensor, "vocabulary width"]:
        """The map from states to scores: for `losses`, which never makes all scores at once."""
        return self.trunk.embedding.weight if self.output is None else self.output.weight

    def forward(
        self,
        input_ids: Int[Tensor, "batch token"],
        unroll: Unroll | None = None,
        *,
        attention_mask: Bool[Tensor, "batch token"] | None = None,
        prefix: Int[Tensor, " batch"] | None = None,
    ) -> Float[Tensor, "step batch token vocabulary"]:
        """Return the scores (logits) of the token after each token, for each iteration in the window.

        That is a large tensor. To train, give `states` to `window_cross_entropy`; to generate, use `decode`.
        """
        return self.scores(self.states(input_ids, unroll, attention_mask=attention_mask, prefix=prefix))

    def states(
        self,
        input_ids: Int[Tensor, "batch token"],
        unroll: Unroll | None = None,
        *,
        attention_mask: Bool[Tensor, "batch token"] | None = None,
        prefix: Int[Tensor, " batch"] | None = None,
    ) -> Float[Tensor, "step batch token width"]:
        """Return the final states that scores are made of.

        Args:
            input_ids: tokens.
            unroll: how far the loop runs; by default as the program says, read once.
            attention_mask: which tokens are not padding. Batches that are padded on the right need none.
            prefix: number of tokens of each sequence that are given; a model with `prefix_lm` needs it.
        """
        return self.trunk(input_ids, unroll, self.context_of(input_ids, attention_mask, prefix))

    def states_and_halting(
        self,
        input_ids: Int[Tensor, "batch token"],
        unroll: Unroll,
        *,
        prefix: Int[Tensor, " batch"] | None = None,
    ) -> tuple[Float[Tensor, "step batch token width"], Float[Tensor, "step batch token"] | None]:
        """Return the final states, and what the loop says about halting at each of them.

        These are the logits of its exit gate, the ponder cost of adaptive computation time, or None.
        """
        return self.trunk.run(input_ids, unroll, self.context_of(input_ids, None, prefix))

    def trace(
        self,
        input_ids: Int[Tensor, "batch token"],
        unroll: Unroll | None = None,
        *,
        attention_mask: Bool[Tensor, "batch token"] | None = None,
        prefix: Int[Tensor, " batch"] | None = None,
    ) -> Trace:
        """Return the scores of the next tokens with the hidden states that `unroll.keep` names.

        >>> import torch
        >>> from algoformer import programs
        >>> model = TokenModel(programs.algoformer(heads=2), vocabulary=50, context=32, width=16)
        >>> trace = model.trace(torch.randint(50, (4, 7)), Unroll(steps=10, window=1, keep=("loop[2]/0",)))
        >>> trace.states["loop[2]/0"].shape
        torch.Size([4, 7, 16])
        """
        return self._trace(input_ids, unroll, self.context_of(input_ids, attention_mask, prefix), self.scores)

    def _built_again(self, sizes: dict[str, int]) -> TokenModel:
        return TokenModel(self.program, tied=self.tied, prefix_lm=self.prefix_lm, **sizes)

    def context_of(
        self,
        input_ids: Int[Tensor, "batch token"],
        attention_mask: Bool[Tensor, "batch token"] | None,
        prefix: Int[Tensor, " batch"] | None,
    ) -> ForwardContext:
        """Return the masks and positions of a batch in this model."""
        self.trunk.check(input_ids)
        if self.prefix_lm and prefix is None:
            raise ValueError(
                "this model was built with prefix_lm=True: say how many tokens are given (prefix=)"
            )
        given = prefix if self.prefix_lm else None
        return token_context(attention_mask, prefix=given, tokens=input_ids.shape[1])

    def scores(self, states: Float[Tensor, "*batch width"]) -> Float[Tensor, "*batch vocabulary"]:
        """Return the scores (logits) of the next token."""
        # the module itself, which may have been given hooks or an adapter
        return F.linear(states, self.trunk.embedding.weight) if self.output is None else self.output(states)
