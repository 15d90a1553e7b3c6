"""Gradient descent on the squared error, plain and with momentum."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from algoformer.algorithms.prefixes import Method, Prefixes, spectrum_of


@dataclass(frozen=True, kw_only=True)
class GradientDescent(Method):
    """w ← w - η ∇L(w) from w = 0, with L(w) = 1/(2n) Σ (y_j - <w, f_j>)² over the n pairs seen so far.

    `step_size` is η, or how to choose it for each prefix from the eigenvalues λ of its Hessian:
    "optimal" is 2/(λ_max + λ_min), the fastest fixed step in the long run, λ_min being the smallest that is
    not zero; "lipschitz" is 1/λ_max. On badly conditioned features the first hardly moves along λ_max and the
    second hardly along the rest; "practical" is 1.8/λ_max, the best at 20 steps of 1.0, 1.4, 1.6, 1.8, 1.9
    over λ_max both on linear regression and on regression with representation. A number may be too large
    for some prefix, which then diverges as it should: with n = 1 and 20 normal coordinates λ_max is about
    20, with n = 40 about 2.6. `penalty` λ adds λ/2 |w|² to the loss, which makes it ridge regression.

    >>> from algoformer import Prompt, Unroll
    >>> xs = torch.ones(1, 3, 1)
    >>> trace = GradientDescent(step_size=0.5)(Prompt.of_pairs(xs, 2 * xs), Unroll(steps=3))
    >>> trace.predictions[:, 0, -1, 0]
    tensor([1.0000, 1.5000, 1.7500])
    """

    step_size: float | Literal["optimal", "lipschitz", "practical"] = "optimal"
    penalty: float = 0.0

    def __post_init__(self) -> None:
        _check_step_size(self.step_size, ("optimal", "lipschitz", "practical"))
        if not (math.isfinite(self.penalty) and self.penalty >= 0):
            raise ValueError(f"penalty must be a finite number ≥ 0, got {self.penalty}")

    def iterates(self, prefixes: Prefixes) -> Iterator[Tensor]:
        """Yield the weights after step 1, after step 2, and so on without end."""
        hessian, target = prefixes.gram / prefixes.divisor, prefixes.cross / prefixes.divisor
        if self.penalty:
            hessian = hessian + self.penalty * torch.eye(hessian.shape[-1]).to(hessian)
        step_size = self._step_size(hessian)
        weights = torch.zeros_like(target)
        while True:
            weights = weights - step_size * (hessian @ weights - target)
            yield weights

    def _step_size(self, hessian: Tensor) -> Tensor | float:
        if not isinstance(self.step_size, str):
            return self.step_size
        spectrum = spectrum_of(hessian)
        if self.step_size == "optimal":
            step_size = 2 / (spectrum.largest + spectrum.smallest)
        else:
            step_size = (1.8 if self.step_size == "practical" else 1.0) / spectrum.largest
        return step_size.to(hessian.dtype)[..., None, None]


@dataclass(frozen=True, kw_only=True)
class HeavyBall(Method):
    """w_{k+1} = w_k - η ∇L(w_k) + β (w_k - w_{k-1}): gradient descent that keeps part of its last move.

    "optimal" chooses both for each prefix, η = 4/(√λ_max + √λ_min)² and β = ((√λ_max - √λ_min)/(√λ_max +
    √λ_min))², λ_min being the smallest eigenvalue that is not zero: the error then falls with the root of the
    condition number. Loss and eigenvalues are those of `GradientDescent`.
    """

    step_size: float | Literal["optimal"] = "optimal"
    momentum: float | Literal["optimal"] = "optimal"

    def __post_init__(self) -> None:
        _check_step_size(self.step_size, ("optimal",))
        if isinstance(self.step_size, str) != isinstance(self.momentum, str):
            raise ValueError(
                "step_size and momentum are chosen together: give two numbers or 'optimal' twice, "
                f"got step_size={self.step_size!r}, momentum={self.momentum!r}"
            )
        if isinstance(self.momentum, str):
            if self.momentum != "optimal":
                raise ValueError(f"momentum must be a number or 'optimal', got {self.momentum!r}")
        elif not 0 <= self.momentum < 1:
            raise ValueError(f"momentum must lie in [0, 1), got {self.momentum}")

    def iterates(self, prefixes: Prefixes) -> Iterator[Tensor]:
        """Yield the weights after step 1, after step 2, and so on without end."""
        hessian, target = prefixes.gram / prefixes.divisor, prefixes.cross / prefixes.divisor
        step_size, momentum = self._constants(hessian)
        weights = before = torch.zeros_like(target)
        while True:
            gradient = hessian @ weights - target
            weights, before = weights - step_size * gradient + momentum * (weights - before), weights
            yield weights

    def _constants(self, hessian: Tensor) -> tuple[Tensor | float, Tensor | float]:
        if not isinstance(self.step_size, str) and not isinstance(self.momentum, str):
            return self.step_size, self.momentum
        spectrum = spectrum_of(hessian)
        large, small = spectrum.largest.sqrt(), spectrum.smallest.sqrt()
        step_size = (2 / (large + small)).square()
        momentum = ((large - small) / (large + small)).square()
        return step_size.to(hessian.dtype)[..., None, None], momentum.to(hessian.dtype)[..., None, None]


def _check_step_size(step_size: float | str, rules: tuple[str, ...]) -> None:
    if isinstance(step_size, str):
        if step_size not in rules:
            raise ValueError(f"step_size must be a number or one of {', '.join(rules)}, got {step_size!r}")
    elif not (math.isfinite(step_size) and step_size > 0):
        raise ValueError(f"step_size must be a finite number > 0, got {step_size}")
