"""The training loop: from an experiment to weights, with everything needed to stop and go on."""

from __future__ import annotations

import logging
import math
import platform
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import torch

from algoformer.model.algoformer import AlgoFormer
from algoformer.training.config import Experiment, build_model
from algoformer.training.distributed import ParallelName, own_device, plan_spread
from algoformer.training.engine import EngineName, Plan, open_engine, plan_for
from algoformer.training.interrupts import deferred_interrupt
from algoformer.training.precision import matmul_precision
from algoformer.training.resume import capture, restore
from algoformer.training.run_folder import Metrics, RunFolder, open_folder
from algoformer.training.run_folder import load_experiment as load_experiment
from algoformer.training.run_folder import read_metrics as read_metrics
from algoformer.training.schedule import learning_rate, stage
from algoformer.training.sharded import own_piece
from algoformer.training.spread import Agreement, Spread, Stop
from algoformer.training.step import TrainingStep

Progress = Callable[[int, int, Metrics], None]
"""Called with steps done, steps in all, and the newest metrics."""

logger = logging.getLogger("algoformer.training")


@dataclass(frozen=True, kw_only=True)
class Run:
    """A trained model and how it got there.

    Attributes:
        experiment: what was trained and how.
        model: the model, where it was trained, or after FSDP a copy on the CPU; with `ema`, the average of
            its weights.
        step: how many steps it has taken in all.
        metrics: a row for every `log_every` steps: step; means of loss and error (at the last question
            that counts, divided by the task's scale) since the row before; learning rate; iterations,
            coordinates and samples of the curricula; seconds in all; steps per second; on CUDA the most
            memory in use, in bytes.
        plan: the engine that took the steps, and why that one.
    """

    experiment: Experiment
    model: AlgoFormer
    step: int
    metrics: tuple[Metrics, ...]
    plan: Plan

    @property
    def finished(self) -> bool:
        """Whether all steps were taken."""
        return self.step == self.experiment.training.steps


def train(
    experiment: Experiment,
    folder: Path | str | None = None,
    *,
    initial: AlgoFormer | None = None,
    resume: bool = False,
    device: str | torch.device = "cpu",
    engine: EngineName = "auto",
    parallel: ParallelName = "auto",
    max_minutes: float | None = None,
    shard_mb: int | float | None = None,
    tensorboard: bool = True,
    progress: Progress | None = None,
) -> Run:
    """Train the experiment's model; with a folder, leave config, metrics and checkpoints there.

    Stopped at any moment, a run continues with `resume=True` from its last checkpoint, on the CPU with
    exactly the weights it would have had without the stop. Ctrl-C stops after the step at hand, with a
    checkpoint.

    Called by all processes of a `torch.distributed` group, it trains one model on all of them. Each works on
    its share of every batch; the first writes the folder and calls `progress`; all return the same.

    Args:
        experiment: what to train and how.
        folder: where to write; None writes nothing.
        initial: a model to start from instead of fresh weights, trained before or built by hand; it is
            copied. Its program must be the experiment's.
        resume: go on with the run in `folder`.
        device: where to train.
        engine: how to take the steps: "eager" anywhere, "graph", "compiled" or "fused" on CUDA, or "auto".
        parallel: what several processes share: "ddp" the work, "fsdp" also weights, gradients and optimizer
            state, for models that do not fit otherwise; "auto" is "ddp" where there are several.
        max_minutes: stop after this long with a checkpoint, to be resumed later.
        shard_mb: no file of a checkpoint may have more MB (10⁶ bytes) than this; inf is one file. The
            checkpoint remembers it: None goes on as before, and starts with one file.
        tensorboard: where TensorBoard is installed, also write the metrics to `folder`/tensorboard.
        progress: called after every logged step.

    Raises:
        ValueError: the folder already holds a run, or holds none to resume, or another experiment's; or
            the device has no such engine; or the initial model is not of the experiment's program; or the
            processes cannot share the batch evenly.
        FloatingPointError: the loss is no longer a number; the last good checkpoint is kept.
        OSError: a file could not be written, say because the disk is full; the last checkpoint is kept.
    """
    if max_minutes is not None and not max_minutes > 0:
        raise ValueError(f"max_minutes must be positive, or None for no limit, got {max_minutes}")
    if resume and folder is None:
        raise ValueError("resume needs the folder of the run to go on with")
    spread = plan_spread(parallel, batch=experiment.training.batch, device=torch.device(device))
    spread.refuse_difference("experiment", experiment.to_data())
    where = own_device(torch.device(device), spread)
    plan = plan_for(experiment, engine, device=where, alone=spread.alone)
    logger.info("%s on %s, %s, precision %s", plan, device_name(where), spread, experiment.training.precision)
    with ExitStack() as stack:
        opened = None
        if folder is not None:
            opening = open_folder(
                Path(folder), experiment, resume=resume, shard_mb=shard_mb, tensorboard=tensorboard
            )
            # the first process owns the folder, the others only read in it
            reading = RunFolder(Path(folder))
            opened = spread.after_the_first(lambda: stack.enter_context(opening) if spread.first else reading)
        session = _Session(experiment, opened, initial, device=where, plan=plan, spread=spread)
        stack.enter_context(matmul_precision(experiment.training.precision))
        session.loop(max_minutes, progress or (lambda done, total, metrics: None))
        model = spread.whole_model(session.stepper.trained, everywhere=True)
    return Run(
        experiment=experiment,
        model=model,
        step=session.step,
        metrics=tuple(session.metrics),
        plan=plan,
    )


class _Session:
    """One stretch of training: the live objects and how they are saved."""

    def __init__(
        self,
        experiment: Experiment,
        folder: RunFolder | None,
        initial: AlgoFormer | None,
        *,
        device: torch.device,
        plan: Plan,
        spread: Spread,
    ) -> None:
        self.experiment, self.folder, self.plan, self.spread = experiment, folder, plan, spread
        self.step = 0
        self.seconds = 0.0
        self.metrics: list[Metrics] = []
        checkpoint = None if folder is None else spread.after_the_first(folder.load)
        # a run that began with a model of its own goes on with the one in its checkpoint
        start = initial if checkpoint is None else checkpoint.model
        self.model = build_model(experiment, like=start).to(device)
        generator = torch.Generator(device).manual_seed(prompt_seed(experiment.training.seed))
        self.stepper = TrainingStep(experiment, self.model, generator, spread)
        if checkpoint is not None:
            self.step, self.seconds = restore(self.stepper, checkpoint)
            logger.info("resumed at step %d", self.step)
        spread.refuse_difference("checkpoint", self.step)
        if folder is not None:
            self.metrics = list(spread.by_the_first(lambda: folder.keep_metrics(self.step)))
        self.saved = self.step if checkpoint is not None else -1
        self.logged = self.step, self.seconds

    def loop(self, max_minutes: float | None, progress: Progress) -> None:
        """Step until done, out of time, interrupted or broken; save at the end of each but the last."""
        config = self.experiment.training
        began, before = time.monotonic(), self.seconds
        agreement = Agreement(self.spread)
        whole = True  # whether weights and optimizer stand between two steps
        with open_engine(self.stepper, self.plan) as run, deferred_interrupt() as interrupted:
            try:
                while self.step < config.steps:
                    now = stage(self.experiment, self.step)
                    self.stepper.prepare(learning_rate(config, self.step), now)
                    whole = False
                    run(now.unroll)
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
            "precision": self.experiment.training.precision,
            "engine": str(self.plan),
            "device": device_name(self.stepper.device),
        }
        if not self.spread.alone:
            card |= {"processes": self.spread.processes, "parallel": self.spread.kind}
        checkpoint, folder = capture(self.stepper, card), self.folder
        self.spread.by_the_first(lambda: folder.save(checkpoint))
        self.saved = self.step
        logger.info("checkpoint at step %d", self.step)

    def _log(self, offset: float) -> None:
        config = self.experiment.training
        self._refuse_nonsense()  # waits for the device, so that the clock below is right
        loss, error = self.stepper.read_sums()
        self.stepper.sums.zero_()
        self.seconds = time.monotonic() + offset
        now = stage(self.experiment, self.step - 1)
        (step, seconds), self.logged = self.logged, (self.step, self.seconds)
        count = (self.step - 1) % config.log_every + 1
        numbers = {
            "step": self.step,
            "loss": loss / count,
            "error": error / count,
            "rate": learning_rate(config, self.step - 1),
            "loops": now.unroll.steps,
            "dims": now.dims,
            "samples": now.samples,
            "seconds": self.seconds,
            "steps_per_second": (self.step - step) / max(self.seconds - seconds, 1e-9),
        }
        if self.stepper.device.type == "cuda":
            numbers["peak_memory"] = torch.cuda.max_memory_allocated(self.stepper.device)
        row = {name: float(number) for name, number in numbers.items()}
        self.metrics.append(self.spread.by_the_first(lambda: self._written(row)))

    def _written(self, row: Metrics) -> Metrics:
        if self.folder is not None:
            self.folder.add_metrics(row)
        return row

    def _refuse_nonsense(self) -> None:
        loss, _ = self.stepper.read_sums()
        pieces = [own_piece(weight).isfinite().all() for weight in self.model.parameters()]
        finite = bool(torch.stack(pieces).all())
        if not (math.isfinite(loss) and all(self.spread.ask_all(finite))):
            what = "weights are" if math.isfinite(loss) else "loss is"
            raise FloatingPointError(
                f"the {what} no longer a number at step {self.step}; the last good checkpoint is kept. "
                "Try a lower learning rate, or clip the gradient"
            )


def prompt_seed(seed: int) -> int:
    """The seed of a run's prompts: even numbers, so that evaluation prompts (odd) are never among them."""
    return 2 * seed


def device_name(device: torch.device) -> str:
    """The device in words, for provenance."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    return f"{device.type} ({platform.machine()}, {torch.get_num_threads()} threads)"
