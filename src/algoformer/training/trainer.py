"""Training: from an experiment to weights, with everything needed to stop and go on."""

from __future__ import annotations

import logging
import os
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

from algoformer.checkpoint import Checkpoint, refuse_unbuildable
from algoformer.common.devices import pick_device
from algoformer.data.protocol import BUILT_IN
from algoformer.training.config import Experiment, ParallelName, RunOptions, build_model, refuse_unlike
from algoformer.training.engine import Plan, plan_for
from algoformer.training.run_folder import Metrics, RunFolder, open_folder, origin_of
from algoformer.training.session import Session
from algoformer.training.step import ProcessGroup, Step

logger = logging.getLogger("algoformer.training")


@dataclass(frozen=True, kw_only=True)
class Run:
    """A trained model and how it got there.

    Attributes:
        experiment: what was trained and how.
        model: the model, where it was trained, or after FSDP a copy on the CPU; with `ema`, the average of
            its weights.
        step: how many steps it has taken in all.
        metrics: a row for every `log_every` steps: step; means since the row before of the loss and of the
            other measures of the data; lr; iterations and other curricula; seconds, without validation;
            steps per second; on CUDA the peak memory in bytes; every `validate_every` steps the validation.
        plan: the engine that took the steps, and why that one.
        best: the step and the numbers of the best validation; its weights are best.safetensors in the
            folder. None without validation.
        stopped_early: whether validation stopped improving before the last step.
    """

    experiment: Experiment
    model: Any
    step: int
    metrics: tuple[Metrics, ...]
    plan: Plan
    best: Metrics | None = None
    stopped_early: bool = False

    @property
    def finished(self) -> bool:
        """True if all steps were taken, or as many as early stopping allowed."""
        return self.stopped_early or self.step == self.experiment.training.steps

    @property
    def checkpoint(self) -> Checkpoint:
        """The model with what it learned from, to be used or saved."""
        data = self.experiment.data
        return Checkpoint(model=self.model, data=data, card={"step": self.step, **data.facts()})

    def __repr__(self) -> str:
        last = self.metrics[-1] if self.metrics else {}
        shown = ", ".join(
            f"{name} {last[name]:.3g}" for name in self.experiment.data.measures if name in last
        )
        steps = self.experiment.training.steps
        return f"Run({self.experiment.data.name}, step {self.step:,} of {steps:,}{', ' * bool(shown)}{shown})"


def train(
    experiment: Experiment,
    folder: Path | str | None = None,
    *,
    options: RunOptions | None = None,
    initial: nn.Module | Checkpoint | None = None,
    resume: bool = False,
    **run_options: Any,
) -> Run:
    """Train the experiment's model; with a folder, leave config, metrics and checkpoints there.

    Stopped at any moment, a run continues with `resume=True` from its last checkpoint, on the CPU with
    exactly the weights it would have had without the stop. Ctrl-C stops after the step at hand, with a
    checkpoint.

    Called by all processes of a `torch.distributed` group, it trains one model on all of them. Each works on
    its share of every batch; rank zero writes the folder and calls the callbacks; all return the same.

    Args:
        experiment: what to train and how.
        folder: where to write; None writes nothing.
        options: how to carry out the run.
        initial: a model to start from instead of fresh weights, trained before or built by hand; it is
            copied. Its program must be the experiment's. The run's card tells of a checkpoint what it was,
            and text is read with its tokenizer. `af.load(folder, best=True)` has the best weights of a run.
        resume: continue the run in `folder`.
        run_options: fields of `RunOptions`, such as `device="cuda"`, in place of `options`.

    Raises:
        ValueError: the folder already holds a run, or holds none to resume, or another experiment's; or
            the device is not there, or has no such engine; or the initial model is not of the
            experiment's program; or the processes cannot share the batch evenly; or the model could not be
            rebuilt from a checkpoint.
        FloatingPointError: the loss is no longer a number; the last good checkpoint is kept.
        OSError: a file could not be written, say because the disk is full; the last checkpoint is kept.
    """
    options = options or RunOptions()
    options = replace(options, **run_options) if run_options else options
    experiment = _check_request(experiment, folder, initial, resume=resume)
    device = torch.device(options.device)
    pick_device(device.type)  # refuses a device that PyTorch does not see
    group, device = join_group(options.parallel, device)
    plan = plan_for(experiment, options.engine, device=device, single=group.is_single)
    logger.info("%s on %s, %s", plan, device, group)
    with ExitStack() as stack:
        opened = None if folder is None else _open(stack, Path(folder), experiment, group, options, resume)
        stored = group.rank_zero_first(opened.load) if opened is not None and resume else None
        session = _session(experiment, opened, stored, initial, device, plan, group, options)
        session.loop()
        model = group.full_model(session.learner.trained, everywhere=True)
    return Run(
        experiment=session.learner.experiment,
        model=model.eval(),
        step=session.step,
        metrics=tuple(session.metrics),
        plan=plan,
        best=session.best,
        stopped_early=session.stopped_early,
    )


def _check_request(
    experiment: Experiment, folder: Path | str | None, initial: Any, *, resume: bool
) -> Experiment:
    """Refuse what no run can do, before anything is written; return the experiment, with its tokenizer."""
    if not isinstance(experiment, Experiment):
        raise ValueError(f"train needs an Experiment, got {type(experiment).__name__}")
    if resume and folder is None:
        raise ValueError("resume needs the folder of the run to continue; give folder")
    if resume and initial is not None:
        raise ValueError("a resumed run continues with its own weights; leave out initial or resume")
    if not (initial is None or isinstance(initial, nn.Module | Checkpoint)):
        raise ValueError(
            f"initial must be a model or a checkpoint, got {type(initial).__name__}; see af.load"
        )
    if isinstance(initial, Checkpoint) and hasattr(experiment.data, "begun_with"):
        experiment = replace(experiment, data=experiment.data.begun_with(initial.data))
    if initial is not None:
        refuse_unlike(experiment, initial.model if isinstance(initial, Checkpoint) else initial)
    if folder is not None:
        experiment.to_data()  # refuses a task or data that no file could name
    return experiment


def _open(
    stack: ExitStack,
    path: Path,
    experiment: Experiment,
    group: ProcessGroup,
    options: RunOptions,
    resume: bool,
) -> RunFolder:
    """Open the folder on rank zero, which owns it; the others only read in it."""
    if not group.is_single:
        group.check_same("experiment", experiment.to_data())
    opening: AbstractContextManager[RunFolder]
    if group.is_rank_zero:
        opening = open_folder(path, experiment, resume=resume, tensorboard=options.tensorboard)
    else:
        opening = nullcontext(RunFolder(path))
    return group.rank_zero_first(partial(stack.enter_context, opening))


def _session(
    experiment: Experiment,
    folder: RunFolder | None,
    stored: Checkpoint | None,
    initial: nn.Module | Checkpoint | None,
    device: torch.device,
    plan: Plan,
    group: ProcessGroup,
    options: RunOptions,
) -> Session:
    start = initial if stored is None else stored
    if stored is not None and stored.data is not None:
        experiment = replace(experiment, data=experiment.data.resumed(stored.data))
    like = start.model if isinstance(start, Checkpoint) else start
    model: Any = build_model(experiment, like=like)
    if initial is not None and hasattr(experiment.data, "dropouts"):
        model.trunk.set_dropout(**experiment.data.dropouts)  # those of the model were for its own training
    if folder is not None and not (like is None and experiment.data.name in BUILT_IN):
        refuse_unbuildable(model)  # a model from elsewhere may not be what its program builds
    origin = origin_of(initial.card) if isinstance(initial, Checkpoint) else None
    learner = Step(experiment, model.to(device), group)
    return Session(learner, folder, stored, plan=plan, options=options, origin=origin)


VARIABLES = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
"""The environment variables by which torchrun tells a process its rank."""


def started_by_torchrun() -> bool:
    """Return whether this process is one of those that torchrun started."""
    return dist.is_available() and all(name in os.environ for name in VARIABLES)


def join_torchrun(device: str | torch.device = "cpu") -> AbstractContextManager[None]:
    """Make the processes that torchrun started a group inside, so that `train` uses all of them.

    Without torchrun, or in a program that has made the group itself, nothing happens.

    Raises:
        ValueError: there are more processes on this machine than GPUs.
    """
    if not started_by_torchrun() or dist.is_initialized():
        return nullcontext()
    from algoformer.training.distributed import joined

    return joined(device)


def join_group(wanted: ParallelName, device: torch.device) -> tuple[ProcessGroup, torch.device]:
    """Return the processes of a run, and the device of this one; a single process needs nothing else."""
    if (
        wanted == "auto"
        and not (dist.is_available() and dist.is_initialized())
        and "WORLD_SIZE" not in os.environ
    ):
        return ProcessGroup(), device
    from algoformer.training.distributed import own_gpu, plan_group

    group = plan_group(wanted, device=device)
    if not group.is_single and str(device) == "cuda":
        device = torch.device("cuda", own_gpu())
    return group, device
