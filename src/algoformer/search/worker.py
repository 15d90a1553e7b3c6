"""A worker of a search: draws a trial, trains it, reports its errors at the rungs, draws the next."""

from __future__ import annotations

import math
import random
import time
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from algoformer.common.plain_data import check_count
from algoformer.extras import require
from algoformer.model.program import to_data
from algoformer.search.liveness import GRACE, INTERVAL, Watch, beating, take_up
from algoformer.search.reporting import Reporter, SearchCallback, error_in
from algoformer.search.result import SearchResult, outcome_of, result_of
from algoformer.search.settings import Candidate, Impossible, SearchSettings
from algoformer.search.study import JOURNAL, open_study, sampler_of
from algoformer.training import Run, RunOptions, train

if TYPE_CHECKING:
    from optuna import Study, Trial
    from optuna.trial import FrozenTrial

FAILURES = 3
"""A worker stops after this many failed trials in a row."""

IMPOSSIBLE = 300
"""A worker stops after this many impossible points in a row."""


def search(
    settings: SearchSettings,
    *,
    trials: int = 50,
    out: Path | str | None = None,
    storage: Path | str | None = None,
    study: str = "search",
    options: RunOptions | None = None,
    max_minutes: float | None = None,
    callback: SearchCallback | None = None,
    interval: float = INTERVAL,
    grace: float = GRACE,
) -> SearchResult:
    """Run the trials of a study until it has `trials` of them; return the result.

    Another call with the same storage continues the study; several processes or machines may do so at the
    same time. If a worker is killed, at most its current trial is lost, and another worker continues it.

    Args:
        settings: what is searched.
        trials: trials of the study that are trained to the end or pruned, of all workers together.
        out: folder for the run folder of each trial; None keeps none, and nothing can be resumed.
        storage: a journal file, or the URL of a database; by default journal.log in `out`. None without
            `out` keeps the study in memory.
        study: name of the study in its storage.
        options: how to carry out the training runs, such as `RunOptions(device="cuda")`.
        max_minutes: stop after this time; the trial at hand can be resumed.
        callback: told about trials.
        interval: seconds between two signs of life of a running trial.
        grace: seconds without one after which the worker of a trial counts as dead; more than `interval`.

    Raises:
        ValueError: the storage cannot be opened, the study searches something else, or the data has no
            validation.
        ModuleNotFoundError: Optuna is not installed.
    """
    check_count("trials", trials)
    if max_minutes is not None and not max_minutes > 0:
        raise ValueError(f"max_minutes must be positive, or None for no limit, got {max_minutes}")
    if not 0 < interval < grace:
        raise ValueError(f"grace must be longer than interval, got grace={grace} and interval={interval}")
    require("optuna", extra="search")
    if storage is None and out is not None:
        storage = Path(out) / JOURNAL
    worker = Worker(
        settings=settings,
        study=open_study(settings, storage, study),
        trials=trials,
        folder=None if out is None else Path(out) / "trials",
        options=options or RunOptions(),
        until=math.inf if max_minutes is None else time.monotonic() + 60 * max_minutes,
        callback=callback or SearchCallback(),
        watch=Watch(grace),
        interval=interval,
    )
    worker.run()
    return result_of(worker.study, settings)


class _OutOfTime(Exception):
    """The time of the search is over in the middle of a trial."""


@dataclass(kw_only=True, eq=False)
class Worker:
    """One process that works on a study; see `search` for its arguments."""

    settings: SearchSettings
    study: Study
    trials: int
    folder: Path | None
    options: RunOptions
    until: float
    callback: SearchCallback
    watch: Watch
    interval: float

    def __post_init__(self) -> None:
        self.failures = self.impossible = 0
        self.first = len(self._trials())
        self.own: set[int] = set()

    def _trials(self) -> list[FrozenTrial]:
        return self.study.get_trials(deepcopy=False)

    def run(self) -> None:
        """Work until the study has its trials, the time is over, or nothing is left to do."""
        while time.monotonic() < self.until:
            found = self._trials()
            running = [trial for trial in found if trial.state.name == "RUNNING"]
            for trial in self.watch.stale(running):
                take_up(self.study, trial)
                running.remove(trial)
            done = sum(map(counts, found))
            if done >= self.trials:
                return
            if done + len(running) < self.trials:
                self._seed(found)
                drawn = self.study.ask(self.settings.chosen_space.distributions())
                self.own.add(drawn.number)
                with suppress(_OutOfTime):
                    self._work_on(drawn)
            elif self.watch.undecided(running):
                time.sleep(min(1.0, self.interval))  # the last trials are with others: are they alive?
            else:
                return

    def _seed(self, found: list[FrozenTrial]) -> None:
        """Make draws of a single worker depend on the seed alone, and those of several workers differ."""
        others = [
            trial
            for trial in found
            if trial.number not in self.own
            and (trial.state.name == "RUNNING" or (trial.number >= self.first and trial.state.is_finished()))
        ]
        seed = f"{self.settings.experiment.training.seed}/{len(found)}"
        own = random.SystemRandom() if others else random.Random(seed)
        self.study.sampler = sampler_of(self.settings, own.getrandbits(31))

    def _work_on(self, trial: Trial) -> None:
        """Train one trial and tell the study how it ended."""
        superfluous = self._superfluous(trial)
        if superfluous:
            self._tell(trial, "FAIL", reason=superfluous)
            return
        try:
            candidate = self.settings.candidate(self.settings.chosen_space.point(trial.params))
        except Impossible as error:
            self.impossible += 1
            self._tell(trial, "PRUNED", impossible=str(error))
            if self.impossible >= IMPOSSIBLE:
                raise ValueError(
                    f"{IMPOSSIBLE} points of the space in a row fit no budget of {self.settings.budget:.3g} "
                    f"FLOPs (the last: {error}); change flops, tolerance or the space"
                ) from None
            return
        self.impossible = 0
        for name in ("iterations", "flops", "parameters"):
            trial.set_user_attr(name, getattr(candidate, name))
        trial.set_user_attr("program", to_data(candidate.experiment.program))
        self.callback.on_trial(trial.number, candidate)
        with beating(trial, interval=self.interval):
            self._train(trial, candidate)
        found = self._trials()
        outcome = outcome_of(found[trial.number], self.settings)
        self.callback.on_outcome(outcome, sum(map(counts, found)), self.trials)

    def _train(self, trial: Trial, candidate: Candidate) -> None:
        from optuna import TrialPruned
        from optuna.exceptions import UpdateFinishedTrialError

        try:
            run = self._run(trial, candidate)
        except TrialPruned:
            self._tell(trial, "PRUNED")
        except FloatingPointError as error:
            self._tell(trial, "PRUNED", reason=str(error))
        except UpdateFinishedTrialError:
            return  # this worker was silent for so long that another one has taken the trial up
        except (KeyboardInterrupt, _OutOfTime):
            found = self._trials()[trial.number]
            if found.state.name == "RUNNING":  # the next worker goes on with it
                take_up(self.study, found)
            raise
        except ValueError as error:
            self._tell(trial, "FAIL", reason=str(error))
            raise
        except Exception as error:
            self._tell(trial, "FAIL", reason=f"{type(error).__name__}: {error}"[:500])
            self.failures += 1
            if self.failures >= FAILURES:
                raise
            return
        else:
            self._tell(trial, "COMPLETE", value=error_in(run.metrics[-1], candidate))
        self.failures = 0

    def _run(self, trial: Trial, candidate: Candidate) -> Run:
        """Train a trial in its folder; go on with the run of a worker that is gone, if it is here."""
        reporter = Reporter(trial, candidate, self.callback)
        left = (self.until - time.monotonic()) / 60
        options = replace(
            self.options,
            progress=False,
            tensorboard=False,
            callbacks=(*self.options.callbacks, reporter),
            max_minutes=None if math.isinf(left) else max(left, 1e-3),
        )
        run = self._resumed(trial, candidate, options, reporter)
        if run is None:
            folder = None if self.folder is None else self.folder / f"{trial.number:04d}"
            run = train(candidate.experiment, folder, options=options)
        if not run.finished:
            raise _OutOfTime
        return run

    def _resumed(
        self, trial: Trial, candidate: Candidate, options: RunOptions, reporter: Reporter
    ) -> Run | None:
        """Return the run that another worker began, trained to its end; None if there is none."""
        before = trial.user_attrs.get("continues")
        if self.folder is None or not isinstance(before, int):
            return None
        folder = self.folder / f"{before:04d}"
        if not (folder / "config.json").exists():
            return None
        reporter.folder = folder
        try:
            return train(candidate.experiment, folder, options=options, resume=True)
        except ValueError:  # somebody still trains in it, or its files are damaged
            reporter.folder = None
            return None

    def _superfluous(self, trial: Trial) -> str:
        """Return why a trial is not needed, because of workers that asked at the same moment; or nothing."""
        earlier = [one for one in self._trials() if one.number < trial.number]
        running = [one for one in earlier if one.state.name == "RUNNING"]
        if sum(map(counts, earlier)) + len(running) >= self.trials:
            return "the study had its trials already"
        return "another worker drew the same" if any(one.params == trial.params for one in running) else ""

    def _tell(self, trial: Trial, state: str, value: float | None = None, **facts: str) -> None:
        from optuna.exceptions import UpdateFinishedTrialError
        from optuna.trial import TrialState

        with suppress(UpdateFinishedTrialError):
            for name, fact in facts.items():
                trial.set_user_attr(name, fact)
            self.study.tell(trial, value, state=TrialState[state], skip_if_finished=True)


def counts(trial: FrozenTrial) -> bool:
    """Return whether a trial is one of those that a search was asked for: trained to the end, or pruned."""
    pruned = trial.state.name == "PRUNED" and "impossible" not in trial.user_attrs
    return trial.state.name == "COMPLETE" or pruned
