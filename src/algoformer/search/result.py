"""The result of a search: its trials, the winner, the front of parameters and error, what mattered."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from algoformer.common.plain_data import UNREADABLE, check_types, read_dataclass
from algoformer.common.tables import Table
from algoformer.common.terminal import short
from algoformer.model.program import Program
from algoformer.search.settings import Candidate, SearchSettings
from algoformer.search.space import Point, SearchSpace
from algoformer.search.study import SETTINGS, load_study
from algoformer.training import Experiment

if TYPE_CHECKING:
    from optuna import Study
    from optuna.trial import FrozenTrial


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """One trial of a search.

    Attributes:
        number: its number in the study.
        state: "trained", "pruned", "impossible", "failed", "running" or "waiting".
        point: where it stands in the space; None before it is drawn.
        error: the validation error after the last step; for text the measure that decides the best weights.
            None unless it was trained to the end.
        curve: validation errors by step.
        iterations: how often its last loop runs.
        flops: FLOPs of a training step for one prompt.
        parameters: without positions, read-in and read-out.
        reason: why it is impossible or failed.
    """

    number: int
    state: str
    point: Point | None = None
    error: float | None = None
    curve: Mapping[int, float]
    iterations: int = 0
    flops: float = 0.0
    parameters: int = 0
    reason: str = ""


@dataclass(frozen=True)
class SearchResult:
    """All trials of a study at one moment.

    Attributes:
        settings: what was searched.
        outcomes: the trials in the order of their numbers.
        importance: the share of each parameter in what separates good trials from others (PED-ANOVA); empty
            with fewer than four trained trials.
    """

    settings: SearchSettings
    outcomes: tuple[Outcome, ...]
    importance: Mapping[str, float]

    @property
    def ranked(self) -> list[Outcome]:
        """The trials that were trained to the end, the lowest error first."""
        trained = [one for one in self.outcomes if one.error is not None and math.isfinite(one.error)]
        return sorted(trained, key=lambda one: (one.error, one.number))

    @property
    def best(self) -> Outcome:
        """The trial with the lowest error.

        Raises:
            ValueError: no trial has been trained to the end.
        """
        if not self.ranked:
            raise ValueError("no trial of this search has been trained to its end yet; run more trials")
        return self.ranked[0]

    @property
    def hand_made(self) -> Outcome | None:
        """The trial of the hand-made program, if it was trained to the end."""
        first = self.settings.chosen_space.hand_made(self.settings.experiment)
        return next((one for one in self.ranked if first is not None and one.point == first), None)

    @property
    def front(self) -> list[Outcome]:
        """The trials that no other one beats in both error and parameters, from the smallest model on."""
        found: list[Outcome] = []
        for one in sorted(self.ranked, key=lambda one: (one.parameters, one.error)):
            if not found or one.error < found[-1].error:  # type: ignore[operator]
                found.append(one)
        return found

    def candidate(self, outcome: Outcome) -> Candidate:
        """Return a trial as the experiment that was trained."""
        if outcome.point is None:
            raise ValueError(f"trial {outcome.number} has no program")
        return self.settings.candidate(outcome.point)

    @property
    def program(self) -> Program:
        """The program of the best trial."""
        return self.candidate(self.best).experiment.program

    def count(self, *states: str) -> int:
        """Return how many trials are in one of these states."""
        return sum(one.state in states for one in self.outcomes)

    def table(self, count: int = 10, *, front: bool = False) -> Table:
        """Return the best trials, or the front, as a table of at most 80 columns."""
        shown = self.front if front else self.ranked[:count]
        return Table(
            columns=("trial", "error", "kind", "layers", "T", "width", "heads", "inject", "lr", "params"),
            rows=tuple(_row(one) for one in shown),
        )

    def __str__(self) -> str:
        counts = [f"{self.count(state)} {state}" for state in STATES if self.count(state)]
        budget = f"budget {_amount(self.settings.budget)}FLOP for a prompt and training step"
        lines = [f"{', '.join(counts) or 'no trials'}; {budget}"]
        return "\n".join([*lines, *([str(self.table())] if self.ranked else [])])


STATES = ("trained", "pruned", "impossible", "failed", "running", "waiting")
"""States of a trial."""


def read_result(storage: str | Path, *, study: str = "search") -> SearchResult:
    """Read the trials of a study, also while workers are running.

    Args:
        storage: the journal file, or the URL of the database.
        study: the name of the study.

    Raises:
        ValueError: there is no such study, or a search did not make it.
    """
    found = load_study(storage, study)
    settings = stored_settings(found)
    try:
        result = result_of(found, settings)
        check_types(result)
        str(result)  # a trained trial without its program is noticed here
    except (*UNREADABLE, AssertionError, RuntimeError) as error:
        raise ValueError(f"the trials of the study {study!r} cannot be read: {short(str(error))}") from None
    return result


def stored_settings(study: Study) -> SearchSettings:
    """Return the settings that a study holds."""
    data = study.user_attrs.get(SETTINGS)
    if not isinstance(data, dict):
        raise ValueError(f"the study {study.study_name!r} was not made by algoformer search")
    try:
        rest = {name: value for name, value in data.items() if name not in ("experiment", "space")}
        return SearchSettings(
            experiment=Experiment.from_data(data["experiment"]),
            space=read_dataclass(SearchSpace, data["space"]),
            **rest,
        )
    except UNREADABLE as error:
        said = short(str(error))
        raise ValueError(f"the settings of the study {study.study_name!r} cannot be read: {said}") from None


def result_of(study: Study, settings: SearchSettings) -> SearchResult:
    """Return the trials of a study as a result."""
    outcomes = tuple(outcome_of(trial, settings) for trial in study.get_trials(deepcopy=False))
    return SearchResult(settings, outcomes, _importance(study, outcomes))


def outcome_of(trial: FrozenTrial, settings: SearchSettings) -> Outcome:
    """Return one trial of a study."""
    facts, state = trial.user_attrs, trial.state.name
    names = {"COMPLETE": "trained", "FAIL": "failed", "RUNNING": "running", "WAITING": "waiting"}
    known = set(settings.chosen_space.names) <= set(trial.params)
    return Outcome(
        number=trial.number,
        state=names.get(state, "impossible" if "impossible" in facts else "pruned"),
        point=settings.chosen_space.point(trial.params) if known else None,
        error=trial.value if state == "COMPLETE" else None,
        curve=dict(sorted(trial.intermediate_values.items())),
        iterations=facts.get("iterations", 0),
        flops=facts.get("flops", 0.0),
        parameters=facts.get("parameters", 0),
        reason=facts.get("impossible", facts.get("reason", "")),
    )


def _importance(study: Study, outcomes: tuple[Outcome, ...]) -> dict[str, float]:
    from optuna.importance import get_param_importances

    errors = {one.error for one in outcomes if one.state == "trained"}
    return {} if len(errors) < 4 else dict(get_param_importances(study))


def _row(one: Outcome) -> tuple[Any, ...]:
    point = one.point
    assert point is not None
    steps = {
        "nested": f"{one.iterations}×{point.inner_steps}",
        "two_loops": f"{point.inner_steps}+{one.iterations}",
    }
    return (
        one.number,
        one.error,
        point.kind,
        f"{point.pre}+{point.loop}+{point.post}",
        steps.get(point.kind, str(one.iterations)),
        point.width,
        point.heads,
        point.inject,
        f"{point.lr:.2e}".replace("e-0", "e-"),
        _amount(one.parameters),
    )


def _amount(number: int | float) -> str:
    for power, letter in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= power:
            return f"{number / power:.3g} {letter}"
    return f"{number:g}"
