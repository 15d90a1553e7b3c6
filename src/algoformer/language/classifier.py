"""The classifier: a program between an embedding and a label, read from the mean over tokens."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from algoformer.language.trunk import Trunk, token_context
from algoformer.model.algoformer import recorded
from algoformer.model.context import Edit
from algoformer.model.parts import ProgramModule
from algoformer.model.program import Part, Program, default_steps
from algoformer.model.rebuild import why_not_rebuilt
from algoformer.trace import Trace, Unroll


class TextClassifier(nn.Module):
    """Runs a program on tokens and scores every label, from the mean of the final states without padding.

    The paper's classifiers are encoders: give programs with `causal=False`. Padding changes nothing.

    Args:
        program: and `vocabulary`, `context`, `width` and dropout rates: as for `Trunk`.
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
        vocabulary: int,
        context: int,
        width: int = 256,
        dropout: int | float = 0.0,
        attention_dropout: int | float = 0.0,
        word_dropout: int | float = 0.0,
    ) -> None:
        super().__init__()
        if len(labels) < 2 or len(set(labels)) < len(labels):
            raise ValueError(f"labels must be two or more different names, got {list(labels)}")
        self.labels = tuple(labels)
        self.trunk = Trunk(
            program,
            vocabulary=vocabulary,
            context=context,
            width=width,
            dropout=dropout,
            attention_dropout=attention_dropout,
            word_dropout=word_dropout,
        )
        self.head = nn.Linear(width, len(labels))
        nn.init.normal_(self.head.weight, std=0.02)
        nn.init.zeros_(self.head.bias)

    @property
    def program(self) -> Program:
        """The program of the model."""
        return self.trunk.program

    @property
    def body(self) -> ProgramModule:
        """The program with its weights, without embedding and output: what optimizers treat as hidden."""
        return self.trunk.body

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
        unroll = unroll or Unroll(steps=default_steps(self.program), window=1)
        access = self.body.access(unroll.keep, unroll.steps)
        context = replace(token_context(attention_mask), access=access)
        scores = self.head(masked_mean(self.trunk.run(input_ids, unroll, context), attention_mask))
        found = {} if access is None else recorded(access)
        return Trace(predictions=scores[:, :, None], first_step=unroll.first_step, states=found)

    def rebuildable(self) -> str | None:
        """Return why this model could not be built again from its program; None if it could."""
        trunk = self.trunk
        sizes = {"vocabulary": trunk.vocabulary, "context": trunk.context, "width": trunk.width}
        with torch.device("meta"):
            built = TextClassifier(self.program, labels=self.labels, **sizes)
        return why_not_rebuilt(self, built)

    def edit(self, edits: Mapping[str, Edit]) -> AbstractContextManager[None]:
        """Replace states by address inside a `with` block, as `AlgoFormer.edit` does."""
        return self.body.edit(edits)


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
