"""The result of an identification as a value."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from algoformer.insight.gates import Gate
from algoformer.insight.probes import ProbeTable
from algoformer.insight.stored import Stored
from algoformer.insight.verdict import FamilyShare, Status


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
    there.

    Attributes:
        status: the kind of verdict.
        families: every family in order of its share, the nearest first.
        passes: the first and last pass that are described, counted from 1.
        error: Σ|e_t|²/Σ|w_LS|² for each pass.
        nonlinear: the share of the answers' variance that is not linear in the query's features, each pass.
        gates: symmetries that a textbook method has.
        ceilings: by name, the share that a whole class of methods could explain at each pass.
        pace: effective gradient-flow time after each pass.
        influence: of each example after the last described pass; `influence_least_squares` beside it.
        rests_on: the smallest number of first examples that have 98 % of the influence.
        foreign: how far answers move when the last quarter of the labels comes from other weights: the
            solver's and least squares' mean squared change over the mean square of a label.
        refit: the comparison with position weights, where the order of examples matters.
        curves: eigenvalues and the filters over them, for plots.
        matching: by algorithm, the step whose weights are nearest after each pass.
        path: by name, the weights of one prompt in the plane of the solver's own path.
        setting: task, sizes, seed and provenance.
        probes: what can be read off the states of an `AlgoFormer` on a task with features of its own, where
            they may be computed before the loop, in it or not at all; else None.
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

    @property
    def nearest(self) -> FamilyShare:
        """The nearest family."""
        return self.families[0]

    @property
    def name(self) -> str | None:
        """The name of the algorithm that the solver runs, or None if no family was named."""
        if self.status == "exact least squares":
            return "least squares"
        named = self.status == "runs" or (self.status == "does not iterate" and self.nearest.share >= 0.95)
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
        """The verdict in words."""
        from algoformer.insight.wording import sentence

        return sentence(self)

    def __str__(self) -> str:
        from algoformer.insight.wording import filled, table

        return f"{filled(self.sentence)}\n\n{table(self)}"

    def __repr__(self) -> str:
        nearest = self.nearest
        return f"Identification({self.status!r}, nearest={nearest.name!r}, share={nearest.share:.3f})"
