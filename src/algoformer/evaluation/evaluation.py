"""The evaluation of one solver: errors by sample and by iteration."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Literal, get_args

from algoformer.common.plain_data import read_object
from algoformer.common.terminal import short
from algoformer.evaluation.curve import Curve, read_numbers

Against = Literal["clean", "shown"]
"""The targets of errors: answers without noise, or those that prompts show."""

Plain = str | int | float | bool | None
"""A scalar value of JSON."""


@dataclass(frozen=True, kw_only=True)
class Evaluation:
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
    provenance: Mapping[str, Plain] = field(default_factory=dict)
    unsolved: Curve | None = None

    def __post_init__(self) -> None:
        if self.by_sample.axis != "samples" or self.by_step.axis != "iterations":
            raise ValueError("by_sample runs along samples and by_step along iterations: they are swapped")
        if self.against not in get_args(Against):
            raise ValueError(
                f"against must be one of {', '.join(get_args(Against))}, got {short(self.against)}"
            )

    def __repr__(self) -> str:
        samples = f"{self.by_sample.x[-1]:g} samples"
        return (
            f"Evaluation({short(self.label)}, error {self.error:.3g} after {self.steps} iterations with "
            f"{samples}, {self.prompts} prompts)"
        )

    @property
    def error(self) -> float:
        """The error on the last sample after the last iteration."""
        return self.by_sample.final

    def to_data(self) -> dict[str, Any]:
        """Return the evaluation as strings, numbers, lists and dicts."""
        data: dict[str, Any] = {item.name: getattr(self, item.name) for item in fields(self)}
        curves = {"by_sample": self.by_sample.to_data(), "by_step": self.by_step.to_data()}
        if self.unsolved is None:
            del data["unsolved"]
        else:
            curves["unsolved"] = self.unsolved.to_data()
        return data | curves | {"provenance": dict(self.provenance)}

    @classmethod
    def from_data(cls, data: object) -> Evaluation:
        """Read what `to_data` returned; raise ValueError for anything else."""
        known = [item.name for item in fields(cls)]
        if not isinstance(data, Mapping) or sorted({"unsolved", *data}) != sorted(known):
            raise ValueError(f"an evaluation is an object with the keys {', '.join(known)}")
        kinds: dict[str, tuple[type, ...]] = {
            "label": (str,),
            "steps": (int,),
            "prompts": (int,),
            "scale": (int, float),
            "against": (str,),
            "broken": (int,),
            "parameters": (int, type(None)),
            "provenance": (Mapping,),
        }
        for name, kind in kinds.items():
            if not isinstance(data[name], kind) or isinstance(data[name], bool):
                raise ValueError(f"{name} cannot be {short(data[name])}")
        values: dict[str, Any] = {name: data[name] for name in kinds}
        (values["scale"],) = read_numbers("scale", [data["scale"]])
        values |= {
            name: Curve.from_data(data[name]) for name in ("by_sample", "by_step", "unsolved") if name in data
        }
        return cls(**values)

    def to_json(self) -> str:
        """Return the evaluation as JSON text."""
        return json.dumps(self.to_data(), allow_nan=False)

    @classmethod
    def from_json(cls, text: str) -> Evaluation:
        """Read what `to_json` returned; raise ValueError for anything else."""
        return cls.from_data(read_object(text))
