"""Newton's iteration for the inverse of the Gram matrix."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from algoformer.algorithms.prefixes import Method, Prefixes, spectrum_of


@dataclass(frozen=True, kw_only=True)
class Newton(Method):
    """M_0 = αS, M_{k+1} = 2M_k - M_k S M_k, w_k = M_k Σ y_j f_j, with S = Σ f_j f_jᵀ over the pairs seen.

    The residual I - M_k S squares at every step once 0 < α < 2/λ_max(S)²; at 2/λ_max² it stalls, above it
    diverges. `alpha=None` takes 1/λ_max² for each prefix. M_k tends to the pseudo-inverse, w_k to the
    least-squares solution of smallest norm.

    With fewer pairs than coordinates S has a null space. In exact arithmetic M_k never enters it; in
    floating point rounding does, and the iteration doubles it at every step (in float64 it takes over
    after some 50 steps, in float32 after 20). So each step is projected back onto the span of the pairs:
    no change in exact arithmetic, and traces stay finite however long they are. Directions whose
    eigenvalue is below dim · eps · λ_max count as null: at that size they are rounding themselves.
    """

    alpha: float | None = None

    def __post_init__(self) -> None:
        if self.alpha is not None and not (math.isfinite(self.alpha) and self.alpha > 0):
            raise ValueError(
                f"alpha must be > 0 and below 2/λ_max(S)² of every prompt (1/150² suits 40 normal pairs of "
                f"20 coordinates), or None for 1/λ_max² of each prefix; got {self.alpha}"
            )

    def iterates(self, prefixes: Prefixes) -> Iterator[Tensor]:
        """Yield the weights after step 1, after step 2, and so on without end."""
        gram = prefixes.gram
        spectrum = spectrum_of(gram)
        span = spectrum.projector.to(gram.dtype)
        inverse = self._alpha(spectrum.largest).to(gram.dtype)[..., None, None] * gram
        while True:
            inverse = span @ (2 * inverse - inverse @ gram @ inverse)
            yield inverse @ prefixes.cross

    def _alpha(self, largest: Tensor) -> Tensor:
        return largest.square().reciprocal() if self.alpha is None else torch.full_like(largest, self.alpha)
