"""One stretch of training: the loop, its clock, its metrics, validation and checkpoints."""

from __future__ import annotations

import logging
import math
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from types import FrameType
from typing import Any

import torch

from algoformer.checkpoint import BEST, Checkpoint
from algoformer.common.devices import device_name, matmul_precision, source_commit
from algoformer.common.plain_data import MOST
from algoformer.common.terminal import short
from algoformer.model.program import default_steps
from algoformer.training.config import RunOptions, iterations_at
from algoformer.training.engine import Plan, open_engine
from algoformer.training.progress import progress_callbacks
from algoformer.training.restore import restore
from algoformer.training.run_folder import ORIGIN, Metrics, RunFolder
from algoformer.training.step import Step, Stop, snapshot

logger = logging.getLogger("algoformer.training")


@contextmanager
def deferred_interrupt() -> Iterator[Callable[[], bool]]:
    """Inside, a first Ctrl-C is only noted, for the yielded function to tell; a second one interrupts.

    Where somebody else handles Ctrl-C, or outside the main thread, nothing is changed.
    """
    requested = False

    def note(number: int, frame: FrameType | None) -> None:
        nonlocal requested
        if requested:
            raise KeyboardInterrupt
        requested = True

    unhandled = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    ours = unhandled and threading.current_thread() is threading.main_thread()
    if ours:
        signal.signal(signal.SIGINT, note)
    try:
        yield lambda: requested
    finally:
        if ours:
            signal.signal(signal.SIGINT, signal.default_int_handler)


class Clock:
    """Counts the seconds of a run over all its sessions; validation is left out."""

    def __init__(self, before: float = 0.0) -> None:
        self._offset = before - time.monotonic()

    @property
    def seconds(self) -> float:
        """The seconds so far."""
        return time.monotonic() + self._offset

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Do not count what happens inside."""
        began = time.monotonic()
        try:
            yield
        finally:
            self._offset -= time.monotonic() - began


class Session:
    """The live objects of a run, how they go on and how they are saved.

    A fresh learner is brought to where the checkpoint was made, if there is one to resume from. `origin` has
    the facts about the checkpoint that a new run begins with; a resumed run keeps its own.
    """

    def __init__(
        self,
        learner: Step,
        folder: RunFolder | None,
        checkpoint: Checkpoint | None,
        *,
        plan: Plan,
        options: RunOptions,
        origin: Mapping[str, Any] | None = None,
    ) -> None:
        self.learner, self.folder, self.group = learner, folder, learner.group
        self.config, self.plan, self.options = learner.training, plan, options
        self.command, self.origin = options.command, origin
        self.best: Metrics | None = None
        self.validations_since_best = 0
        self.step, seconds = 0, 0.0
        self.facts = {} if folder is None else self._fixed_facts()
        self.callbacks = *progress_callbacks(options.progress), *options.callbacks
        if checkpoint is not None:
            self.step, seconds = restore(learner, checkpoint)
            self._restore_card(checkpoint.card)
            logger.info("resumed at step %d", self.step)
        self.group.check_same("checkpoint", self.step)
        self.clock = Clock(seconds)
        self.saved = self.step if checkpoint is not None else -1
        self.logged = self.step, seconds

    @property
    def stopped_early(self) -> bool:
        """True if there were as many validations since the best one as the config's patience."""
        return self.validations_since_best >= (self.config.patience or math.inf)

    def loop(self) -> None:
        """Step until done, out of time, interrupted or broken; save first and at every end but the last."""
        self.save()  # a run can be resumed from its first moment, with all that decides it
        self.metrics = list(self.group.on_rank_zero(self._begin))
        config, began = self.config, time.monotonic()
        limit = math.inf if self.options.max_minutes is None else 60 * self.options.max_minutes
        whole = True  # whether weights and optimizer stand between two steps
        self.learner.model.train()
        with (
            matmul_precision(config.precision),
            open_engine(self.learner, self.plan) as run,
            deferred_interrupt() as interrupted,
        ):
            try:
                while self.step < config.steps and not self.stopped_early:
                    whole = False
                    run(self.step)
                    self.step += 1
                    whole = True
                    self._after_step()
                    late = time.monotonic() - began > limit
                    wish = Stop.INTERRUPTED if interrupted() else Stop.OUT_OF_TIME if late else Stop.NO
                    stop = self.group.agree(self.step, wish)
                    if stop is Stop.INTERRUPTED:
                        raise KeyboardInterrupt
                    if stop is Stop.OUT_OF_TIME:
                        break
            except KeyboardInterrupt:
                if whole:
                    self.save()
                raise
            finally:
                if self.group.is_rank_zero:  # without the others: they may have met with an error
                    self._call("on_end", self.step)
            self.save()

    def save(self) -> None:
        """Write a checkpoint, if there is a folder to write to and something new, which must be finite."""
        if self.folder is None or self.saved == self.step:
            return
        self._finite_sums()
        self.group.on_rank_zero(partial(self.folder.save, snapshot(self.learner, self._card())))
        self.saved = self.step
        logger.info("checkpoint at step %d", self.step)

    def _after_step(self) -> None:
        config, last = self.config, self.step == self.config.steps
        if self.step % config.log_every == 0 or last:
            self._log()
        if self.step % config.checkpoint_every == 0 and not last:
            self.save()

    def _log(self) -> None:
        sums = self._finite_sums()  # waits for the device, so that the clock below is right
        learner, config, program = self.learner, self.config, self.learner.experiment.program
        count = (self.step - 1) % config.log_every + 1
        means = [total / count for total in sums]
        learner.sums.zero_()
        now = self.clock.seconds
        (step, seconds), self.logged = self.logged, (self.step, now)
        numbers = {
            "step": self.step,
            **dict(zip(learner.data.measures, means, strict=True)),
            "lr": learner.rate,
            "iterations": iterations_at(config, self.step - 1, default=default_steps(program)),
            **learner.batches.metrics(self.step - 1),
            "seconds": now,
            "steps_per_second": (self.step - step) / max(now - seconds, 1e-9),
        }
        if learner.device.type == "cuda":
            numbers["peak_memory"] = torch.cuda.max_memory_allocated(learner.device)
        every = config.validate_every
        if every is not None and (self.step % every == 0 or self.step == config.steps):
            with self.clock.paused():
                numbers |= self._validate()
        row = {name: float(number) for name, number in numbers.items()}
        self.metrics.append(self.group.on_rank_zero(lambda: self._tell(row)))

    def _validate(self) -> dict[str, float]:
        """Validate, and keep the weights if they are the best so far."""
        data = self.learner.data
        model = self.group.full_model(self.learner.trained, everywhere=True)
        found = self.group.on_rank_zero(lambda: data.validate(model, bf16=self.config.precision == "bf16"))
        if not found:
            return {}
        if self.best is not None and self._merit(found) <= self._merit(self.best):
            self.validations_since_best += 1
            return found
        self.best, self.validations_since_best = {"step": float(self.step), **found}, 0
        folder = self.folder
        if folder is not None:
            best = Checkpoint(model=model, data=data, card={**self._card(), **found})
            self.group.on_rank_zero(partial(folder.save, best, BEST))
        return found

    def _merit(self, validation: Metrics) -> tuple[float, ...]:
        """Return the merit of a validation; what is not a number is the worst."""
        return tuple(-math.inf if math.isnan(one) else one for one in self.learner.data.merit(validation))

    def _begin(self) -> list[Metrics]:
        """Tell that the run begins; return the rows of metrics that it has already."""
        kept: list[Metrics] = []
        if self.folder is not None:
            # after the checkpoint, also of a run that was killed between the two
            self.folder.write_config(self.facts["experiment"])
            kept = self.folder.keep_metrics(self.step)
        self._call("on_start", self.step, self.config.steps)
        return kept

    def _tell(self, row: Metrics) -> Metrics:
        if self.folder is not None:
            self.folder.add_metrics(row)
        self._call("on_log", self.step, row)
        return row

    def _call(self, name: str, *arguments: Any) -> None:
        for callback in self.callbacks:
            getattr(callback, name)(*arguments)

    def _fixed_facts(self) -> dict[str, Any]:
        """Return the facts on the card that stay the same while the run trains."""
        learner = self.learner
        return {
            "precision": self.config.precision,
            "engine": str(self.plan),
            "device": device_name(learner.device),
            "weights": "raw" if learner.average is None else "average",
            "experiment": learner.experiment.to_data(),
            "torch": torch.__version__,
            "commit": source_commit(),
            **learner.data.facts(),
        }

    def _card(self) -> dict[str, Any]:
        """Return the card of the run at this moment."""
        card: dict[str, Any] = {"step": self.step, "seconds": self.clock.seconds, **self.facts}
        if self.command:
            card["command"] = self.command
        if self.origin is not None:
            card[ORIGIN] = self.origin
        if not self.group.is_single:
            card |= {"processes": self.group.processes, "parallel": self.group.kind}
        if self.best is not None:
            card |= {"best": dict(self.best), "validations_since_best": self.validations_since_best}
        return card

    def _restore_card(self, card: Mapping[str, Any]) -> None:
        # a resumed run keeps what it was begun with, whatever it is resumed by
        self.command, self.origin = str(card.get("command", "")), card.get(ORIGIN)
        best, since = card.get("best"), card.get("validations_since_best", 0)
        if best is None:
            return
        numbers = isinstance(best, Mapping) and all(type(value) is float for value in best.values())
        if not numbers or type(since) is not int or not 0 <= since <= MOST:
            raise ValueError(f"the checkpoint's best validation is damaged: {short(best)}, {short(since)}")
        try:
            self.learner.data.merit(best)
        except KeyError as error:
            raise ValueError(f"the checkpoint's best validation lacks {error}") from None
        self.best, self.validations_since_best = dict(best), since

    def _finite_sums(self) -> list[float]:
        """Return the sums since the last row of metrics; refuse a loss or weights that are not finite."""
        sums = self.learner.read_sums()
        if not (self.learner.weights_are_finite() and math.isfinite(sums[0])):
            what = "weights are" if math.isfinite(sums[0]) else "loss is"
            kept = "" if self.folder is None else "; the last good checkpoint is kept"
            raise FloatingPointError(
                f"the {what} not finite at step {self.step}{kept}. "
                "Try a lower learning rate, or clip the gradient (clip_norm)"
            )
        return sums
