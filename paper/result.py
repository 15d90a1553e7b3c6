"""What a run leaves to be drawn and judged: curves with bands and where they come from, in one small file."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, get_args

from algoformer.common.files import read_json, write_text
from algoformer.common.plain_data import read_value
from algoformer.evaluation import Against, Curve
from algoformer.evaluation.evaluation import Plain
from algoformer.training import Experiment
from paper.runs import fingerprint, without_steps

FORMAT = 1
"""Raised when a reader of this version could no longer read a file."""

LARGEST_FILE = 4 << 20
"""Results are a few kilobytes; what is larger than this is none."""

DIGITS = 7
"""Significant digits of a stored error: more than the prompts' float32 can mean."""

PROMPT_DIGITS = 4
"""Of the error of one prompt, which is only ever averaged with a thousand others."""


@dataclass(frozen=True, kw_only=True)
class Measured:
    """Errors of one model or solver against one kind of answers.

    Attributes:
        by_sample: error for each number of in-context samples, by the iterations that were run.
        by_step: error on the last sample, after each of some numbers of iterations.
        deep: the same far beyond, perhaps on fewer prompts; only for loops.
        by_prompt: error on the last sample of each prompt at the trained depth; empty where it was not kept.
    """

    by_sample: Mapping[int, Curve]
    by_step: Curve
    deep: Curve | None = None
    by_prompt: tuple[float, ...] = ()

    def to_data(self) -> dict[str, Any]:
        """The errors as plain data."""
        return {
            "by_sample": {str(depth): _rounded(curve) for depth, curve in self.by_sample.items()},
            "by_step": _rounded(self.by_step),
            "deep": None if self.deep is None else _rounded(self.deep),
            "by_prompt": [_round(error, PROMPT_DIGITS) for error in self.by_prompt],
        }

    @classmethod
    def from_data(cls, data: object) -> Measured:
        """Read what `to_data` gave; anything else raises ValueError."""
        given = _object("errors", data)
        found = _object("errors", {"by_prompt": [], **given}, ("by_sample", "by_step", "deep", "by_prompt"))
        by_sample = {}
        for depth, curve in _object("by_sample", found["by_sample"]).items():
            if not depth.isascii() or not depth.isdigit() or len(depth) > 9:
                raise ValueError(f"by_sample is keyed by iterations, got {depth[:40]!r}")
            by_sample[int(depth)] = _curve(curve, "samples")
        if not by_sample:
            raise ValueError("by_sample holds no curve")
        deep = None if found["deep"] is None else _curve(found["deep"], "iterations")
        return cls(
            by_sample=by_sample,
            by_step=_curve(found["by_step"], "iterations"),
            deep=deep,
            by_prompt=read_value("by_prompt", tuple[float, ...], found["by_prompt"]),
        )


@dataclass(frozen=True, kw_only=True)
class Result:
    """The numbers of one run or reference.

    Attributes:
        name: of the run.
        settings: all that decided the numbers; `fingerprint` of it is the run's hash.
        trained_depth: iterations of the loop in training; 1 without a loop.
        against: which of `errors` is the task's headline (see `runs.counted_against`).
        errors: by the kind of answers that they are measured against.
        prompts: how many held-out prompts.
        parameters: all of the model's; None for a textbook solver.
        provenance: command, commit, device, seconds and so on.
        history: columns of the training metrics, thinned out.
    """

    name: str
    settings: Mapping[str, Any]
    trained_depth: int
    against: Against
    errors: Mapping[Against, Measured]
    prompts: int
    parameters: int | None = None
    provenance: Mapping[str, Plain] = field(default_factory=dict)
    history: Mapping[str, tuple[float, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.against not in self.errors:
            raise ValueError(f"the errors against={self.against!r} are missing")
        if self.trained_depth not in self.main.by_sample:
            raise ValueError(f"nothing was measured at the trained depth {self.trained_depth}")

    @cached_property
    def hash(self) -> str:
        """The fingerprint of the settings, as they would be written today."""
        return fingerprint(self.settings)

    @cached_property
    def hash_without_steps(self) -> str:
        """The same for all numbers of training steps."""
        return fingerprint(without_steps(self.settings))

    @property
    def main(self) -> Measured:
        """The headline errors."""
        return self.errors[self.against]

    @property
    def experiment(self) -> Experiment | None:
        """What was trained; None for a textbook solver."""
        stored = self.settings.get("experiment")
        return None if stored is None else Experiment.from_data(stored)

    @property
    def steps(self) -> int | None:
        """Of training; None for a textbook solver."""
        stored = self.settings.get("experiment")
        return None if stored is None else int(stored["training"]["steps"])

    @property
    def error(self) -> float:
        """On the last sample at the trained depth: the one number, if it must be one."""
        return self.at(self.trained_depth)

    @property
    def band(self) -> tuple[float, float]:
        """The 5–95 % band of `error`."""
        curve = self.main.by_sample[self.trained_depth]
        return curve.low[-1], curve.high[-1]

    def at(self, depth: int) -> float:
        """The error on the last sample after so many iterations; ValueError where none was measured."""
        if depth in self.main.by_sample:
            return self.main.by_sample[depth].final
        return self.main.by_step.at(depth)

    def growth(self, depth: int) -> float | None:
        """The error at a depth divided by that at the trained one, on the same prompts; None if not run."""
        curve = self.main.deep
        if curve is None or depth not in curve.x or self.trained_depth not in curve.x:
            return None
        return curve.at(depth) / curve.at(self.trained_depth)

    def to_data(self) -> dict[str, Any]:
        """The result as plain data, with the numbers that one looks for first in front."""
        low, high = self.band
        summary = {
            "error": _round(self.error),
            "5 %": _round(low),
            "95 %": _round(high),
            "samples": self.main.by_sample[self.trained_depth].x[-1],
            "iterations": self.trained_depth,
        }
        for depth in (200, 1000):
            growth = self.growth(depth)
            if growth is not None:
                summary[f"error at {depth} / error at {self.trained_depth}"] = _round(growth)
        return {
            "format": FORMAT,
            "name": self.name,
            "hash": self.hash,
            "summary": summary,
            "against": self.against,
            "trained_depth": self.trained_depth,
            "prompts": self.prompts,
            "parameters": self.parameters,
            "provenance": dict(self.provenance),
            "settings": dict(self.settings),
            "errors": {kind: errors.to_data() for kind, errors in self.errors.items()},
            "history": {name: [_round(value) for value in column] for name, column in self.history.items()},
        }

    @classmethod
    def from_data(cls, data: object) -> Result:
        """Read what `to_data` gave; anything else raises ValueError, for the file may come from anywhere."""
        found = _object("a result", data)
        if found.get("format") != FORMAT:
            raise ValueError(f"format must be {FORMAT}, got {str(found.get('format'))[:40]!r}")
        needed = ("name", "against", "trained_depth", "prompts", "parameters", "provenance")
        _object("a result", found, (*needed, "settings", "errors", "history", "format", "hash", "summary"))
        for name, most in {"trained_depth": 10**6, "prompts": 10**9, "parameters": 10**12}.items():
            value = found[name]
            if value is None and name == "parameters":
                continue
            if type(value) is not int or not 1 <= value <= most:
                raise ValueError(f"{name} must be a whole number in 1..{most}, got {str(value)[:40]!r}")
        if not isinstance(found["name"], str) or not found["name"]:
            raise ValueError(f"name must be text, got {str(found['name'])[:40]!r}")
        if found["against"] not in get_args(Against):
            raise ValueError(f"against must be one of {', '.join(get_args(Against))}")
        kinds = _object("errors", found["errors"])
        if not set(kinds) <= set(get_args(Against)):
            raise ValueError(f"errors are against {' or '.join(get_args(Against))}, got {sorted(kinds)[:4]}")
        errors: dict[Against, Measured] = {
            kind: Measured.from_data(kinds[kind]) for kind in get_args(Against) if kind in kinds
        }
        return cls(
            name=found["name"],
            settings=_settings(found["settings"]),
            trained_depth=found["trained_depth"],
            against=found["against"],
            errors=errors,
            prompts=found["prompts"],
            parameters=found["parameters"],
            provenance=_provenance(found["provenance"]),
            history=_history(found["history"]),
        )


def write_result(path: Path, result: Result) -> None:
    """Write a result as JSON: a line for each of its parts, so that it stays small and can be compared."""
    write_text(path, as_text(result.to_data()))


def as_text(data: Mapping[str, Any]) -> str:
    """Return the plain data of a result as it is stored, a line for each of its parts."""
    rows = (f"{json.dumps(key)}: {_text(value)}" for key, value in data.items())
    return "{\n" + ",\n".join(rows) + "\n}\n"


def read_result(path: Path) -> Result:
    """Read a result; what is none raises ValueError with the file's name."""
    try:
        if path.stat().st_size > LARGEST_FILE:
            raise ValueError(f"it has more than {LARGEST_FILE} bytes")
        return Result.from_data(read_json(path))
    except (ValueError, RecursionError, OverflowError) as error:
        raise ValueError(f"{path} is no result of a run: {error}") from None


def _text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def _round(value: float, digits: int = DIGITS) -> float | str:
    return float(f"{value:.{digits}g}") if math.isfinite(value) else str(value)


def _rounded(curve: Curve) -> dict[str, Any]:
    data = curve.to_data()
    return data | {
        name: [_round(float(value)) for value in data[name]] for name in ("x", "error", "low", "high")
    }


def _object(name: str, data: object, keys: tuple[str, ...] | None = None) -> Mapping[str, Any]:
    if not isinstance(data, Mapping) or not all(isinstance(key, str) for key in data):
        raise ValueError(f"{name} must be an object, got {type(data).__name__}")
    if keys is not None and set(data) != set(keys):
        wrong = sorted(set(data) ^ set(keys))
        raise ValueError(f"{name}: missing or unknown {wrong[0][:40]!r}")
    return data


def _curve(data: object, axis: str) -> Curve:
    curve = Curve.from_data(data)
    if curve.axis != axis:
        raise ValueError(f"a curve along {axis} is needed, got one along {curve.axis}")
    return curve


def _settings(data: object) -> Mapping[str, Any]:
    found = _object("settings", data)
    if set(found) == {"experiment"}:
        # written anew, so that a setting that did not exist then is there with its default
        return {"experiment": Experiment.from_data(found["experiment"]).to_data()}
    _object("settings", found, ("reference",))
    return {"reference": dict(_object("reference", found["reference"]))}


def _provenance(data: object) -> Mapping[str, Plain]:
    found = _object("provenance", data)
    for key, value in found.items():
        if not isinstance(value, str | int | float | bool | type(None)):
            raise ValueError(f"provenance holds plain values, got {key[:40]!r} of {type(value).__name__}")
    return dict(found)


def _history(data: object) -> Mapping[str, tuple[float, ...]]:
    return {
        name: read_value(f"history {name[:40]!r}", tuple[float, ...], row)
        for name, row in _object("history", data).items()
    }
