"""FLOPs of training, and the number of iterations that a FLOP budget allows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from algoformer.model.cost import Cost, cost
from algoformer.training.config import build_model, unroll_at

if TYPE_CHECKING:
    from algoformer.config import TrainConfig
    from algoformer.model.program import Program
    from algoformer.training import Experiment

MOST_ITERATIONS = 1000
"""No loop of a search runs more often."""

COUNTED = 500
"""Steps of a run whose FLOPs are counted where curricula or burn-in change them; evenly spaced."""


@dataclass(frozen=True)
class InputSizes:
    """The sizes of a model's input and output, which its program does not say.

    Attributes:
        dim: numbers in a row; 0 for tokens, which are looked up.
        out: numbers in an answer, labels, or tokens of a vocabulary.
        context: rows of a prompt, or tokens of a sequence.
    """

    dim: int
    out: int
    context: int


def input_sizes(experiment: Experiment) -> InputSizes:
    """Return the sizes of the experiment's data, from the model that it builds."""
    model: Any = build_model(experiment)
    trunk = getattr(model, "trunk", None)
    if trunk is not None:
        labels = getattr(model, "labels", None)
        return InputSizes(0, trunk.vocabulary if labels is None else len(labels), trunk.context)
    if all(hasattr(model, name) for name in ("dim", "out", "context")):
        return InputSizes(model.dim, model.out, model.context)
    raise ValueError(
        f"the data {experiment.data.name!r} builds a {type(model).__name__}, whose FLOPs cannot be counted; "
        "a search needs data that builds an AlgoFormer or a model of tokens"
    )


def training_flops(program: Program, width: int, training: TrainConfig, sizes: InputSizes) -> float:
    """Return the FLOPs of a training step for one prompt or sequence, averaged over the run.

    A step of several segments runs and differentiates the unroll once for each of them.
    """
    changing = training.iterations is not None or bool(training.burn_in)
    stride = max(1, training.steps // COUNTED) if changing else training.steps
    unrolls = Counter(unroll_at(program, training, step) for step in range(0, training.steps, stride))
    total = sum(count * _bill(program, width, sizes, unroll).training for unroll, count in unrolls.items())
    return training.segments * total / unrolls.total()


def body_parameters(program: Program, width: int, sizes: InputSizes) -> int:
    """Return the parameters without positions, read-in and read-out."""
    return _bill(program, width, sizes, None).core_parameters


def fitting_iterations(flops: Callable[[int], float], budget: float) -> int:
    """Return the number of iterations whose FLOPs are nearest to the budget, by their ratio.

    >>> fitting_iterations(lambda steps: 10.0 + 5 * steps, 43.0)
    7
    >>> fitting_iterations(lambda steps: 10.0 + 5 * steps, 1.0)
    1
    """
    low, high = 0, 1
    while high < MOST_ITERATIONS and flops(high) < budget:
        low, high = high, min(2 * high, MOST_ITERATIONS)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if flops(middle) < budget else (low, middle)
    return low if low and budget / flops(low) < flops(high) / budget else high


@lru_cache(maxsize=4096)
def _bill(program: Program, width: int, sizes: InputSizes, unroll: Any) -> Cost:
    return cost(program, dim=sizes.dim, out=sizes.out, context=sizes.context, width=width, unroll=unroll)
