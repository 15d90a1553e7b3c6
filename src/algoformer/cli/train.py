"""`algoformer train`: an experiment from options, a run folder out of it."""

from __future__ import annotations

import shlex
import sys
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

import torch
import tyro

from algoformer.cli.choose import read_experiment
from algoformer.cli.failure import is_first_process
from algoformer.cli.measure import measure_runs, open_checkpoint
from algoformer.cli.progress import training_bars
from algoformer.cli.say import say
from algoformer.common.devices import pick_device
from algoformer.evaluation import summary_table
from algoformer.training import Experiment, Run, load_experiment, train
from algoformer.training.distributed import ParallelName, join_torchrun, plan_spread
from algoformer.training.engine import EngineName, in_words, plans_for
from algoformer.training.spread import Spread

DESCRIPTION = """Train a program on a task; leave a folder with config, metrics, checkpoint, numbers, plots.

Examples:
  algoformer train                                            a small AlgoFormer on linear regression
  algoformer train --task representation --program looped --model.loop.steps 30
  algoformer train --scale short --training.burn-in 0 10 20 --device cuda
  algoformer train --resume --out runs/linear-algoformer-smoke-seed0
  torchrun --nproc-per-node 2 -m algoformer train --scale short
"""


SETTINGS = ("--task", "--program", "--scale", "--config")
"""Options that say what is trained."""


def options() -> list[tuple[str, Any, Any]]:
    """The options of this command that are not settings of the experiment."""
    return [
        (
            "out",
            _help(Path | None, "The run folder; by default one under runs/ named after the settings."),
            None,
        ),
        ("initial", _help(Path | None, "Begin with the weights of this run or checkpoint."), None),
        ("resume", _help(bool, "Go on with the run in --out, with its own settings."), False),
        ("device", _help(Literal["auto", "cpu", "cuda", "mps"], "Where to train."), "auto"),
        ("engine", _help(EngineName, "How steps are taken; auto chooses and says why."), "auto"),
        ("parallel", _help(ParallelName, "How processes of torchrun share a run: auto is ddp."), "auto"),
        ("max_minutes", _help(float | None, "Stop after this long; resume later."), None),
        (
            "shard_mb",
            _help(float | None, "No file of a checkpoint is larger; a resumed run remembers. inf: one file."),
            None,
        ),
        ("tensorboard", _help(bool, "Write events too, if TensorBoard is installed."), True),
        ("evaluate", _help(bool, "Measure and draw the model when it is trained."), True),
    ]


def _help(kind: Any, text: str) -> Any:
    return Annotated[kind, tyro.conf.arg(help=text)]


def run_train(arguments: list[str]) -> int:
    """Train as the options say."""
    experiment, settings = read_experiment(
        arguments, command="train", description=DESCRIPTION, extra=options()
    )
    if settings.config is not None and settings.out is None:
        raise ValueError("a run that starts from --config needs a folder of its own: give --out")
    folder = settings.out or Path("runs") / _folder_name(experiment, settings)
    if settings.resume:
        if settings.initial is not None:
            raise ValueError("--resume goes on with the run's own weights; leave out --initial")
        _refuse_settings(arguments)
        if not (folder / "config.json").exists():
            raise ValueError(f"{folder} holds no run to resume; give its folder with --out")
        experiment = load_experiment(folder)
    device, command = pick_device(settings.device), shlex.join(["algoformer", "train", *arguments])
    try:
        with join_torchrun(device):
            spread = plan_spread(
                settings.parallel, batch=experiment.training.batch, device=torch.device(device)
            )
            run = train_with_bar(experiment, folder, settings, device, spread, command)
    except KeyboardInterrupt:
        if is_first_process():
            print(
                f"\nstopped; go on with: algoformer train --resume --out {shlex.quote(str(folder))}",
                file=sys.stderr,
            )
        return 130
    if not is_first_process():
        return 0
    if not run.finished:
        print(f"{folder}: {run.step} of {experiment.training.steps} steps; go on with --resume")
        return 0
    if settings.evaluate:
        results = measure_runs(
            [folder], against=(), folder=folder, prompts=1280, steps=None, command=command, device=device
        )
        say(summary_table(results))
    print(folder)
    return 0


def _refuse_settings(arguments: list[str]) -> None:
    # a run goes on as it began: options that would change it must not be dropped in silence
    for word in arguments:
        if word.startswith(("--model.", "--data.", "--training.")) or word.split("=")[0] in SETTINGS:
            raise ValueError(f"--resume goes on with the run's own settings; leave out {word}")


def train_with_bar(
    experiment: Experiment, folder: Path, settings: Any, device: str, spread: Spread, command: str
) -> Run:
    """Say what is about to happen, and train with a progress bar; with several processes, only the first."""
    plans = plans_for(experiment, settings.engine, device=torch.device(device), alone=spread.alone)
    if spread.first:
        where = device if spread.alone else f"{device}, {spread}"
        print(f"{experiment.program}\n→ {folder} on {where}; {in_words(plans)}", file=sys.stderr)
    start = partial(
        train,
        experiment,
        folder,
        initial=None if settings.initial is None else open_checkpoint(settings.initial),
        resume=settings.resume,
        device=device,
        engine=settings.engine,
        parallel=settings.parallel,
        max_minutes=settings.max_minutes,
        shard_mb=settings.shard_mb,
        tensorboard=settings.tensorboard,
        command=command,
    )
    if not spread.first:
        return start()
    with training_bars({"training": experiment.training.steps}) as show:
        return start(progress=partial(show, "training"))


def _folder_name(experiment: Experiment, settings: Any) -> str:
    program = Path(settings.program).stem
    return f"{settings.task}-{program}-{settings.scale}-seed{experiment.training.seed}"
