"""Closed-form solutions: the limits and baselines of the iterative methods."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from algoformer.algorithms.prefixes import Prefixes, in_double, trace_of_solution
from algoformer.algorithms.spectrum import spectrum_of
from algoformer.problems import Problems, View, pairs
from algoformer.prompt import Prompt
from algoformer.trace import Trace, Unroll


@dataclass(frozen=True, kw_only=True)
class LeastSquares:
    """The weights of smallest norm that minimize the squared error over the pairs seen: no pairs, no weights.

    Solved in float64 whatever the prompt's precision. For noiseless labels with normal weights this is the
    posterior mean: no solver has a smaller expected error.
    """

    view: View = pairs

    def __call__(self, prompt: Prompt, unroll: Unroll) -> Trace:
        """Return the same answer at every step, for every question from the pairs before it."""
        return trace_of_solution(self._weights, in_double(self.view(prompt)), unroll)

    def _weights(self, prefixes: Prefixes) -> Tensor:
        spectrum = spectrum_of(prefixes.gram)
        weights = spectrum.minimum_norm(prefixes.cross)
        # the Gram matrix squares the condition number; one refinement on the pairs themselves mends that
        features = prefixes.features_seen()
        residual = prefixes.labels_seen() - features @ weights
        return weights + spectrum.minimum_norm(features.mT @ residual)


@dataclass(frozen=True, kw_only=True)
class Ridge:
    """w = (S + strength · I)⁻¹ Σ y_j f_j with S = Σ f_j f_jᵀ, in float64.

    With strength σ² this is the posterior mean for standard normal weights and noise of standard
    deviation σ: no solver that sees these features has a smaller expected error.
    """

    strength: float
    view: View = pairs

    def __post_init__(self) -> None:
        if not (math.isfinite(self.strength) and self.strength > 0):
            raise ValueError(f"strength must be > 0 (LeastSquares is its limit at 0), got {self.strength}")

    def __call__(self, prompt: Prompt, unroll: Unroll) -> Trace:
        """Return the same answer at every step, for every question from the pairs before it."""
        return trace_of_solution(self._weights, in_double(self.view(prompt)), unroll)

    def _weights(self, prefixes: Prefixes) -> Tensor:
        identity = torch.eye(prefixes.gram.shape[-1], dtype=prefixes.gram.dtype, device=prefixes.gram.device)
        return torch.linalg.solve(prefixes.gram + self.strength * identity, prefixes.cross)


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
class Averaging:
    """w = the mean of y_j f_j over the pairs seen: unbiased for features with identity covariance."""

    view: View = pairs

    def __call__(self, prompt: Prompt, unroll: Unroll) -> Trace:
        """Return the same answer at every step, for every question from the pairs before it."""
        return trace_of_solution(self._weights, self.view(prompt), unroll)

    def _weights(self, prefixes: Prefixes) -> Tensor:
        return prefixes.cross / prefixes.divisor


@dataclass(frozen=True, kw_only=True)
class Zero:
    """Zero weights: the baseline that every solver should beat."""

    view: View = pairs

    def __call__(self, prompt: Prompt, unroll: Unroll) -> Trace:
        """Return the same answer at every step: the link of zero."""
        return trace_of_solution(self._weights, self.view(prompt), unroll)

    def _weights(self, prefixes: Prefixes) -> Tensor:
        return torch.zeros_like(prefixes.cross)
