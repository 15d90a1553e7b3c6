"""The classifier: a program between an embedding and a label, read from the mean over tokens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Unpack

from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from algoformer.common.terminal import short
from algoformer.language.trunk import TextModel, TrunkOptions, token_context
from algoformer.model.driver import ForwardContext
from algoformer.model.program import Part, Program, default_steps
from algoformer.model.settle import Settled, settle
from algoformer.model.stopping import StoppingRule
from algoformer.trace import Trace, Unroll


class TextClassifier(TextModel):
    """A classifier: a program on tokens that scores labels from the mean of the final states without padding.

    The paper's classifiers are encoders: give programs with `causal=False`. Padding changes nothing.

    Args:
        program: and `vocabulary`, `context`, `width` and dropout rates (`options`): as for `Trunk`.
        labels: names of the labels; at least two, all different.

    >>> import torch
    >>> from algoformer import programs
    >>> program = programs.algoformer(heads=1, causal=False)
    >>> model = TextClassifier(program, labels=("sport", "world"), vocabulary=50, context=32, width=8)
    >>> attention_mask = torch.ones(4, 7, dtype=torch.bool)
    >>> model(torch.randint(50, (4, 7)), attention_mask, Unroll(steps=10, window=3)).shape
    torch.Size([3, 4, 2])
    """

    def __init__(
        self,
        program: Program | Part | tuple[Part, ...],
        *,
        labels: Sequence[str],
        **options: Unpack[TrunkOptions],
    ) -> None:
        super().__init__(program, **options)
        if len(labels) < 2 or len(set(labels)) < len(labels):
            raise ValueError(f"labels must be two or more different names, got {short(list(labels))}")
        self.labels = tuple(labels)
        self.head = nn.Linear(self.trunk.width, len(labels))
        nn.init.normal_(self.head.weight, std=0.02)
        nn.init.zeros_(self.head.bias)

    def forward(
        self,
        input_ids: Int[Tensor, "batch token"],
        attention_mask: Bool[Tensor, "batch token"],
        unroll: Unroll | None = None,
    ) -> Float[Tensor, "step batch label"]:
        """Return the scores (logits) of the labels, for each iteration in the window."""
        states = self.trunk(input_ids, unroll, token_context(attention_mask))
        return self.head(masked_mean(states, attention_mask))

    def trace(
        self,
        input_ids: Int[Tensor, "batch token"],
        attention_mask: Bool[Tensor, "batch token"],
        unroll: Unroll | None = None,
    ) -> Trace:
        """Return the scores of the labels, one question each, with the states that `unroll.keep` names."""
        return self._trace(
            input_ids,
            unroll,
            token_context(attention_mask),
            lambda states: self.head(masked_mean(states, attention_mask))[:, :, None],
        )

    def settle(
        self,
        input_ids: Int[Tensor, "batch token"],
        attention_mask: Bool[Tensor, "batch token"],
        rule: StoppingRule,
    ) -> Settled:
        """Return the scores of the labels when a stopping rule stops each text, and its iterations.

        Every text needs a token that is not padding.
        """
        self.trunk.check(input_ids)
        context = token_context(attention_mask)
        context = replace(context, access=self.body.access((), rule.max_steps or default_steps(self.program)))

        def read_out(states: Tensor, inside: ForwardContext) -> Tensor:
            assert inside.full_mask is not None  # of the texts that have not stopped yet
            return self.head(masked_mean(self.trunk.finish(states)[None], inside.full_mask[:, 0, 0])[0])

        return settle(self.body, self.trunk.embed(input_ids), rule, read_out, context, attention_mask)

    def _built_again(self, sizes: dict[str, int]) -> TextClassifier:
        return TextClassifier(self.program, labels=self.labels, **sizes)


def masked_mean(
    states: Float[Tensor, "step batch token width"], attention_mask: Bool[Tensor, "batch token"]
) -> Float[Tensor, "step batch width"]:
    """Return the mean of the states over the tokens that are not padding; zero where there are none.

    >>> import torch
    >>> states = torch.tensor([1.0, 3.0, 50.0]).reshape(1, 1, 3, 1)
    >>> masked_mean(states, torch.tensor([[True, True, False]])).item()
    2.0
    """
    # not a product with zeros and ones: padding may hold infinity or NaN
    kept = states.masked_fill(~attention_mask[:, :, None], 0.0)
    return kept.sum(dim=2) / attention_mask.sum(dim=1).clamp(min=1)[:, None]
