"""The classifier: a program between an embedding and a label, read from the mean of the real tokens."""

from __future__ import annotations

from collections.abc import Sequence

from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from algoformer.language.trunk import Trunk, visible
from algoformer.model.parts import ProgramModule
from algoformer.model.program import Part, Program
from algoformer.trace import Unroll


class TextClassifier(nn.Module):
    """Runs a program on tokens and scores every label, from the mean of the final states of real tokens.

    The paper's classifiers are encoders: give programs with `causal=False`. Padding changes nothing.

    Args:
        program: and `vocabulary`, `context`, `width` and shares to leave out: as for `Trunk`.
        labels: their names; at least two, all different.

    >>> import torch
    >>> from algoformer import programs
    >>> program = programs.algoformer(heads=1, causal=False)
    >>> model = TextClassifier(program, labels=("sport", "world"), vocabulary=50, context=32, width=8)
    >>> real = torch.ones(4, 7, dtype=torch.bool)
    >>> model(torch.randint(50, (4, 7)), real, Unroll(steps=10, window=3)).shape
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
        """What is run."""
        return self.trunk.program

    @property
    def body(self) -> ProgramModule:
        """The program with its weights, without embedding and output: what optimizers treat as hidden."""
        return self.trunk.body

    def forward(
        self,
        ids: Int[Tensor, "batch token"],
        real: Bool[Tensor, "batch token"],
        unroll: Unroll | None = None,
    ) -> Float[Tensor, "step batch label"]:
        """Scores (logits) of the labels, for each iteration in the window."""
        states = self.trunk(ids, unroll, visible(real))
        return self.head(mean_of_real(states, real))


def mean_of_real(
    states: Float[Tensor, "step batch token width"], real: Bool[Tensor, "batch token"]
) -> Float[Tensor, "step batch width"]:
    """The mean of the states of real tokens; zero where there are none.

    >>> import torch
    >>> states = torch.tensor([1.0, 3.0, 50.0]).reshape(1, 1, 3, 1)
    >>> mean_of_real(states, torch.tensor([[True, True, False]])).item()
    2.0
    """
    # not a product with zeros and ones: padding may hold anything, and nothing times infinity is not a number
    kept = states.masked_fill(~real[:, :, None], 0.0)
    return kept.sum(dim=2) / real.sum(dim=1).clamp(min=1)[:, None]
