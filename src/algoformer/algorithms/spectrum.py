"""Eigenvalues of the prefixes' Gram matrices, and what is above rounding in them."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor


@dataclass(frozen=True, kw_only=True)
class Spectrum:
    """Eigenvalues in rising order with their vectors, in float64; `kept` marks those above rounding.

    With fewer pairs than coordinates the rest of the eigenvalues are zero, which in floating point means
    below dim · eps · the largest one, eps being that of the matrix as it was given.
    """

    values: Float[Tensor, "*batch dim"]
    vectors: Float[Tensor, "*batch dim dim"]
    kept: Bool[Tensor, "*batch dim"]

    @property
    def largest(self) -> Float[Tensor, "*batch"]:
        """The largest eigenvalue, or 1 where all are zero."""
        return self._or_one(self.values[..., -1])

    @property
    def smallest(self) -> Float[Tensor, "*batch"]:
        """The smallest eigenvalue above rounding, or 1 where all are zero."""
        return self._or_one(self.values.masked_fill(~self.kept, torch.inf).amin(dim=-1))

    def _or_one(self, values: Tensor) -> Tensor:
        return values.where(self.kept[..., -1], torch.ones((), dtype=values.dtype, device=values.device))

    @property
    def projector(self) -> Float[Tensor, "*batch dim dim"]:
        """The orthogonal projection onto the space that the pairs span."""
        basis = self.vectors * self.kept[..., None, :]
        return basis @ basis.mT

    def minimum_norm(self, cross: Float[Tensor, "*batch dim out"]) -> Float[Tensor, "*batch dim out"]:
        """Return the smallest solution of gram · w = cross."""
        inverses = self.values.reciprocal().where(self.kept, torch.zeros_like(self.values))
        return self.vectors @ (inverses[..., None] * (self.vectors.mT @ cross.double()))


def spectrum_of(gram: Float[Tensor, "*batch dim dim"]) -> Spectrum:
    """Decompose symmetric matrices in float64."""
    values, vectors = torch.linalg.eigh(gram.double())
    rounding = gram.shape[-1] * torch.finfo(gram.dtype).eps * values[..., -1:]
    return Spectrum(values=values, vectors=vectors, kept=(values > rounding) & (values > 0))
