"""The regression problems inside a prompt, as textbook methods read them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor

from algoformer.prompt import Prompt


def identity(values: Tensor) -> Tensor:
    """Return a prediction unchanged: the link function of a linear model."""
    return values


@dataclass(frozen=True, kw_only=True)
class Problems:
    """Regression problems, each a sequence of (feature, label) samples; sample i is predicted from j < i.

    A prompt of pairs is one problem; a chain of thought is one problem for each layer. `questions[k]` is the
    (problem, sample) that question k of the prompt asks for; `link` maps <weights, features> to an answer,
    and `unlink` is its inverse.
    """

    features: Float[Tensor, "batch problem sample dim"]
    labels: Float[Tensor, "batch problem sample out"]
    questions: tuple[tuple[int, int], ...]
    link: Callable[[Tensor], Tensor] = identity
    unlink: Callable[[Tensor], Tensor] = identity


View = Callable[[Prompt], Problems]
"""A function that reads the problems of a prompt: from raw rows (`pairs`), or from a task's own features."""


def pairs(prompt: Prompt) -> Problems:
    """Read (x, y) samples as linear regression on the raw rows.

    Labels are read from the rows, never from the targets. Where the last sample is cut off before its label,
    that label is zero, and no question depends on it.
    """
    if prompt.parts != 2:
        raise ValueError(f"pairs need a prompt of (x, y) samples, got samples of {prompt.parts} row(s)")
    return Problems(
        features=prompt.part(0)[:, None],
        labels=prompt.part(1)[:, None, :, : prompt.out],
        questions=tuple((0, row // 2) for row in prompt.reads),
    )
