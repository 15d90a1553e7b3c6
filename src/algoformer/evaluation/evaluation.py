"""The evaluation of one solver: errors by sample and by iteration."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from algoformer.common.plain_data import Stored, read_value
from algoformer.common.terminal import short
from algoformer.evaluation.curve import Curve

Against = Literal["clean", "shown"]
"""The targets of errors: answers without noise, or those that prompts show."""

Plain = str | int | float | bool | None
"""A scalar value of JSON."""

UNLEARNED = 0.9
"""A model with a larger error does hardly better than the answer 0, whose error is 1."""


@dataclass(frozen=True, kw_only=True)
class Evaluation(Stored):
    """Errors of one solver on fixed prompts.

    Attributes:
        label: the solver's name in tables and plots.
        by_sample: error after the last iteration, for each number of in-context samples.
        by_step: error on the last sample, after each iteration that was read out.
        steps: the number of iterations.
        prompts: the number of prompts that the means are over.
        scale: the divisor of squared errors, which are summed over the numbers of an answer.
        against: the answers that errors are measured against.
        broken: the number of prompts on which some error is not finite.
        parameters: the number of parameters of the solver; None if it is not a module.
        provenance: device, versions, seconds, and facts added by the caller.
        unsolved: where answers are classes, the share of prompts with at least one wrong answer, after each
            iteration that was read out (errors are then shares of wrong answers); None for numbers.
    """

    label: str
    by_sample: Curve
    by_step: Curve
    steps: int
    prompts: int
    scale: float
    against: Against
    broken: int = 0
    parameters: int | None = None
    provenance: Mapping[str, Any] = field(default_factory=dict)
    unsolved: Curve | None = None

    def __post_init__(self) -> None:
        if self.by_sample.axis != "samples" or self.by_step.axis != "iterations":
            raise ValueError("by_sample runs along samples and by_step along iterations: they are swapped")
        read_value("against", Against, self.against)

    def __repr__(self) -> str:
        samples, prompts = f"{self.by_sample.x[-1]:g} samples", f"{self.prompts} prompts"
        how = f"after {self.steps} iterations with {samples}, {prompts}"
        return f"Evaluation({short(self.label)}, error {self.error:.3g} {how})"

    @property
    def error(self) -> float:
        """The error on the last sample after the last iteration."""
        return self.by_sample.final

    def to_data(self) -> dict[str, Any]:
        """Return the evaluation as strings, numbers, lists and dicts, without `unsolved` where it is None."""
        return {name: one for name, one in super().to_data().items() if name != "unsolved" or one is not None}
