"""Hand-built models that `algoformer explore` knows by name, each with its textbook method."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from algoformer import theory
from algoformer.algorithms import GradientDescent, HeavyBall, Newton
from algoformer.model import AlgoFormer
from algoformer.tasks import LinearRegression
from algoformer.trace import Solver

EXAMPLES = 10
"""Examples before the question in the page."""

DESCENT = {"step_size": 0.2}
"""Below 2/λ_max = 2/9 for every set of points within the picture, where |x| ≤ 3."""

ALPHA = {"alpha": 1 / (9 * EXAMPLES) ** 2}
"""Below 2/λ_max(S)² for every set of `EXAMPLES` points within the picture."""

TEXTBOOK: dict[str, Callable[..., Solver]] = {
    "newton": Newton,
    "gradient_descent": GradientDescent,
    "heavy_ball": HeavyBall,
    "ridge": GradientDescent,
}
"""Textbook methods, by the names that the page knows them by."""


@dataclass(frozen=True)
class Theorem:
    """A hand-built model in one dimension and the textbook method that it must equal.

    Attributes:
        words: the method in a sentence.
        reference: where the statement stands.
        weights: builds the model from its size and the constants.
        method: a name of `TEXTBOOK`.
        numbers: the constants of both.
        decoder: whether the model is causal and takes `points` instead of `examples`.
    """

    words: str
    reference: str
    weights: Callable[..., AlgoFormer]
    method: str
    numbers: Mapping[str, float]
    decoder: bool = False

    @property
    def task(self) -> LinearRegression:
        """The prompts it is shown."""
        return LinearRegression(dim=1, points=EXAMPLES + 1)

    @property
    def constants(self) -> dict[str, Any]:
        """The method and its constants, as the page reads them."""
        return {"method": self.method, **self.numbers}

    def build(self) -> tuple[AlgoFormer, Solver]:
        """Return the hand-built model and its textbook method."""
        size = {"points": EXAMPLES + 1} if self.decoder else {"examples": EXAMPLES}
        return self.weights(dim=1, **size, **self.numbers), TEXTBOOK[self.method](**self.numbers)


THEOREMS: dict[str, Theorem] = {
    "newton": Theorem("Newton's method", "Theorem 4.1", theory.newton, "newton", ALPHA),
    "gradient_descent": Theorem(
        "gradient descent",
        "Theorem 3.1 without a representation",
        theory.gradient_descent,
        "gradient_descent",
        DESCENT,
    ),
    "heavy_ball": Theorem(
        "gradient descent with momentum",
        "beyond the paper",
        theory.heavy_ball,
        "heavy_ball",
        {**DESCENT, "momentum": 0.5},
    ),
    "ridge": Theorem(
        "gradient descent on the ridge loss",
        "remark after Theorem 3.1",
        theory.ridge,
        "ridge",
        {**DESCENT, "penalty": 0.1},
    ),
    "decoder": Theorem(
        "gradient descent at every prefix",
        "Theorem 4.2, causal attention",
        theory.decoder_gradient_descent,
        "gradient_descent",
        DESCENT,
        decoder=True,
    ),
    "decoder_newton": Theorem(
        "Newton's method at every prefix",
        "left open after Theorem 4.2, causal attention",
        theory.decoder_newton,
        "newton",
        ALPHA,
        decoder=True,
    ),
}
"""Every theorem page by name."""
