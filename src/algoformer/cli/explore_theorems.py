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

STEP_SIZE = 0.2
"""Below 2/λ_max = 2/9 for every set of points within the picture, where |x| ≤ 3."""

ALPHA = 1 / (9 * EXAMPLES) ** 2
"""Below 2/λ_max(S)² for every set of `EXAMPLES` points within the picture."""


TEXTBOOK: dict[str, Callable[..., Solver]] = {
    "newton": Newton,
    "gradient_descent": GradientDescent,
    "heavy_ball": HeavyBall,
    "ridge": GradientDescent,
}
"""Textbook methods, by the names that the page knows them by."""


@dataclass(frozen=True, kw_only=True)
class Theorem:
    """A hand-built model in one dimension and the textbook method that it must equal.

    Attributes:
        title: the heading of its page, without "as transformer weights".
        words: the method in a sentence.
        reference: where the statement stands.
        weights: builds the model from its size and the constants.
        method: a name of `TEXTBOOK`.
        numbers: the constants of both.
        decoder: whether the model is causal and takes `points` instead of `examples`.
    """

    title: str
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
    "newton": Theorem(
        title="Newton's method",
        words="Newton's method",
        reference="Theorem 4.1",
        weights=theory.newton,
        method="newton",
        numbers={"alpha": ALPHA},
    ),
    "gradient_descent": Theorem(
        title="Gradient descent",
        words="gradient descent",
        reference="Theorem 3.1 without a representation",
        weights=theory.gradient_descent,
        method="gradient_descent",
        numbers={"step_size": STEP_SIZE},
    ),
    "heavy_ball": Theorem(
        title="Gradient descent with momentum",
        words="gradient descent with momentum",
        reference="beyond the paper",
        weights=theory.heavy_ball,
        method="heavy_ball",
        numbers={"step_size": STEP_SIZE, "momentum": 0.5},
    ),
    "ridge": Theorem(
        title="Gradient descent on the ridge loss",
        words="gradient descent on the ridge loss",
        reference="remark after Theorem 3.1",
        weights=theory.ridge,
        method="ridge",
        numbers={"step_size": STEP_SIZE, "penalty": 0.1},
    ),
    "decoder": Theorem(
        title="Gradient descent in a decoder",
        words="gradient descent at every prefix",
        reference="Theorem 4.2, causal attention",
        weights=theory.decoder_gradient_descent,
        method="gradient_descent",
        numbers={"step_size": STEP_SIZE},
        decoder=True,
    ),
    "decoder_newton": Theorem(
        title="Newton's method in a decoder",
        words="Newton's method at every prefix",
        reference="left open after Theorem 4.2, causal attention",
        weights=theory.decoder_newton,
        method="newton",
        numbers={"alpha": ALPHA},
        decoder=True,
    ),
}
"""Every theorem page by name."""
