"""The result of an identification as a value, a sentence and a table of text."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

from algoformer.common.plain_data import Stored
from algoformer.common.terminal import filled
from algoformer.insight.gates import CONSTANT, MEASUREMENT, Gate
from algoformer.insight.probes import ProbeTable
from algoformer.insight.verdict import EXACT, FamilyShare, Status

_COLUMNS = 6
"""Passes that a table shows at most."""

_ROWS = 5
"""Families that it shows."""


@dataclass(frozen=True, kw_only=True)
class Refit:
    """The comparison repeated with examples weighted by their position.

    Attributes:
        importance: position weights of the examples, the largest 1.
        families: the families in order of their shares.
        ceiling: the share that any filter of the weighted spectrum explains, over the described passes.
    """

    importance: tuple[float, ...]
    families: tuple[FamilyShare, ...]
    ceiling: float


@dataclass(frozen=True, kw_only=True)
class Identification(Stored):
    """A verdict on the algorithm that a solver runs, with the measurements behind it.

    Everything is about what is left, e_t = w_LS - w_t, on held-out prompts: "0.6 explained at pass 3" means
    that the family predicts 60 % of the squared distance that still separates the solver from least squares
    there. On series weights cannot be measured; e_t is the distance of an answer to that of the reference.

    Attributes:
        status: the kind of verdict.
        families: every family in order of its share, the nearest first.
        passes: the first and last pass that are described, counted from 1.
        error: Σ|e_t|²/Σ|w_LS|² for each pass (on series, relative to the reference's answers).
        nonlinear: the share of the answers' variance that is not linear in the query's features, each pass.
        gates: symmetries that a textbook method has.
        ceilings: by name, the share that a whole class of methods could explain at each pass.
        pace: effective gradient-flow time after each pass, to the last that is described.
        influence: of each example after the last described pass; `influence_least_squares`, that of the
            reference, beside it. Of a series: of each state before the question's window.
        rests_on: the smallest number of first examples (states) that have 98 % of the influence.
        foreign: how far answers move when the last quarter of the labels (states) comes from other weights:
            the solver's and the reference's mean squared change over the mean square of a label.
        refit: the comparison with position weights, where the order of examples matters.
        curves: eigenvalues and the filters over them, for plots.
        matching: by algorithm, the step whose weights are nearest after each pass, until it is not among the
            first 256 of gradient descent, 40 of Newton's iteration.
        path: by name, the weights of one prompt in the plane of the solver's own path.
        setting: task, sizes, seed and provenance.
        probes: what can be read off the states of an `AlgoFormer` on a task with features of its own, where
            they may be computed before the loop, in it or not at all; else None.
        measured: what families predict: weights, or the one answer of each series.
        reference: the solution that e_t is the distance to.
        untested: symmetries of textbook methods that cannot be tested on such prompts.
        done: the share that the nearest family explains of what is measured, rather than of what is left,
            over the described passes; None in verdicts of earlier versions.
    """

    status: Status
    families: tuple[FamilyShare, ...]
    passes: tuple[int, int]
    error: tuple[float, ...]
    nonlinear: tuple[float, ...]
    gates: tuple[Gate, ...]
    ceilings: dict[str, tuple[float, ...]]
    pace: tuple[float, ...]
    influence: tuple[float, ...]
    influence_least_squares: tuple[float, ...]
    rests_on: int
    foreign: tuple[float, float]
    refit: Refit | None
    curves: dict[str, Any]
    matching: dict[str, tuple[int, ...]]
    path: dict[str, Any]
    setting: dict[str, Any] = field(default_factory=dict)
    probes: ProbeTable | None = None
    measured: Literal["weights", "answers"] = "weights"
    reference: str = "least squares"
    untested: tuple[str, ...] = ()
    done: float | None = None

    @property
    def nearest(self) -> FamilyShare:
        """The nearest family."""
        return self.families[0]

    @property
    def name(self) -> str | None:
        """The name of the algorithm that the solver runs, or None if no family was named."""
        if self.status.startswith("exact "):
            if _constant(self):
                return None
            return {"exact least squares": "least squares"}.get(self.status, "ridge")
        still = self.status == "does not iterate" and self.nearest.share >= 0.95 and not self.failed_gates
        named = self.status == "runs" or still
        return self.nearest.name if named else None

    @property
    def ceiling(self) -> float:
        """The share that any filter common to all prompts explains, over the described passes."""
        return self.over_passes(self.ceilings["any filter"])

    @property
    def cannot_be_told_apart(self) -> tuple[str, ...]:
        """Families whose paired gap to the nearest includes zero."""
        return tuple(one.name for one in self.families[1:] if one.gap_low <= 0)

    @property
    def failed_gates(self) -> tuple[Gate, ...]:
        """Symmetries of textbook methods that the solver does not have."""
        return tuple(gate for gate in self.gates if not gate.passed)

    def over_passes(self, values: tuple[float, ...]) -> float:
        """Return the mean of a value over the described passes."""
        first, last = self.passes
        chosen = values[first - 1 : last]
        return sum(chosen) / len(chosen)

    def summary(self) -> dict[str, Any]:
        """Return the verdict and its main numbers as plain data, for a model's card."""
        return {
            "sentence": self.sentence,
            "status": self.status,
            "nearest": str(self.nearest),
            "share": self.nearest.share,
            "band": [self.nearest.low, self.nearest.high],
            "any_filter": self.ceiling,
            "passes": list(self.passes),
            "rests_on": self.rests_on,
            "failed_symmetries": [gate.name for gate in self.failed_gates],
            "setting": self.setting,
        }

    @property
    def sentence(self) -> str:
        """The verdict in words, with its share, its ceiling and its limits."""
        nearest, status = self.nearest, self.status
        if status == "does not learn":
            return f"does not learn: its answers hardly correlate with those of {self.reference}."
        if status.startswith("exact "):
            solution = "least squares" if status == "exact least squares" else self.reference
            constant = _constant(self)
            share = (
                f", apart from a constant part ({_short(constant)} of the answers' square)"
                if constant
                else ""
            )
            return f"exact {solution} from the first pass on{share}."
        failed = ", ".join(gate.name for gate in self.failed_gates)
        lacks = f"; lacks symmetries of such methods ({failed})" if failed else ""
        if status == "does not iterate":
            nearest_one = f"nearest is {_explained(nearest, '')}{lacks}"
            return f"does not iterate: every pass gives the same answer; {nearest_one}."
        explained, names = _explained(nearest, _window(self)), self.cannot_be_told_apart
        ties = f" Cannot be told apart from it: {', '.join(names)}." if names else ""
        if status == "runs":
            return f"runs {explained}.{ties}{_untested(self)}"
        limits = f"any filter of the spectrum {_percent(max(self.ceiling, nearest.share))}"
        if self.done is not None and self.done < nearest.share:
            limits += f"; but only {_percent(self.done)} of what was done"
        verdict = "resembles" if status == "resembles" else "none of these. Nearest:"
        return f"{verdict} {explained}, {limits}{lacks}.{ties}"

    def __str__(self) -> str:
        return f"{filled(self.sentence)}\n\n{_table(self)}"

    def __repr__(self) -> str:
        nearest = self.nearest
        return f"Identification({self.status!r}, nearest={nearest.name!r}, share={nearest.share:.3f})"


def _constant(found: Identification) -> float:
    """Return the share of a constant part in answers, 0 if it is rounding or was not measured."""
    value = next((gate.value for gate in found.gates if gate.name == CONSTANT), 0.0)
    return value if value > EXACT else 0.0


def _table(found: Identification) -> str:
    """Return the shares by pass, pace, gates and influence as text of at most 80 columns."""
    last = len(found.error)
    shown = list(range(1, last + 1)) if last <= _COLUMNS else [*range(1, _COLUMNS), last]
    head = f"{'pass':38}" + "".join(f"{index:>7}" for index in shown)
    solution = "least squares" if found.measured == "weights" else "the reference"
    lines = [head, _row(f"left, share of {solution}", found.error, shown, _short)]
    for name, values in found.ceilings.items():
        lines.append(_row(f"{name} explains", values, shown, _share))
    lines += [_row(one.name, one.by_pass, shown, _share) for one in found.families[:_ROWS]]
    lines.append(_row("gradient-flow time", found.pace, shown, _short))
    tested = (gate for gate in found.gates if gate.name != MEASUREMENT)
    gates = [f"{gate.name} {'yes' if gate.passed else 'no'} ({gate.value:.3g})" for gate in tested]
    lines += ["", filled("symmetries: " + " · ".join(gates))]
    lines.append(filled(_measurement(found)))
    lines.append(filled(_influence(found)))
    if found.refit is not None:
        again_with = f"{_explained(found.refit.families[0], _window(found))}, any filter "
        lines.append(filled(f"examples weighted by position: {again_with}{_percent(found.refit.ceiling)}"))
    if found.probes is not None:
        lines += ["", "linear probes of the states at the questions, held-out R²:", str(found.probes)]
    return "\n".join(lines)


def _measurement(found: Identification) -> str:
    if found.measured == "weights":
        again = next((gate.value for gate in found.gates if gate.name == MEASUREMENT), 1.0)
        return f"measurement: what is left, measured again with other queries, correlates to {again:.3f}"
    return (
        f"measurement: one answer of each series, beside {found.reference}; cannot be tested: "
        f"{', '.join(found.untested)}; cannot be measured: what any filter per prompt, any symmetric map and "
        "any linear map explain"
    )


def _explained(share: FamilyShare, window: str) -> str:
    band = f"[{share.low:.3f}, {share.high:.3f}]"
    return f"{share}, which explains {share.share:.3f} {band} of what is left{window}"


def _window(found: Identification) -> str:
    first, last = found.passes
    return f" in pass {first}" if first == last else f" in passes {first} to {last}"


def _untested(found: Identification) -> str:
    names = ", ".join(found.untested)
    return f" Symmetries that cannot be tested on a series: {names}." if names else ""


def _influence(found: Identification) -> str:
    count, series = len(found.influence), found.measured == "answers"
    place, foreign = ("states", "states") if series else ("examples", "labels")
    other = "reference" if series else "least squares"
    total = sum(found.influence_least_squares)
    exact = sum(found.influence_least_squares[: found.rests_on]) / total if total else 0.0
    moved, reference = found.foreign
    return (
        f"influence: {place} 1 to {found.rests_on} of {count} have 98 % ({other} {_percent(exact)}); "
        f"foreign {foreign} in the last quarter move answers by {_short(moved)} ({other} {_short(reference)})"
    )


def _row(name: str, values: tuple[float, ...], shown: list[int], write: Callable[[float], str]) -> str:
    cells = [write(values[index - 1]) if index <= len(values) else "" for index in shown]
    return f"{name:38}" + "".join(f"{cell:>7}" for cell in cells)


def _share(value: float) -> str:
    return f"{max(value, 0.0):.2f}" if value > -0.005 else "< 0"


def _short(value: float) -> str:
    if value == 0 or 0.01 <= abs(value) < 1000:
        return f"{value:.3g}"
    mantissa, exponent = f"{value:.0e}".split("e")
    return f"{mantissa}e{int(exponent)}"


def _percent(value: float) -> str:
    return f"{value:.3f}"
