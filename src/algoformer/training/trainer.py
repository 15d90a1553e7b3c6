"""The training loop: from an experiment to weights, with everything needed to stop and go on."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from algoformer.model.algoformer import AlgoFormer
from algoformer.trace import Unroll
from algoformer.training.checkpoint import Checkpoint
from algoformer.training.config import Experiment, Precision, build_model, refuse_unlike
from algoformer.training.distributed import ParallelName, own_device, plan_spread
from algoformer.training.engine import EngineName, Plan, in_words, open_engine, plans_for
from algoformer.training.precision import matmul_precision
from algoformer.training.resume import capture
from algoformer.training.run_folder import CHECKPOINTS, Metrics, RunFolder, open_folder
from algoformer.training.run_folder import load_experiment as load_experiment
from algoformer.training.run_folder import read_metrics as read_metrics
from algoformer.training.schedule import learning_rate, precision_at, stage
from algoformer.training.session import COMMAND, RUNS_AT_ONCE, Progress, Session, check_request
from algoformer.training.session import device_name as device_name
from algoformer.training.spread import Spread
from algoformer.training.step import TrainingStep

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
        plan: the engine that took the steps, and why that one; not of those that `fp32_end` asks for.
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
    initial: AlgoFormer | Checkpoint | None = None,
    resume: bool = False,
    device: str | torch.device = "cpu",
    engine: EngineName = "auto",
    parallel: ParallelName = "auto",
    max_minutes: float | None = None,
    shard_mb: int | float | None = None,
    tensorboard: bool = True,
    runs_at_once: int = 1,
    command: str = "",
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
            copied. Its program must be the experiment's. Of a checkpoint the run's own will say what it was.
        resume: go on with the run in `folder`.
        device: where to train.
        engine: how to take the steps: "eager" anywhere, "graph", "compiled" or "fused" on CUDA, or "auto".
        parallel: what several processes share: "ddp" the work, "fsdp" also weights, gradients and optimizer
            state, for models that do not fit otherwise; "auto" is "ddp" where there are several.
        max_minutes: stop after this long with a checkpoint, to be resumed later.
        shard_mb: no file of a checkpoint may have more MB (10⁶ bytes) than this; inf is one file. The
            checkpoint remembers it: None goes on as before, and starts with one file.
        tensorboard: where TensorBoard is installed, also write the metrics to `folder`/tensorboard.
        runs_at_once: how many runs share the device meanwhile, this one among them. The checkpoint's card
            keeps the most there ever were, so that its seconds are not taken for the pace of one alone.
        command: by which the run is asked for. The card keeps it, so that somebody can do the same again.
        progress: called after every logged step.

    Raises:
        ValueError: the folder already holds a run, or holds none to resume, or another experiment's; or
            the device has no such engine; or the initial model is not of the experiment's program; or the
            processes cannot share the batch evenly.
        FloatingPointError: the loss is no longer a number; the last good checkpoint is kept.
        OSError: a file could not be written, say because the disk is full; the last checkpoint is kept.
    """
    check_request(folder, resume=resume, max_minutes=max_minutes, runs_at_once=runs_at_once)
    if initial is not None and not resume:  # before anything is written
        refuse_unlike(experiment, initial.model if isinstance(initial, Checkpoint) else initial)
    spread = plan_spread(parallel, batch=experiment.training.batch, device=torch.device(device))
    spread.refuse_difference("experiment", experiment.to_data())
    where = own_device(torch.device(device), spread)
    plans = plans_for(experiment, engine, device=where, alone=spread.alone)
    logger.info("%s on %s, %s", in_words(plans), device_name(where), spread)
    with ExitStack() as stack:
        opened = None
        if folder is not None:
            opening = open_folder(
                Path(folder),
                experiment,
                CHECKPOINTS,
                resume=resume,
                shard_mb=shard_mb,
                tensorboard=tensorboard,
            )
            # the first process owns the folder, the others only read in it
            reading = RunFolder(Path(folder), CHECKPOINTS)
            opened = spread.after_the_first(lambda: stack.enter_context(opening) if spread.first else reading)
        session = _Session(
            experiment,
            opened,
            initial,
            device=where,
            plans=plans,
            spread=spread,
            runs_at_once=runs_at_once,
            command=command,
        )
        session.loop(max_minutes, progress or (lambda done, total, metrics: None))
        model = spread.whole_model(session.stepper.trained, everywhere=True)
    return Run(
        experiment=experiment,
        model=model,
        step=session.step,
        metrics=tuple(session.metrics),
        plan=next(iter(plans.values())),
    )


class _Session(Session[Checkpoint]):
    """A model that learns from fresh prompts."""

    def __init__(
        self,
        experiment: Experiment,
        folder: RunFolder[Checkpoint] | None,
        initial: AlgoFormer | Checkpoint | None,
        *,
        device: torch.device,
        plans: Mapping[Precision, Plan],
        spread: Spread,
        runs_at_once: int,
        command: str,
    ) -> None:
        self.experiment, self.plans = experiment, plans
        checkpoint = None if folder is None else spread.after_the_first(folder.load)
        # a run that began with a model of its own goes on with the one in its checkpoint
        start = initial if checkpoint is None else checkpoint
        self.origin = _origin(start, resumed=checkpoint is not None)
        like = start.model if isinstance(start, Checkpoint) else start
        model = build_model(experiment, like=like).to(device)
        generator = torch.Generator(device).manual_seed(prompt_seed(experiment.training.seed))
        self.stepper = TrainingStep(experiment, model, generator, spread)
        super().__init__(
            self.stepper,
            folder,
            checkpoint,
            engine=in_words(plans),
            runs_at_once=runs_at_once,
            command=command,
        )

    @contextmanager
    def stepping(self) -> Iterator[Callable[[int], None]]:
        """Inside, a function that takes a step on fresh prompts."""
        with ExitStack() as stretch:  # of steps that multiply alike
            runs: dict[Precision, Callable[[Unroll], None]] = {}

            def take(step: int) -> None:
                precision = precision_at(self.config, step)
                if precision not in runs:
                    runs.clear()
                    stretch.close()
                    runs[precision] = stretch.enter_context(self._multiplying_in(precision))
                now = stage(self.experiment, step)
                self.stepper.prepare(learning_rate(self.config, step), now)
                runs[precision](now.unroll)

            yield take

    @contextmanager
    def _multiplying_in(self, precision: Precision) -> Iterator[Callable[[Unroll], None]]:
        self.stepper.multiply_in(precision)
        with matmul_precision(precision), open_engine(self.stepper, self.plans[precision]) as run:
            yield run

    def numbers(self, means: list[float]) -> Mapping[str, float]:
        """The error, and where the curricula stand."""
        now = stage(self.experiment, self.step - 1)
        return {"error": means[1], "loops": now.unroll.steps, "dims": now.dims, "samples": now.samples}

    def capture(self, card: Mapping[str, Any]) -> Checkpoint:
        """A checkpoint of this moment."""
        return capture(self.stepper, {**card, **self.origin})


ORIGIN = "initial"
"""Under this name a card tells of the checkpoint that a run began with."""

TOLD = ("step", "seconds", RUNS_AT_ONCE, "precision", "device", "commit", COMMAND, "experiment", ORIGIN)
"""What it tells of it, as far as that one's own card knows."""


def _origin(start: AlgoFormer | Checkpoint | None, *, resumed: bool) -> dict[str, Any]:
    if not isinstance(start, Checkpoint):
        return {}
    if resumed:  # what it began with is what it had begun with
        return {ORIGIN: start.card[ORIGIN]} if ORIGIN in start.card else {}
    return {ORIGIN: {name: start.card[name] for name in TOLD if name in start.card}}


def prompt_seed(seed: int) -> int:
    """The seed of a run's prompts: even numbers, so that evaluation prompts (odd) are never among them."""
    return 2 * seed
