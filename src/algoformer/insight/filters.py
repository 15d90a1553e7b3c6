"""Textbook iterations as residual filters, and other methods as sequences of weights.

In the eigenbasis (λ, v) of S = FᵀF/n a filter method leaves <v, e_k> = r_k(λ) <v, w_LS> after its step k.
Filters return r_1, ..., r_K stacked along the first axis; their parameters broadcast against the eigenvalues.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

Parameter = Tensor | float


@dataclass(frozen=True)
class Spectrum:
    """Eigenvalues beside the largest and the smallest nonzero one of their prompt, all of one shape."""

    values: Tensor
    largest: Tensor
    smallest: Tensor

    @classmethod
    def of(cls, eigenvalues: Tensor) -> Spectrum:
        """Return the spectrum of each row of eigenvalues in rising order."""
        largest = eigenvalues[..., -1:].clamp(min=1e-300)
        kept = eigenvalues > 1e-10 * largest
        smallest = eigenvalues.masked_fill(~kept, torch.inf).amin(-1, keepdim=True)
        smallest = torch.where(torch.isfinite(smallest), smallest, largest)
        return cls(eigenvalues, largest.expand_as(eigenvalues), smallest.expand_as(eigenvalues))

    @property
    def over_largest(self) -> Spectrum:
        """The eigenvalues in units of their prompt's largest."""
        unit = self.largest
        return Spectrum(self.values / unit, torch.ones_like(unit), self.smallest / unit)

    @property
    def over_middle(self) -> Spectrum:
        """The eigenvalues in units of (largest + smallest)/2: gradient descent's optimal step is then 1."""
        unit = (self.largest + self.smallest) / 2
        return Spectrum(self.values / unit, self.largest / unit, self.smallest / unit)


def zero(spectrum: Spectrum, steps: int) -> Tensor:
    """Zero weights leave everything."""
    return _constant(torch.ones_like(spectrum.values), steps)


def shrunk(spectrum: Spectrum, steps: int, share: Parameter) -> Tensor:
    """Least squares multiplied by a constant: r = 1 - share."""
    return _constant((1 - share) * torch.ones_like(spectrum.values), steps)


def averaging(spectrum: Spectrum, steps: int, scale: Parameter) -> Tensor:
    """The mean of label times features: r = 1 - scale λ."""
    return _constant(1 - scale * spectrum.values, steps)


def ridge(spectrum: Spectrum, steps: int, rho: Parameter) -> Tensor:
    """Ridge regression with strength ρ on S: r = ρ/(λ + ρ)."""
    return _constant(rho / (spectrum.values + rho), steps)


def gradient_descent(spectrum: Spectrum, steps: int, eta: Parameter) -> Tensor:
    """r_k = (1 - ηλ)^k."""
    return _powers(1 - eta * spectrum.values, steps)


def ridge_descent(spectrum: Spectrum, steps: int, eta: Parameter, rho: Parameter) -> Tensor:
    """Gradient descent on the ridge objective: r_k = 1 - λ/(λ+ρ) (1 - (1 - η(λ+ρ))^k)."""
    shifted = spectrum.values + rho
    return 1 - spectrum.values / shifted * (1 - _powers(1 - eta * shifted, steps))


def heavy_ball(spectrum: Spectrum, steps: int, eta: Parameter, beta: Parameter) -> Tensor:
    """r_{k+1} = (1 + β - ηλ) r_k - β r_{k-1}."""
    moved = eta * spectrum.values
    return _two_term(lambda now, before: (1 + beta - moved) * now - beta * before, moved, steps)


def optimal_heavy_ball(spectrum: Spectrum, steps: int) -> Tensor:
    """Heavy ball with Polyak's step and momentum for each prompt."""
    large, small = spectrum.largest.sqrt(), spectrum.smallest.sqrt()
    eta, beta = 4 / (large + small).square(), ((large - small) / (large + small)).square()
    return heavy_ball(spectrum, steps, eta, beta)


def nesterov(spectrum: Spectrum, steps: int, eta: Parameter, beta: Parameter) -> Tensor:
    """r_{k+1} = (1 - ηλ) ((1 + β) r_k - β r_{k-1})."""
    moved = eta * spectrum.values
    return _two_term(lambda now, before: (1 - moved) * ((1 + beta) * now - beta * before), moved, steps)


def chebyshev(spectrum: Spectrum, steps: int, low: Parameter, high: Parameter) -> Tensor:
    """r_k = T_k(z(λ)) / T_k(z(0)) with z mapping [low, high] onto [-1, 1]."""
    center = (high + low) / (high - low)
    place = (high + low - 2 * spectrum.values) / (high - low)
    # both recurrences are divided by T_k(center), which grows without bound
    ratio = 1 / center
    before, now = torch.ones_like(place), place * ratio
    found = [now]
    for _ in range(steps - 1):
        grown = 1 / (2 * center - ratio)
        before, now = now, (2 * place * now - ratio * before) * grown
        ratio = grown
        found.append(now)
    return torch.stack(found)


def newton_from_gram(spectrum: Spectrum, steps: int, alpha: Parameter) -> Tensor:
    """Newton's iteration for S⁻¹ from M_0 = αS: r_k = (1 - αλ²)^(2^k)."""
    return _repeated_power(1 - alpha * spectrum.values.square(), steps, 2)


def newton_from_identity(spectrum: Spectrum, steps: int, alpha: Parameter) -> Tensor:
    """Newton's iteration for S⁻¹ from M_0 = αI: r_k = (1 - αλ)^(2^k)."""
    return _repeated_power(1 - alpha * spectrum.values, steps, 2)


def third_order(spectrum: Spectrum, steps: int, alpha: Parameter) -> Tensor:
    """The third-order iteration for S⁻¹ from M_0 = αI: r_k = (1 - αλ)^(3^k)."""
    return _repeated_power(1 - alpha * spectrum.values, steps, 3)


def gd_plus_plus(spectrum: Spectrum, steps: int, eta: Parameter, gamma: Parameter) -> Tensor:
    """GD++: each step also contracts the inputs, λ ← λ(1 - γλ)²."""
    now = torch.ones_like(eta * spectrum.values * gamma)
    values = spectrum.values * torch.ones_like(now)
    found = []
    for _ in range(steps):
        now = now * (1 - eta * values)
        values = values * (1 - gamma * values).square()
        found.append(now)
    return torch.stack(found)


def proximal_point(spectrum: Spectrum, steps: int, rho: Parameter) -> Tensor:
    """r_k = (ρ/(λ + ρ))^k."""
    return _powers(rho / (spectrum.values + rho), steps)


def damped_newton(spectrum: Spectrum, steps: int, eta: Parameter, rho: Parameter) -> Tensor:
    """Descent preconditioned by (S + ρI)⁻¹: r_k = (1 - ηλ/(λ + ρ))^k."""
    return _powers(1 - eta * spectrum.values / (spectrum.values + rho), steps)


def conjugate_gradients(features: Tensor, labels: Tensor, steps: int) -> Tensor:
    """Weights (step, problem, feature) of conjugate gradients on the normal equations."""
    gram, target = _moments(features, labels)
    weights, rest = torch.zeros_like(target), target
    direction, size = rest, rest.square().sum(-1, keepdim=True)
    found = []
    for _ in range(steps):
        image = (gram @ direction[..., None])[..., 0]
        step = size / (direction * image).sum(-1, keepdim=True).clamp(min=1e-300)
        weights, rest = weights + step * direction, rest - step * image
        fresh = rest.square().sum(-1, keepdim=True)
        direction, size = rest + fresh / size.clamp(min=1e-300) * direction, fresh
        found.append(weights)
    return torch.stack(found)


def steepest_descent(features: Tensor, labels: Tensor, steps: int) -> Tensor:
    """Weights of gradient descent with exact line search."""
    gram, target = _moments(features, labels)
    weights = torch.zeros_like(target)
    found = []
    for _ in range(steps):
        rest = target - (gram @ weights[..., None])[..., 0]
        curvature = (rest * (gram @ rest[..., None])[..., 0]).sum(-1, keepdim=True)
        weights = weights + rest.square().sum(-1, keepdim=True) / curvature.clamp(min=1e-300) * rest
        found.append(weights)
    return torch.stack(found)


def kaczmarz(features: Tensor, labels: Tensor, steps: int) -> Tensor:
    """Weights after each sweep of Kaczmarz's method over the examples in their order."""
    weights = features.new_zeros(features.shape[0], features.shape[2])
    squares = features.square().sum(-1).clamp(min=1e-300)
    found = []
    for _ in range(steps):
        for index in range(features.shape[1]):
            row = features[:, index]
            gap = (labels[:, index] - (weights * row).sum(-1)) / squares[:, index]
            weights = weights + gap[:, None] * row
        found.append(weights)
    return torch.stack(found)


def causal_gradient_descent(features: Tensor, labels: Tensor, steps: int, eta: Parameter) -> Tensor:
    """Weights of gradient descent by a causal stack: a residual sees only the examples before it."""
    count = features.shape[1]
    causal = (features @ features.mT).tril(-1) * (eta / count)
    rest, weights = labels, features.new_zeros(features.shape[0], features.shape[2])
    found = []
    for _ in range(steps):
        weights = weights + eta / count * (features.mT @ rest[..., None])[..., 0]
        rest = rest - (causal @ rest[..., None])[..., 0]
        found.append(weights)
    return torch.stack(found)


def best_polynomial_coefficients(spectrum: Spectrum, steps: int) -> list[tuple[float, float]]:
    """Return the recurrence of the residual polynomials that minimize Σ r_k(λ)² over these eigenvalues.

    They are the polynomials of conjugate gradients on the diagonal system of all eigenvalues with initial
    error λ^(-1/2), whose energy norm is Σ r_k(λ)².
    """
    values = spectrum.values.flatten()
    values = values[values > 1e-10 * values.max()]
    start = values.rsqrt()
    rest = values * start
    direction, size = rest, rest.square().sum()
    found = []
    for _ in range(steps):
        step = size / (values * direction.square()).sum().clamp(min=1e-300)
        rest = rest - step * values * direction
        fresh = rest.square().sum()
        ratio = fresh / size.clamp(min=1e-300)
        direction, size = rest + ratio * direction, fresh
        found.append((float(step), float(ratio)))
    return found


def from_recurrence(spectrum: Spectrum, coefficients: list[tuple[float, float]]) -> Tensor:
    """Evaluate the residual polynomials of a conjugate-gradient recurrence at any eigenvalues."""
    now = direction = torch.ones_like(spectrum.values)
    found = []
    for step, ratio in coefficients:
        now = now - step * spectrum.values * direction
        direction = now + ratio * direction
        found.append(now)
    return torch.stack(found)


def _constant(values: Tensor, steps: int) -> Tensor:
    return values.expand(steps, *values.shape)


def _powers(base: Tensor, steps: int) -> Tensor:
    return torch.stack([base**power for power in range(1, steps + 1)])


def _repeated_power(base: Tensor, steps: int, power: int) -> Tensor:
    found = []
    for _ in range(steps):
        base = base**power
        found.append(base)
    return torch.stack(found)


def _two_term(rule: Callable[[Tensor, Tensor], Tensor], like: Tensor, steps: int) -> Tensor:
    """Return r_1, ..., r_K of the recurrence r_{k+1} = rule(r_k, r_{k-1}) from r_0 = r_{-1} = 1."""
    now = before = torch.ones_like(like)
    found = []
    for _ in range(steps):
        now, before = rule(now, before), now
        found.append(now)
    return torch.stack(found)


def _moments(features: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    count = features.shape[1]
    return features.mT @ features / count, (features.mT @ labels[..., None])[..., 0] / count
