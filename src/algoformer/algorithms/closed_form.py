"""Closed-form solutions: the limits and baselines of the iterative methods."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor

from algoformer.algorithms.prefixes import Method, Prefixes, spectrum_of
from algoformer.problems import Problems, pairs
from algoformer.prompt import Prompt
from algoformer.trace import Trace, Unroll


@dataclass(frozen=True, kw_only=True)
class LeastSquares(Method):
    """The weights of smallest norm that minimize the squared error over the pairs seen: no pairs, no weights.

    Solved in float64 whatever the prompt's precision. For noiseless labels with normal weights this is the
    posterior mean: no solver has a smaller expected error.
    """

    in_float64: ClassVar[bool] = True

    def iterates(self, prefixes: Prefixes) -> Iterator[Tensor]:
        """Yield the weights, once."""
        spectrum = spectrum_of(prefixes.gram)
        weights = spectrum.minimum_norm(prefixes.cross)
        # the Gram matrix squares the condition number; one refinement on the pairs themselves mends that
        features = prefixes.features_seen()
        residual = prefixes.labels_seen() - features @ weights
        yield weights + spectrum.minimum_norm(features.mT @ residual)


@dataclass(frozen=True, kw_only=True)
class Ridge(Method):
    """w = (S + strength · I)⁻¹ Σ y_j f_j with S = Σ f_j f_jᵀ, in float64.

    With strength σ² this is the posterior mean for standard normal weights and noise of standard
    deviation σ: no solver that sees these features has a smaller expected error.
    """

    strength: float
    in_float64: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not (math.isfinite(self.strength) and self.strength > 0):
            raise ValueError(f"strength must be > 0 (LeastSquares is its limit at 0), got {self.strength}")

    def iterates(self, prefixes: Prefixes) -> Iterator[Tensor]:
        """Yield the weights, once."""
        identity = torch.eye(prefixes.gram.shape[-1], dtype=prefixes.gram.dtype, device=prefixes.gram.device)
        yield torch.linalg.solve(prefixes.gram + self.strength * identity, prefixes.cross)


@dataclass(frozen=True, kw_only=True)
class LinearInX:
    """Ridge regression on (x, √dim) with strength dim + noise²: a baseline without the representation.

    It is the posterior mean if the label is a constant, a part linear in x and a misfit of equal variance.
    Least squares on x alone would chase the misfit: where pairs and coordinates are equally many its error is
    thousands of times that of predicting zero.
    """

    noise: float = 0.0

    def __post_init__(self) -> None:
        if not (math.isfinite(self.noise) and self.noise >= 0):
            raise ValueError(f"noise must be a finite number >= 0, got {self.noise}")

    def __call__(self, prompt: Prompt, unroll: Unroll) -> Trace:
        """Return the same answer at every step, for every question from the pairs before it."""
        return Ridge(strength=prompt.dim + self.noise**2, view=_pairs_with_constant)(prompt, unroll)


def _pairs_with_constant(prompt: Prompt) -> Problems:
    raw = pairs(prompt)
    return replace(raw, features=torch.nn.functional.pad(raw.features, (0, 1), value=prompt.dim**0.5))


@dataclass(frozen=True, kw_only=True)
class Averaging(Method):
    """w = the mean of y_j f_j over the pairs seen: unbiased for features with identity covariance."""

    def iterates(self, prefixes: Prefixes) -> Iterator[Tensor]:
        """Yield the weights, once."""
        yield prefixes.cross / prefixes.divisor


@dataclass(frozen=True, kw_only=True)
class Zero(Method):
    """Zero weights: the baseline that every solver should beat."""

    def iterates(self, prefixes: Prefixes) -> Iterator[Tensor]:
        """Yield the weights, once."""
        yield torch.zeros_like(prefixes.cross)
