"""`algoformer text`: train a translator or a classifier; pack its corpus; export what was trained."""

from __future__ import annotations

import shlex
import sys
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

from algoformer.cli.choose_text import read_text_experiment
from algoformer.cli.new_file import refuse_existing
from algoformer.cli.progress import training_bars
from algoformer.cli.say import say
from algoformer.cli.text_corpus import read_corpus
from algoformer.cli.text_export import measurement_table, run_text_export
from algoformer.cli.text_files import open_text_model
from algoformer.common.devices import pick_device
from algoformer.evaluation import Table
from algoformer.language.packing import PackedText, pack, unpack
from algoformer.language.training import (
    TextExperiment,
    TextRun,
    load_text_experiment,
    train_text,
)
from algoformer.language.training.measure import measure
from algoformer.language.training.step import TextEngine
from algoformer.training.files import write_json

USAGE = """usage: algoformer text train [OPTIONS]       train, and score on the whole test set
       algoformer text pack FILE [OPTIONS]   only read and tokenize; train from FILE elsewhere
       algoformer text export RUN FILE       the best weights as one small file with its card

algoformer text train --help for all options"""

DESCRIPTION = """Train a program to translate or to classify; leave a folder with config, metrics and weights.

Sets with the name small_... are part of the package; for others say where they are with --data, or with
the environment variable ALGOFORMER_DATA.

Examples:
  algoformer text train                                          German to English, small, on a CPU
  algoformer text train --kind classification --program standard
  algoformer text train --size paper --data FOLDER --text.corpora iwslt14_de_en --device cuda
  algoformer text pack iwslt.safetensors --size paper --data FOLDER
  algoformer text train --size paper --packed iwslt.safetensors
  algoformer text train --resume --out runs/small_de_en-algoformer-small-seed0
"""

SETTINGS = ("--kind", "--program", "--size", "--config")
"""Options that say what is trained."""


def _help(kind: Any, text: str) -> Any:
    return Annotated[kind, tyro.conf.arg(help=text)]


DATA = ("data", _help(Path | None, "The folder with the sets of text, or hub."), None)


def options() -> list[tuple[str, Any, Any]]:
    """The options of training that are not settings of the experiment."""
    return [
        DATA,
        ("packed", _help(Path | None, "Read the text from this file, made by text pack."), None),
        ("out", _help(Path | None, "The run folder; by default one under runs/ named after it."), None),
        ("resume", _help(bool, "Go on with the run in --out, with its own settings."), False),
        ("device", _help(Literal["auto", "cpu", "cuda", "mps"], "Where to train."), "auto"),
        (
            "engine",
            _help(TextEngine, "How steps are taken: as they stand, or on CUDA as captured graphs."),
            "auto",
        ),
        ("max_minutes", _help(float | None, "Stop after this long; resume later."), None),
        (
            "shard_mb",
            _help(float | None, "No file of a checkpoint is larger; a resumed run remembers. inf: one file."),
            None,
        ),
        ("tensorboard", _help(bool, "Write events too, if TensorBoard is installed."), True),
        ("evaluate", _help(bool, "Score the best weights on the test set when trained."), True),
    ]


def run_text(arguments: list[str]) -> int:
    """Train or pack."""
    if not arguments:
        print(USAGE)
        return 2
    if arguments[0] in ("-h", "--help"):
        return run_training(arguments)
    what, rest = arguments[0], arguments[1:]
    if what == "train":
        return run_training(rest)
    if what == "pack":
        return run_packing(rest)
    if what == "export":
        return run_text_export(rest)
    raise ValueError(f"text {what!r} is not known; there are train and pack and export")


def run_packing(arguments: list[str]) -> int:
    """Read and tokenize a corpus into one file."""
    if not arguments or (arguments[0].startswith("-") and arguments[0] not in ("-h", "--help")):
        raise ValueError("text pack needs the file to write first: algoformer text pack FILE [OPTIONS]")
    file, rest = (
        (Path(arguments[0]), arguments[1:]) if not arguments[0].startswith("-") else (None, arguments)
    )
    experiment, settings = read_text_experiment(
        rest, command="text pack FILE", description=DESCRIPTION, extra=[DATA]
    )
    assert file is not None  # --help has ended above
    refuse_existing(file)
    text = read_corpus(experiment.text, settings.data)
    pack(file, text)
    rows = ", ".join(f"{name} {len(split):,}" for name, split in text.splits.items())
    print(f"{file}: {rows}; {len(text.tokenizer):,} tokens; {text.card['terms']}")
    return 0


def run_training(arguments: list[str]) -> int:
    """Train as the options say, and score."""
    experiment, settings = read_text_experiment(
        arguments, command="text train", description=DESCRIPTION, extra=options()
    )
    if settings.config is not None and settings.out is None:
        raise ValueError("a run that starts from --config needs a folder of its own: give --out")
    folder = settings.out or Path("runs") / _folder_name(experiment, settings)
    if settings.resume:
        _refuse_settings(arguments)
        if not (folder / "config.json").exists():
            raise ValueError(f"{folder} holds no run to resume; give its folder with --out")
        experiment = load_text_experiment(folder)
    device = pick_device(settings.device)
    text = unpack(settings.packed) if settings.packed is not None else None
    text = text or read_corpus(experiment.text, settings.data)
    command = shlex.join(["algoformer", "text", "train", *arguments])
    try:
        run = train_with_bar(experiment, text, folder, settings, device, command)
    except KeyboardInterrupt:
        again = f"algoformer text train --resume --out {shlex.quote(str(folder))}"
        print(f"\nstopped; go on with: {again}", file=sys.stderr)
        return 130
    if not run.finished:
        print(f"{folder}: {run.step} of {experiment.training.steps} steps; go on with --resume")
        return 0
    if settings.evaluate:
        say(score(folder, text, device, command=command))
    print(folder)
    return 0


def train_with_bar(
    experiment: TextExperiment, text: PackedText, folder: Path, settings: Any, device: str, command: str
) -> TextRun:
    """Say what is about to happen, and train with a progress bar."""
    print(f"{experiment.program}\n→ {folder} on {device}", file=sys.stderr)
    with training_bars({"training": experiment.training.steps}) as show:
        return train_text(
            experiment,
            folder,
            text=text,
            resume=settings.resume,
            device=device,
            engine=settings.engine,
            max_minutes=settings.max_minutes,
            shard_mb=settings.shard_mb,
            tensorboard=settings.tensorboard,
            command=command,
            progress=partial(show, "training"),
        )


def score(folder: Path, text: PackedText, device: str, *, command: str) -> Table:
    """Scores of a run's best weights on its test splits, also written to its folder."""
    checkpoint = open_text_model(folder, device)
    found = measure(checkpoint, text)
    names = ("step", "valid_loss", "valid_accuracy", "corpus", "commit")
    card = {name: checkpoint.card[name] for name in names if name in checkpoint.card}
    data = {"command": command, **card, "measurements": [one.to_data() for one in found]}
    write_json(folder / "scores.json", data)
    return measurement_table(found)


def _refuse_settings(arguments: list[str]) -> None:
    # a run goes on as it began: options that would change it must not be dropped in silence
    for word in arguments:
        if word.startswith(("--model.", "--text.", "--training.")) or word.split("=")[0] in SETTINGS:
            raise ValueError(f"--resume goes on with the run's own settings; leave out {word}")


def _folder_name(experiment: TextExperiment, settings: Any) -> str:
    corpora, program = "+".join(experiment.text.corpora), Path(settings.program).stem
    return f"{corpora}-{program}-{settings.size}-seed{experiment.training.seed}"
