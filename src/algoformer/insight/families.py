"""The table of algorithm families that measured weights are compared with."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from torch import Tensor

from algoformer.insight import filters
from algoformer.insight.filters import Spectrum

Scale = Literal["plain", "largest", "middle"]
"""Units of the eigenvalues: as they are, the prompt's largest, or the mean of its largest and smallest."""

PACES = (1, 2, 3)
"""Steps of an algorithm in one pass of the loop that are tried."""

MANY_PACES = tuple(range(1, 13))
"""Those that are tried before a method is named: many steps of one method look like fewer of another."""

OFFSETS = (0, 1, 2)
"""Steps done before the first pass that are tried."""


@dataclass(frozen=True)
class Range:
    """A parameter of a family and the range in which it is searched.

    Attributes:
        name: as it is printed.
        low: the lower end for eigenvalues near 1.
        high: the upper end for eigenvalues near 1.
        log: whether values are searched by their logarithm.
        power: the power of the eigenvalues' unit by which the range is multiplied.
        limits: values beyond which the method has another name; a search that starts in the range stays
            within them.
    """

    name: str
    low: float
    high: float
    log: bool = True
    power: int = 0
    limits: tuple[float, float] = (-math.inf, math.inf)

    def grid(self, count: int, unit: float = 1.0) -> np.ndarray:
        """Return `count` values over the range, in the search coordinate (the logarithm if `log`)."""
        low, high = self.low * unit**self.power, self.high * unit**self.power
        return (
            np.linspace(math.log(low), math.log(high), count) if self.log else np.linspace(low, high, count)
        )

    def value(self, coordinate: np.ndarray) -> np.ndarray:
        """Return parameter values from search coordinates."""
        return (np.exp(coordinate) if self.log else coordinate).clip(*self.limits)


@dataclass(frozen=True, kw_only=True)
class Family:
    """One kind of algorithm: how it acts, what is fitted, and which symmetries it does not have.

    Attributes:
        name: as it is printed.
        filter: residual filters from (spectrum, steps, *parameters); None for methods that are not filters.
        iterates: weights from (features, labels, steps, *parameters), for methods that are not filters.
        parameters: what is fitted.
        solution: True for a closed form, which is the same at every step.
        scale: the units of the eigenvalues that the filter sees.
        exempt: gates that the method itself does not pass.
        paces: the steps in a pass that are tried.
    """

    name: str
    filter: Callable[..., Tensor] | None = None
    iterates: Callable[..., Tensor] | None = None
    parameters: tuple[Range, ...] = ()
    solution: bool = False
    scale: Scale = "plain"
    exempt: tuple[str, ...] = ()
    paces: tuple[int, ...] = PACES

    def schedules(self) -> list[tuple[int, int]]:
        """Return the (steps a pass, steps before the first pass) that are tried."""
        if self.solution or (self.filter is None and self.parameters):
            return [(1, 0)]
        return [(pace, offset) for pace in self.paces for offset in OFFSETS]

    def residual(self, spectrum: Spectrum, steps: int, *parameters: Any) -> Tensor:
        """Return the residual filter after steps 1..`steps`, in the family's own units of eigenvalues."""
        assert self.filter is not None
        views = {"plain": spectrum, "largest": spectrum.over_largest, "middle": spectrum.over_middle}
        return self.filter(views[self.scale], steps, *parameters)


def _family(name: str, rule: Callable[..., Tensor], *parameters: Range, **options: Any) -> Family:
    return Family(name=name, filter=rule, parameters=parameters, **options)


_ETA = Range("η", 0.005, 2.5, power=-1)
_BETA = Range("β", 0.02, 0.97, log=False, limits=(0.0, 0.999))
_RHO = Range("ρ", 1e-3, 10.0, power=1)
_ALPHA = Range("α", 2e-3, 1.5, power=-1)
_NOT_ADDITIVE = ("additive in the labels", "rotation of the series")  # which mixes the labels, too
_ORDERED = ("order of examples", "labels off the span")

ZERO = "zero"
"""The family of zero weights."""

FAMILIES: tuple[Family, ...] = (
    _family(ZERO, filters.zero, solution=True),
    _family("shrunk least squares", filters.shrunk, Range("c", 0.02, 1.0), solution=True),
    _family("averaging", filters.averaging, Range("c", 0.02, 3.0, power=-1), solution=True),
    _family("ridge", filters.ridge, Range("ρ", 1e-5, 50.0, power=1), solution=True),
    _family("gradient descent", filters.gradient_descent, _ETA),
    _family(
        "gradient descent, step c/λmax", filters.gradient_descent, Range("c", 0.03, 2.2), scale="largest"
    ),
    _family(
        "gradient descent, step 2c/(λmax+λmin)",
        filters.gradient_descent,
        Range("c", 0.05, 1.3),
        scale="middle",
    ),
    _family("ridge descent", filters.ridge_descent, _ETA, _RHO),
    _family("heavy ball", filters.heavy_ball, _ETA, _BETA),
    _family("heavy ball, step c/λmax", filters.heavy_ball, Range("c", 0.1, 3.9), _BETA, scale="largest"),
    _family("heavy ball, optimal", filters.optimal_heavy_ball),
    _family("Nesterov", filters.nesterov, _ETA, _BETA),
    _family("Chebyshev", filters.chebyshev, Range("a", 0.003, 0.8, power=1), Range("b", 0.9, 8.0, power=1)),
    _family("Newton from αS", filters.newton_from_gram, Range("α", 5e-4, 1.5, power=-2)),
    _family("Newton from αS, α = c/λmax²", filters.newton_from_gram, Range("c", 0.02, 1.99), scale="largest"),
    _family("Newton from αI", filters.newton_from_identity, _ALPHA),
    _family(
        "Newton from αI, α = c/λmax", filters.newton_from_identity, Range("c", 0.01, 1.99), scale="largest"
    ),
    _family("third-order iteration from αI", filters.third_order, _ALPHA),
    _family("GD++", filters.gd_plus_plus, _ETA, Range("γ", 0.01, 1.0, power=-1)),
    _family("proximal point", filters.proximal_point, _RHO),
    _family("damped Newton", filters.damped_newton, Range("η", 0.05, 1.95, limits=(0.0, 2.0)), _RHO),
    Family(name="conjugate gradients", iterates=filters.conjugate_gradients, exempt=_NOT_ADDITIVE),
    Family(name="steepest descent", iterates=filters.steepest_descent, exempt=_NOT_ADDITIVE),
    Family(name="Kaczmarz", iterates=filters.kaczmarz, exempt=_ORDERED),
    Family(
        name="causal gradient descent",
        iterates=filters.causal_gradient_descent,
        parameters=(Range("η", 0.01, 2.5, power=-1),),
        exempt=_ORDERED,
    ),
)
"""Every family, simple ones first. An entry is all that a further family needs."""

BEST_POLYNOMIAL = "best polynomial for the task"
"""The family without parameters whose filters are fitted to the task's eigenvalues."""
