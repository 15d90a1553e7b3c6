"""Signs of life of running trials, so that other workers continue the trials of a killed one.

A worker raises a number in the storage every few seconds while it trains. Other workers watch these numbers
by their own clock, so that clocks of several machines need not agree.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from optuna import Study, Trial
    from optuna.trial import FrozenTrial

BEAT = "beat"
"""The attribute of a trial that its worker raises."""

INTERVAL = 20.0
"""Seconds between two beats."""

GRACE = 120.0
"""Seconds without a beat after which the worker of a trial counts as dead."""


@contextmanager
def beating(trial: Trial, *, interval: float = INTERVAL) -> Iterator[None]:
    """Raise the beat of a trial in the background while the block runs."""
    done = threading.Event()

    def beat() -> None:
        count = 0
        while not done.is_set():
            # a storage that cannot be reached for a moment must not end the training
            with suppress(Exception):
                trial.set_user_attr(BEAT, count)
            count += 1
            done.wait(interval)

    thread = threading.Thread(target=beat, name="beat", daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


class Watch:
    """Watches the running trials of other workers.

    Args:
        grace: seconds without a beat after which a worker counts as dead.
        clock: returns the time in seconds.
    """

    def __init__(self, grace: float = GRACE, clock: Callable[[], float] = time.monotonic) -> None:
        self.grace, self.clock = grace, clock
        self._first_seen: dict[int, tuple[Any, float]] = {}
        self._alive: set[int] = set()

    def stale(self, running: list[FrozenTrial]) -> list[FrozenTrial]:
        """Return the running trials whose beat has not changed for longer than the grace period."""
        now, found = self.clock(), []
        for trial in running:
            beat = trial.user_attrs.get(BEAT)
            before = self._first_seen.setdefault(trial.number, (beat, now))
            if before[0] != beat:
                self._first_seen[trial.number] = beat, now
                self._alive.add(trial.number)
            elif now - before[1] > self.grace:
                found.append(trial)
        return found

    def undecided(self, running: list[FrozenTrial]) -> bool:
        """Return whether a running trial has shown no sign of life yet."""
        return any(trial.number not in self._alive for trial in running)


def take_up(study: Study, trial: FrozenTrial) -> None:
    """Fail a trial whose worker is gone and queue it again, unless another worker was faster."""
    from optuna.exceptions import UpdateFinishedTrialError
    from optuna.trial import TrialState

    try:
        study.tell(trial.number, state=TrialState.FAIL)
    except (UpdateFinishedTrialError, ValueError):
        return
    params = trial.params or trial.system_attrs.get("fixed_params")
    if params:
        study.enqueue_trial(params, user_attrs={"continues": trial.user_attrs.get("continues", trial.number)})
