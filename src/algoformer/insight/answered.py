"""Answers to one question of each prompt, and how far they are from the reference."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

import torch
from torch import Tensor

from algoformer.insight.measured import Measured, Search, typical_unit
from algoformer.insight.series import Series, SeriesReader


@dataclass(frozen=True, kw_only=True)
class Answered(Measured):
    """One answer for each problem and pass, where a prompt cannot be asked anything else.

    A family predicts the answer φᵀw_t, so it is judged on the direction φ of the question. More prompts
    take the place of more queries.

    Attributes:
        query: features φ of the question, (prompt, feature).
        answers: (step, problem).
    """

    # eigenvalues of a series span decades, and true steps may diverge on some
    search: ClassVar[Search] = Search(grid=160, starts=8, polish=60, limit=1e6)

    query: Tensor
    answers: Tensor

    @cached_property
    def query_parts(self) -> Tensor:
        """Components of the question's features along the eigenvectors of S, (prompt, feature)."""
        return (self.query[:, None] @ self.eigenvectors)[:, 0]

    @cached_property
    def solved_parts(self) -> Tensor:
        """The contribution of each direction to the reference's answer, (prompt, out, feature)."""
        shrunk = (1 - self.reference(self.eigenvalues)) * self.query_parts
        return shrunk[:, None] * self.solution_parts.unflatten(0, (-1, self.outs))

    @property
    def values(self) -> Tensor:
        """The answers, (step, problem, 1)."""
        return self.answers[..., None]

    @property
    def solved(self) -> Tensor:
        """The reference's answers, (problem, 1)."""
        return self.solved_parts.sum(-1).flatten()[:, None]

    @property
    def solutions(self) -> dict[str, Tensor]:
        """The answers of least squares, and those of the reference."""
        query = self.query_parts.repeat_interleave(self.outs, 0)
        exact = (query * self.solution_parts).sum(-1, keepdim=True)
        return {"least squares": exact} | ({"ridge regression": self.solved} if self.penalty else {})

    @property
    def left_parts(self) -> Tensor:
        """The distances to the reference's answers, (step, problem, 1)."""
        return self.solved - self.values

    def seen(self, parts: Tensor) -> Tensor:
        """Return the answers that weights along the eigenvectors leave to the reference's."""
        rest = self.reference(self.eigenvalues).repeat_interleave(self.outs, 0) * self.solution_parts
        query = self.query_parts.repeat_interleave(self.outs, 0)
        return ((parts - rest) * query).sum(-1, keepdim=True)

    def filtered(self, ratio: Tensor) -> Tensor:
        """Return the answers that a residual filter leaves to the reference's."""
        weights = self.solution_parts.unflatten(0, (-1, self.outs))
        seen = (ratio - self.reference(self.eigenvalues)) * self.query_parts
        return torch.einsum("...pf,pof->...po", seen, weights).flatten(-2)[..., None]

    def moments(self, group: Tensor, count: int) -> tuple[Tensor, Tensor]:
        """Return the products of sums over groups: an answer mixes all directions."""
        parts = self.solved_parts
        sums = parts.new_zeros(*parts.shape[:2], count)
        sums = sums.scatter_add_(2, group[:, None].expand_as(parts), parts).flatten(0, 1)
        return sums.mT @ sums, self.left_parts[..., 0] @ sums

    @property
    def importance(self) -> Tensor:
        """The squared contributions to the reference's answers, (prompt, feature)."""
        return self.solved_parts.square().sum(1)

    def select(self, index: Tensor) -> Answered:
        """Return the problems of some of the prompts."""
        chosen = self.problems_of(index)
        return replace(
            self,
            features=self.features[index],
            labels=self.labels[chosen],
            query=self.query[index],
            answers=self.answers[:, chosen],
        )


def answers_to(read: SeriesReader, series: Series, steps: int) -> Answered:
    """Read a solver's answer to the question of each series after each pass.

    The reference is ridge regression with the strength that the noise of the task asks for. With standard
    normal weights no solver has a smaller expected error; least squares would answer from noise wherever
    features hardly vary, as those of a series do.
    """
    features = series.features
    return Answered(
        features=features,
        labels=series.labels.mT.flatten(0, 1),
        outs=series.labels.shape[-1],
        penalty=series.task.noise**2 / features.shape[1],
        unit=typical_unit(features),
        query=series.query,
        answers=read(series, steps).flatten(1),
    )
