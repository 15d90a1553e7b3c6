"""What a pair of heads ±c computes for finite c and C, and prompts to try it on."""

import math
from collections.abc import Sequence

import numpy
import torch
from torch import Tensor

from algoformer.algorithms.prefixes import Prefixes, prefixes_of
from algoformer.problems import pairs
from algoformer.prompt import Prompt
from algoformer.tasks import LinearRegression
from algoformer.theory.constants import Constants


def regression(dim: int, points: int, *, batch: int = 6, seed: int = 0, noise: float = 0.0) -> Prompt:
    task = LinearRegression(dim=dim, points=points, noise=noise)
    return task.sample(batch, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def linearized(
    products: Tensor, *, unit: float, constants: Constants, count: Tensor | float = 1.0, silent: float = 0.0
) -> Tensor:
    """The weights that take the place of `products` (..., reader, read), masked ones being -inf.

    With z = product/unit and D± = 1 + e^(-C)/count (silent + Σ e^(±cz)) they are
    unit (e^(cz)/D+ - e^(-cz)/D-) / 2c. `silent` tokens have score 0 and value 0.
    """
    scores = constants.c / unit * products
    seen = products.isfinite()
    weight = math.exp(-constants.sink) / torch.as_tensor(count, dtype=products.dtype)

    def total(sign: float) -> Tensor:
        others = (sign * scores).exp().where(seen, torch.zeros_like(scores))
        return 1 + weight * (silent + others.sum(dim=-1, keepdim=True))

    plus, minus = total(1.0), total(-1.0)
    sines = scores.sinh().where(seen, torch.zeros_like(scores))
    gap = -2 * weight * sines.sum(dim=-1, keepdim=True)  # D- minus D+, without cancellation
    even = (-scores).exp().where(seen, torch.zeros_like(scores))
    return unit / (2 * constants.c) * (2 * sines / plus + even * gap / (plus * minus))


def slope(xs: list[float], ys: list[float]) -> float:
    """Of the least-squares line through the points."""
    return float(numpy.polyfit(xs, ys, 1)[0])


def fitted_power(points: Sequence[tuple[float, float]]) -> float:
    """p in error ~ c^p, from (c, error) points."""
    return slope([math.log(c) for c, _ in points], [math.log(error) for _, error in points])


def fitted_rate(points: Sequence[tuple[float, float]]) -> float:
    """p in error ~ e^(pC), from (C, error) points."""
    return slope([sink for sink, _ in points], [math.log(error) for _, error in points])


def moments_of(prompt: Prompt) -> Prefixes:
    """The sums of x xᵀ and x y over the pairs before each question."""
    return prefixes_of(pairs(prompt))
