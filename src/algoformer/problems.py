"""The regression problems inside a prompt: what a textbook method sees of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor

from algoformer.prompt import Prompt


def identity(values: Tensor) -> Tensor:
    """Leave a prediction as it is: the link of a linear model."""
    return values


@dataclass(frozen=True, kw_only=True)
class Problems:
    """Columns of samples (feature, label); at sample i the pairs j < i of its column are known.

    A prompt of pairs is one problem; a chain of thought is one problem for each layer. `asked[k]` says
    which (problem, sample) question k of the prompt is; `link` turns <weights, features> into an answer.
    """

    features: Float[Tensor, "batch problem sample dim"]
    labels: Float[Tensor, "batch problem sample out"]
    asked: tuple[tuple[int, int], ...]
    link: Callable[[Tensor], Tensor] = identity


View = Callable[[Prompt], Problems]
"""How a solver reads a prompt: raw rows (`pairs`), or features that only the task's maker knows."""


def pairs(prompt: Prompt) -> Problems:
    """Read (x, y) samples as they stand: linear regression on the raw rows.

    Labels come from the rows that are shown, never from the targets; where the last sample is cut off
    before its label, that label is zero and no question can depend on it.
    """
    if prompt.parts != 2:
        raise ValueError(f"pairs need a prompt of (x, y) samples, got samples of {prompt.parts} row(s)")
    return Problems(
        features=prompt.part(0)[:, None],
        labels=prompt.part(1)[:, None, :, : prompt.out],
        asked=tuple((0, row // 2) for row in prompt.reads),
    )
