"""The training loop: from an experiment to weights, with everything needed to stop and go on."""

from __future__ import annotations

import json
import math
import platform
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from algoformer.model.algoformer import AlgoFormer
from algoformer.training.checkpoint import Checkpoint, load_checkpoint, save_checkpoint
from algoformer.training.config import Experiment, build_model
from algoformer.training.files import read_json, write_json, write_text
from algoformer.training.schedule import learning_rate, stage
from algoformer.training.step import TrainingStep

Progress = Callable[[int, int, Mapping[str, float]], None]
"""Called with steps done, steps in all, and the newest metrics."""


@dataclass(frozen=True, kw_only=True)
class Run:
    """A trained model and how it got there."""

    experiment: Experiment
    model: AlgoFormer
    step: int
    metrics: tuple[Mapping[str, float], ...]

    @property
    def finished(self) -> bool:
        """Whether all steps were taken."""
        return self.step == self.experiment.training.steps


def train(
    experiment: Experiment,
    folder: Path | None = None,
    *,
    resume: bool = False,
    device: str | torch.device = "cpu",
    max_minutes: float | None = None,
    progress: Progress | None = None,
) -> Run:
    """Train the experiment's model; with a folder, leave config, metrics and checkpoints there.

    Stopped at any moment, a run continues with `resume=True` from its last checkpoint, on the CPU with
    exactly the weights it would have had without the stop.

    Args:
        experiment: what to train and how.
        folder: where to write; None writes nothing.
        resume: go on with the run in `folder`.
        device: where to train.
        max_minutes: stop after this long with a checkpoint, to be resumed later.
        progress: called after every logged step.

    Raises:
        ValueError: the folder already holds a run, or holds none to resume, or another experiment's.
        FloatingPointError: the loss is no longer a number; the last good checkpoint is kept.
    """
    session = _Session(experiment, folder, device=torch.device(device))
    if folder is not None:
        session.open_folder(folder, resume=resume)
    elif resume:
        raise ValueError("resume needs the folder of the run to go on with")
    with matmul_precision(experiment.training.precision):
        session.loop(max_minutes, progress or (lambda done, total, metrics: None))
    return Run(experiment=experiment, model=session.model, step=session.step, metrics=tuple(session.metrics))


class _Session:
    """One stretch of training: the live objects and how they are saved."""

    def __init__(self, experiment: Experiment, folder: Path | None, *, device: torch.device) -> None:
        self.experiment = experiment
        self.folder = folder
        self.step = 0
        self.seconds = 0.0
        self.metrics: list[Mapping[str, float]] = []
        self.model = build_model(experiment).to(device)
        self.generator = torch.Generator(device).manual_seed(prompt_seed(experiment.training.seed))
        self.stepper = TrainingStep(experiment, self.model, self.generator)

    def loop(self, max_minutes: float | None, progress: Progress) -> None:
        """Step until done, out of time, interrupted or broken; save at the end of each."""
        config = self.experiment.training
        began = time.monotonic()
        before = self.seconds
        losses: list[Tensor] = []
        try:
            while self.step < config.steps:
                now = stage(self.experiment, self.step)
                self.stepper.prepare(learning_rate(config, self.step), now)
                losses.append(self.stepper.run(now.unroll))
                self.step += 1
                self.seconds = before + time.monotonic() - began
                last = self.step == config.steps
                if self.step % config.log_every == 0 or last:
                    self._log(losses, now.unroll.steps)
                    losses = []
                    progress(self.step, config.steps, self.metrics[-1])
                if self.step % config.checkpoint_every == 0 and not last:
                    self.save()
                if max_minutes is not None and time.monotonic() - began > 60 * max_minutes:
                    break
        except KeyboardInterrupt:
            self.save()
            raise
        self.save()

    def save(self) -> None:
        """Write a checkpoint, if there is a folder to write to."""
        if self.folder is None:
            return
        card = {
            "step": self.step,
            "seconds": self.seconds,
            "experiment": self.experiment.to_data(),
            "torch": torch.__version__,
            "device": device_name(self.generator.device),
        }
        state = {"generator": self.generator.get_state()} | self._optimizer_state()
        checkpoint = Checkpoint(model=self.model, task=self.experiment.task, card=card, state=state)
        save_checkpoint(self.folder / "checkpoint.safetensors", checkpoint)

    def open_folder(self, folder: Path, *, resume: bool) -> None:
        """Start a new run folder, or take up the run that is in it."""
        config = folder / "config.json"
        if resume:
            if not config.exists():
                raise ValueError(f"{folder} holds no run to resume")
            if read_json(config) != json.loads(json.dumps(self.experiment.to_data())):
                raise ValueError(f"{folder} holds a run of another experiment; resume with its own settings")
            if (folder / "checkpoint.safetensors").exists():
                self._restore(load_checkpoint(folder / "checkpoint.safetensors"))
            self._trim_metrics()
            return
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise ValueError(f"{folder} exists already; resume the run in it or choose another folder")
        write_json(config, self.experiment.to_data())

    def _restore(self, checkpoint: Checkpoint) -> None:
        self.model.load_state_dict(checkpoint.model.state_dict())
        self.step = int(checkpoint.card["step"])
        self.seconds = float(checkpoint.card["seconds"])
        self.generator.set_state(checkpoint.state["generator"])
        optimizer = self.stepper.optimizer
        for name, parameter in self.model.named_parameters():
            prefix = f"optimizer.{name}."
            optimizer.state[parameter] = {
                key.removeprefix(prefix): value.to(parameter.device)
                for key, value in checkpoint.state.items()
                if key.startswith(prefix) and "." not in key.removeprefix(prefix)
            }

    def _optimizer_state(self) -> dict[str, Tensor]:
        return {
            f"optimizer.{name}.{key}": value
            for name, parameter in self.model.named_parameters()
            for key, value in self.stepper.optimizer.state[parameter].items()
        }

    def _log(self, losses: list[Tensor], loops: int) -> None:
        loss = torch.stack(losses).mean().item()
        if not math.isfinite(loss):
            raise FloatingPointError(
                f"the loss is {loss} at step {self.step}; the last good checkpoint is kept. "
                "Try a lower learning rate, or clip the gradient"
            )
        rate = learning_rate(self.experiment.training, self.step - 1)
        row = {"step": self.step, "loss": loss, "rate": rate, "loops": loops, "seconds": self.seconds}
        self.metrics.append(row)
        if self.folder is not None:
            with (self.folder / "metrics.jsonl").open("a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")

    def _trim_metrics(self) -> None:
        # rows after the checkpoint will be written again, and a kill may have cut the last line
        assert self.folder is not None
        self.metrics = [row for row in read_metrics(self.folder) if row["step"] <= self.step]
        text = "".join(json.dumps(row) + "\n" for row in self.metrics)
        write_text(self.folder / "metrics.jsonl", text)


def read_metrics(folder: Path) -> list[dict[str, float]]:
    """The rows of a run's metrics; a line that was cut off by a kill is left out."""
    path = folder / "metrics.jsonl"
    if not path.exists():
        return []
    rows = []
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            rows.append(json.loads(line))
        except ValueError:
            continue
    return rows


def load_experiment(folder: Path) -> Experiment:
    """The experiment whose run is in `folder`."""
    return Experiment.from_data(read_json(folder / "config.json"))


def prompt_seed(seed: int) -> int:
    """The seed of a run's prompts: even numbers, so that evaluation prompts (odd) are never among them."""
    return 2 * seed


def device_name(device: torch.device) -> str:
    """The device in words, for provenance."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    return f"{device.type} ({platform.machine()}, {torch.get_num_threads()} threads)"


@contextmanager
def matmul_precision(precision: str) -> Iterator[None]:
    """Allow TF32 products inside, if that is the precision; put things back afterwards."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high" if precision in ("tf32", "bf16") else "highest")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)
