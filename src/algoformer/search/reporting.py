"""Reports of a worker while it trains: errors to the study, news to a callback."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from algoformer.search.result import Outcome
from algoformer.search.settings import Candidate
from algoformer.training import Callback, read_metrics

if TYPE_CHECKING:
    from optuna import Trial


class SearchCallback:
    """Callback with hooks for the events of a worker; override those you need."""

    def on_trial(self, number: int, candidate: Candidate) -> None:
        """Called before a trial is trained."""

    def on_log(self, number: int, step: int, steps: int, error: float) -> None:
        """Called after every validation of a trial."""

    def on_outcome(self, outcome: Outcome, done: int, trials: int) -> None:
        """Called when a trial has ended, with the trials of the study that are done and wanted."""


class Reporter(Callback):
    """Reports the errors of a run to its trial, and ends the run if the pruner says so."""

    def __init__(self, trial: Trial, candidate: Candidate, callback: SearchCallback) -> None:
        self.trial, self.candidate, self.callback = trial, candidate, callback
        self.folder: Path | None = None

    def on_start(self, step: int, steps: int) -> None:
        """Report again what a resumed run had measured before."""
        if step and self.folder is not None:
            for row in read_metrics(self.folder):
                self.on_log(int(row["step"]), row)

    def on_log(self, step: int, metrics: Mapping[str, float]) -> None:
        """Report an error; raise TrialPruned if the trial should not go on."""
        from optuna import TrialPruned

        steps, error = self.candidate.experiment.training.steps, error_in(metrics, self.candidate)
        if not math.isfinite(error):
            raise FloatingPointError(f"the validation error is not finite at step {step}")
        self.trial.report(error, step)
        self.callback.on_log(self.trial.number, step, steps, error)
        if step < steps and self.trial.should_prune():
            raise TrialPruned


def error_in(metrics: Mapping[str, float], candidate: Candidate) -> float:
    """Return the validation error in a row of metrics: the smaller, the better."""
    data = candidate.experiment.data
    if not any(name.startswith("valid_") for name in metrics):
        raise ValueError(f"a search compares validation errors, and the data {data.name!r} has no validation")
    return -float(data.merit(metrics)[0])
