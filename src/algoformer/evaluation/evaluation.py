"""What one measurement of one solver says."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Literal, get_args

from algoformer.evaluation.curve import Curve, parse_json

Against = Literal["clean", "shown"]
"""Which answers count: those without noise, or those that a prompt would show."""

Plain = str | int | float | bool | None
"""A value that JSON can hold by itself."""


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """Errors of one solver on fixed prompts.

    Attributes:
        label: the solver's name in tables and pictures.
        by_sample: error after the last iteration, for each number of in-context samples.
        by_step: error on the last sample, after each iteration that was read out.
        steps: how many iterations were run.
        prompts: how many prompts the means are over.
        scale: what squared errors, summed over the numbers of an answer, were divided by.
        against: which answers they were measured against.
        broken: prompts on which some measured error is not a finite number.
        parameters: how many the solver has; None if it is no module.
        provenance: where the numbers come from (device, versions, seconds, and what the caller adds).
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

    def __post_init__(self) -> None:
        if self.by_sample.axis != "samples" or self.by_step.axis != "iterations":
            raise ValueError("by_sample runs along samples and by_step along iterations: they are swapped")
        if self.against not in get_args(Against):
            raise ValueError(f"against must be one of {', '.join(get_args(Against))}, got {self.against!r}")

    @property
    def error(self) -> float:
        """The error on the last sample after the last iteration: the one number, if it must be one."""
        return self.by_sample.final

    def to_data(self) -> dict[str, Any]:
        """The evaluation as strings, numbers, lists and dicts."""
        data: dict[str, Any] = {item.name: getattr(self, item.name) for item in fields(self)}
        curves = {"by_sample": self.by_sample.to_data(), "by_step": self.by_step.to_data()}
        return data | curves | {"provenance": dict(self.provenance)}

    @classmethod
    def from_data(cls, data: object) -> Evaluation:
        """Read what `to_data` gave; anything else raises ValueError."""
        known = [item.name for item in fields(cls)]
        if not isinstance(data, Mapping) or sorted(data) != sorted(known):
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
                raise ValueError(f"{name} cannot be {data[name]!r}")
        values: dict[str, Any] = {name: data[name] for name in kinds} | {"scale": float(data["scale"])}
        values |= {name: Curve.from_data(data[name]) for name in ("by_sample", "by_step")}
        return cls(**values)

    def to_json(self) -> str:
        """The evaluation as JSON text."""
        return json.dumps(self.to_data(), allow_nan=False)

    @classmethod
    def from_json(cls, text: str) -> Evaluation:
        """Read an evaluation back; anything that is not one raises ValueError."""
        return cls.from_data(parse_json(text))
