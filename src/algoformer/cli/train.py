"""`algoformer train`: an experiment from options, a run folder out of it."""

from __future__ import annotations

import shlex
import sys
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from algoformer.cli import is_first_process
from algoformer.cli.choose import FirstOptions, read_experiment, with_folder
from algoformer.cli.parse import DeviceName, EngineName
from algoformer.common.terminal import printable

if TYPE_CHECKING:
    from algoformer.training import Experiment, Run

HELP = """usage: algoformer train [--data NAME [FILE ...]] [OPTIONS]

Train a model and leave a folder with its config, metrics, checkpoint and plots.

what to train
  --data NAME [FILE ...]  linear, representation, autoregressive, chain, robust:
                          a task (default: linear); sudoku, hops, addition and
                          more: a puzzle (see algoformer tasks); or your files:
                          translation SOURCE TARGET, labels FILE, text FILE ...
  --program NAME          algoformer, looped, standard, nested, two_loops, ouro
                          and more (see algoformer programs), or a JSON file
  --scale NAME            smoke (default: two CPU cores), short (GPU minutes),
                          paper (the paper's sizes)
  --config FILE           start from the config.json of a run instead
  --width N               width of the residual stream (d_model)
  --data.NAME ...         settings of the data, such as --data.dim 5
  --model.PART.NAME ...   settings of a part, such as --model.loop.steps 30

how to train
  --steps N               optimizer steps
  --lr X                  peak learning rate
  --batch-size N          prompts or sequences in a batch
  --optimizer NAME        adam, adamw or muon
  --window N              the loss is the mean over the last N iterations
  --burn-in N ...         iterations without gradient to run first, drawn at
                          random from this list
  --precision NAME        fp32, tf32 or bf16 matrix products
  --seed N                seed of the weights and of the batches

where and how long
  --out FOLDER            the run folder; by default a new one under runs/
  --device NAME           auto, cpu, cuda or mps
  --resume                continue the run in --out from its last checkpoint
  --initial MODEL         start from the best weights of a run, or from a file
  --max-minutes X         stop after this time; continue later with --resume
  --no-evaluate           do not measure the model after training

algoformer train --help-all lists every option.

examples
  algoformer train --data representation --program looped --steps 5000
  algoformer train --data translation train.de train.en --steps 2000
  algoformer train --resume --out runs/linear-algoformer-smoke-seed0
  torchrun --nproc-per-node 2 -m algoformer train --scale short"""


@dataclass(frozen=True)
class TrainOptions(FirstOptions):
    """Options of `algoformer train` that are not settings of the experiment."""

    out: Path | None = None  # The run folder; by default a new one under runs/.
    initial: Path | None = None  # Start from the best weights of this run, or from this checkpoint.
    resume: bool = False  # Continue the run in --out from its last checkpoint.
    device: DeviceName = "auto"  # Where to train.
    engine: EngineName = "auto"  # How steps are executed; auto chooses and prints why.
    parallel: Literal["auto", "ddp", "fsdp"] = "auto"  # How torchrun's processes share a run; auto is ddp.
    max_minutes: float | None = None  # Stop after this time; continue later with --resume.
    data_folder: str | None = None
    """Folder with named corpora, or hub to download; by default $ALGOFORMER_DATA."""
    tensorboard: bool = True  # Also write TensorBoard events, if it is installed.
    evaluate: bool = True  # Measure and plot the model after training.


def run_train(arguments: list[str]) -> int:
    """Train as the options say."""
    experiment, settings = read_experiment(arguments, TrainOptions, command="train", short_help=HELP)
    from algoformer.common.devices import pick_device
    from algoformer.training.trainer import join_torchrun

    if settings.config is not None and settings.out is None:
        raise ValueError("a run that starts from --config needs a folder of its own: give --out")
    folder = settings.out or Path("runs") / _folder_name(experiment, settings)
    if settings.resume:
        experiment = _resumed(arguments, settings, folder)
    if settings.data_folder is not None:
        experiment = replace(experiment, data=with_folder(experiment.data, settings.data_folder))
    device, command = pick_device(settings.device), shlex.join(["algoformer", "train", *arguments])
    try:
        with join_torchrun(device):
            run = _train(experiment, folder, settings, device, command)
    except KeyboardInterrupt:
        if is_first_process():
            print(f"\ninterrupted; {printable(_way_on(folder))}", file=sys.stderr)
        return 130
    if not is_first_process():
        return 0
    if not run.finished:
        done = f"{run.step} of {experiment.training.steps} steps"
        print(f"{printable(str(folder))}: {done}; continue with --resume")
        return 0
    if settings.evaluate:
        from algoformer.cli.measure import measure_after_training

        measure_after_training(folder, command=command, device=device)
    print(printable(str(folder)))
    return 0


def _way_on(folder: Path) -> str:
    """Return how to go on with a run that was interrupted, perhaps before its first checkpoint."""
    from algoformer.checkpoint import LATEST

    if (folder / LATEST).exists():
        return f"continue with: algoformer train --resume --out {shlex.quote(str(folder))}"
    return "the run had not begun; start it again with the same command"


def _resumed(arguments: list[str], settings: TrainOptions, folder: Path) -> Experiment:
    """Return the experiment of the run in the folder; refuse options that would change it."""
    from algoformer.checkpoint import LATEST
    from algoformer.training import load_experiment

    if settings.initial is not None:
        raise ValueError("--resume continues with the run's own weights; leave out --initial")
    own = {f"--{item.name.replace('_', '-')}" for item in fields(TrainOptions)[len(fields(FirstOptions)) :]}
    for word in arguments:
        flag = word.split("=")[0]
        if flag.startswith("--") and flag.replace("--no-", "--") not in own:
            raise ValueError(f"--resume continues with the run's own settings; leave out {flag}")
    # a kill right after the first checkpoint leaves a run without config.json, which the resumed run writes
    if not (folder / LATEST).exists():
        raise ValueError(f"{folder} holds no run to resume; give its folder with --out")
    return load_experiment(folder)


def _train(experiment: Experiment, folder: Path, settings: TrainOptions, device: str, command: str) -> Run:
    """Train with a progress bar; print the program first, once the folder is known to be free."""
    import torch

    from algoformer.shipped import load
    from algoformer.training.config import Callback, RunOptions
    from algoformer.training.engine import plan_for
    from algoformer.training.trainer import train

    class Announcement(Callback):
        def on_start(self, step: int, steps: int) -> None:
            single = not torch.distributed.is_initialized()
            kind = "fsdp" if settings.parallel == "fsdp" else "ddp"
            processes = "" if single else f", {torch.distributed.get_world_size()} processes ({kind})"
            where = f"→ {printable(str(folder))} on {device}{processes}"
            plan = plan_for(experiment, settings.engine, device=torch.device(device), single=single)
            print(experiment.program, f"{where}; {plan}", sep="\n", file=sys.stderr)

    return train(
        experiment,
        folder,
        options=RunOptions(
            device=device,
            engine=settings.engine,
            parallel=settings.parallel,
            max_minutes=settings.max_minutes,
            tensorboard=settings.tensorboard,
            progress=True,
            callbacks=(Announcement(),),
            command=command,
        ),
        initial=None if settings.initial is None else load(settings.initial, best=True),
        resume=settings.resume,
    )


def _folder_name(experiment: Experiment, settings: TrainOptions) -> str:
    name, *files = settings.data
    source = Path(files[0]).stem if files else name
    return f"{source}-{Path(settings.program).stem}-{settings.scale}-seed{experiment.training.seed}"
