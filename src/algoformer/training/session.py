"""One stretch of training, whatever is trained: the loop, its clock, its metrics and its checkpoints."""

from __future__ import annotations

import logging
import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Generic

import torch

from algoformer.common.devices import device_name as device_name
from algoformer.training.interrupts import deferred_interrupt
from algoformer.training.model_step import ModelStep
from algoformer.training.resume import Restorable, restore
from algoformer.training.run_folder import Kept, Metrics, RunFolder
from algoformer.training.schedule import learning_rate
from algoformer.training.sharded import own_piece
from algoformer.training.spread import Agreement, Stop

Progress = Callable[[int, int, Metrics], None]
"""Called with steps done, steps in all, and the newest metrics."""

RUNS_AT_ONCE = "runs_at_once"
"""Under this name a card says how many runs shared the device, where it was not one."""

COMMAND = "command"
"""Under this name a card says how a run was asked for, where it was by a command."""

logger = logging.getLogger("algoformer.training")


class Session(ABC, Generic[Kept]):
    """The live objects of a run, how they go on and how they are saved.

    Args:
        stepper: a fresh step, to be brought to where the checkpoint was made.
        folder: where to write; None writes nothing.
        checkpoint: what to go on from; None starts anew.
        engine: how steps are taken, in words, for the card.
        runs_at_once: this run and others beside it on the device, for the card.
        command: by which the run was asked for, for the card; what goes on keeps the one it began with.
    """

    def __init__(
        self,
        stepper: ModelStep,
        folder: RunFolder[Kept] | None,
        checkpoint: Restorable | None,
        *,
        engine: str,
        runs_at_once: int = 1,
        command: str = "",
    ) -> None:
        self.config, self.folder, self.spread = stepper.described.training, folder, stepper.spread
        self.moved, self.engine = stepper, engine
        self.runs_at_once, self.command = runs_at_once, command
        self.step = 0
        self.seconds = 0.0
        self.metrics: list[Metrics] = []
        if checkpoint is not None:
            self.step, self.seconds = restore(stepper, checkpoint)
            # the seconds before are among those that the card will hold
            self.runs_at_once = max(runs_at_once, shared_by(checkpoint.card))
            self.command = checkpoint.card.get(COMMAND, command)
            logger.info("resumed at step %d", self.step)
        self.spread.refuse_difference("checkpoint", self.step)
        if folder is not None:
            self.metrics = list(self.spread.by_the_first(lambda: folder.keep_metrics(self.step)))
        self.saved = self.step if checkpoint is not None else -1
        self.logged = self.step, self.seconds

    @abstractmethod
    def stepping(self) -> AbstractContextManager[Callable[[int], None]]:
        """Inside, a function that takes the step of this number, counted from 0."""

    @abstractmethod
    def numbers(self, means: list[float]) -> Mapping[str, float]:
        """What a row of metrics says of the steps since the last one, from the means of the step's sums."""

    @abstractmethod
    def capture(self, card: Mapping[str, Any]) -> Kept:
        """A checkpoint of this moment, with these facts among others."""

    def loop(self, max_minutes: float | None, progress: Progress) -> None:
        """Step until done, out of time, interrupted or broken; save at the end of each but the last."""
        config = self.config
        began, before = time.monotonic(), self.seconds
        agreement = Agreement(self.spread)
        whole = True  # whether weights and optimizer stand between two steps
        with self.stepping() as run, deferred_interrupt() as interrupted:
            try:
                while self.step < config.steps:
                    whole = False
                    run(self.step)
                    self.step += 1
                    whole = True
                    last = self.step == config.steps
                    if self.step % config.log_every == 0 or last:
                        self._log(before - began)
                        self.spread.by_the_first(lambda: progress(self.step, config.steps, self.metrics[-1]))
                    if self.step % config.checkpoint_every == 0 and not last:
                        self.save(before - began)
                    late = max_minutes is not None and time.monotonic() - began > 60 * max_minutes
                    wish = Stop.INTERRUPTED if interrupted() else Stop.OUT_OF_TIME if late else Stop.NO
                    stop = agreement.stop(self.step, wish)
                    if stop is Stop.INTERRUPTED:
                        raise KeyboardInterrupt
                    if stop is Stop.OUT_OF_TIME:
                        break
            except KeyboardInterrupt:
                if whole:
                    self.save(before - began)
                raise
            self.save(before - began)

    def save(self, offset: float) -> None:
        """Write a checkpoint, if there is a folder to write to and something new.

        Raises:
            FloatingPointError: what would be written is not made of numbers.
        """
        if self.folder is None or self.saved == self.step:
            return
        self._refuse_nonsense()
        self.seconds = time.monotonic() + offset
        card = {
            "step": self.step,
            "seconds": self.seconds,
            "precision": self.config.precision_in_words,
            "engine": self.engine,
            "device": device_name(self.moved.device),
        }
        if self.runs_at_once > 1:
            card[RUNS_AT_ONCE] = self.runs_at_once
        if self.command:
            card[COMMAND] = self.command
        if not self.spread.alone:
            card |= {"processes": self.spread.processes, "parallel": self.spread.kind}
        checkpoint, folder = self.capture(card), self.folder
        self.spread.by_the_first(lambda: folder.save(checkpoint))
        self.saved = self.step
        logger.info("checkpoint at step %d", self.step)

    def _log(self, offset: float) -> None:
        self._refuse_nonsense()  # waits for the device, so that the clock below is right
        count = (self.step - 1) % self.config.log_every + 1
        means = [total / count for total in self.moved.read_sums()]
        self.moved.sums.zero_()
        own = self.numbers(means)
        self.seconds = time.monotonic() + offset
        (step, seconds), self.logged = self.logged, (self.step, self.seconds)
        numbers = {
            "step": self.step,
            "loss": means[0],
            "rate": learning_rate(self.config, self.step - 1),
            **own,
            "seconds": self.seconds,
            "steps_per_second": (self.step - step) / max(self.seconds - seconds, 1e-9),
        }
        if self.moved.device.type == "cuda":
            numbers["peak_memory"] = torch.cuda.max_memory_allocated(self.moved.device)
        row = {name: float(number) for name, number in numbers.items()}
        self.metrics.append(self.spread.by_the_first(lambda: self._written(row)))

    def _written(self, row: Metrics) -> Metrics:
        if self.folder is not None:
            self.folder.add_metrics(row)
        return row

    def _refuse_nonsense(self) -> None:
        loss = self.moved.read_sums()[0]
        pieces = [own_piece(weight).isfinite().all() for weight in self.moved.model.parameters()]
        finite = bool(torch.stack(pieces).all())
        if not (math.isfinite(loss) and all(self.spread.ask_all(finite))):
            what = "weights are" if math.isfinite(loss) else "loss is"
            raise FloatingPointError(
                f"the {what} no longer a number at step {self.step}; the last good checkpoint is kept. "
                "Try a lower learning rate, or clip the gradient"
            )


def check_request(
    folder: Path | str | None, *, resume: bool, max_minutes: float | None, runs_at_once: int
) -> None:
    """Refuse what no run can be asked for, before anything is read or written."""
    if max_minutes is not None and not max_minutes > 0:
        raise ValueError(f"max_minutes must be positive, or None for no limit, got {max_minutes}")
    if runs_at_once < 1:
        raise ValueError(f"runs_at_once must be at least 1, the run itself, got {runs_at_once}")
    if resume and folder is None:
        raise ValueError("resume needs the folder of the run to go on with")


def shared_by(card: Mapping[str, Any]) -> int:
    """The most runs that shared the device while the seconds on a checkpoint's card went by; 1 is alone."""
    stored = card.get(RUNS_AT_ONCE, 1)
    return stored if type(stored) is int and stored > 1 else 1
