"""Hand-built models that `algoformer explore` knows by name, each with its textbook method."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from algoformer import theory
from algoformer.algorithms import GradientDescent, HeavyBall, Newton
from algoformer.model import AlgoFormer
from algoformer.tasks import LinearRegression
from algoformer.theory.textbook import PenalizedDescent
from algoformer.trace import Solver

EXAMPLES = 10
"""Examples before the question in the page."""

STEP_SIZE = 0.2
"""Below 2/λ_max = 2/9 for every set of points within the picture, where |x| ≤ 3."""

ALPHA = 1 / (9 * EXAMPLES) ** 2
"""Below 2/λ_max(S)² for every set of `EXAMPLES` points within the picture."""

MOMENTUM = 0.5
PENALTY = 0.1


@dataclass(frozen=True, kw_only=True)
class Theorem:
    """A hand-built model in one dimension and the textbook method that it must equal."""

    title: str
    words: str
    reference: str
    constants: Mapping[str, Any]
    build: Callable[[], tuple[AlgoFormer, Solver]]

    @property
    def task(self) -> LinearRegression:
        """The prompts it is shown."""
        return LinearRegression(dim=1, points=EXAMPLES + 1)


def _newton() -> tuple[AlgoFormer, Solver]:
    return theory.newton(dim=1, examples=EXAMPLES, alpha=ALPHA), Newton(alpha=ALPHA)


def _gradient_descent() -> tuple[AlgoFormer, Solver]:
    model = theory.gradient_descent(dim=1, examples=EXAMPLES, step_size=STEP_SIZE)
    return model, GradientDescent(step_size=STEP_SIZE)


def _decoder() -> tuple[AlgoFormer, Solver]:
    model = theory.decoder_gradient_descent(dim=1, points=EXAMPLES + 1, step_size=STEP_SIZE)
    return model, GradientDescent(step_size=STEP_SIZE)


def _decoder_newton() -> tuple[AlgoFormer, Solver]:
    model = theory.decoder_newton(dim=1, points=EXAMPLES + 1, alpha=ALPHA)
    return model, Newton(alpha=ALPHA)


def _heavy_ball() -> tuple[AlgoFormer, Solver]:
    model = theory.heavy_ball(dim=1, examples=EXAMPLES, step_size=STEP_SIZE, momentum=MOMENTUM)
    return model, HeavyBall(step_size=STEP_SIZE, momentum=MOMENTUM)


def _ridge() -> tuple[AlgoFormer, Solver]:
    model = theory.ridge(dim=1, examples=EXAMPLES, step_size=STEP_SIZE, penalty=PENALTY)
    return model, PenalizedDescent(step_size=STEP_SIZE, penalty=PENALTY)


THEOREMS: dict[str, Theorem] = {
    "newton": Theorem(
        title="Newton's method",
        words="Newton's method",
        reference="Theorem 4.1",
        constants={"method": "newton", "alpha": ALPHA},
        build=_newton,
    ),
    "gradient_descent": Theorem(
        title="Gradient descent",
        words="gradient descent",
        reference="Theorem 3.1 without a representation",
        constants={"method": "gradient_descent", "step_size": STEP_SIZE},
        build=_gradient_descent,
    ),
    "heavy_ball": Theorem(
        title="Gradient descent with momentum",
        words="gradient descent with momentum",
        reference="beyond the paper",
        constants={"method": "heavy_ball", "step_size": STEP_SIZE, "momentum": MOMENTUM},
        build=_heavy_ball,
    ),
    "ridge": Theorem(
        title="Gradient descent on the ridge loss",
        words="gradient descent on the ridge loss",
        reference="remark after Theorem 3.1",
        constants={"method": "ridge", "step_size": STEP_SIZE, "penalty": PENALTY},
        build=_ridge,
    ),
    "decoder": Theorem(
        title="Gradient descent in a decoder",
        words="gradient descent at every prefix",
        reference="Theorem 4.2, causal attention",
        constants={"method": "gradient_descent", "step_size": STEP_SIZE},
        build=_decoder,
    ),
    "decoder_newton": Theorem(
        title="Newton's method in a decoder",
        words="Newton's method at every prefix",
        reference="left open after Theorem 4.2, causal attention",
        constants={"method": "newton", "alpha": ALPHA},
        build=_decoder_newton,
    ),
}
"""Every theorem page by name."""
