"""`algoformer text export`: a trained model of text as one small file with its card, to keep and to share."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro

from algoformer.cli.new_file import refuse_existing
from algoformer.cli.parse import parse
from algoformer.cli.say import say
from algoformer.cli.text_corpus import read_corpus
from algoformer.cli.text_files import open_text_model
from algoformer.common.devices import pick_device
from algoformer.evaluation import Table
from algoformer.language.packing import unpack
from algoformer.language.training import TextExperiment
from algoformer.language.training.export import export_text
from algoformer.language.training.measure import Measurement
from algoformer.language.translate import Decoding

DESCRIPTION = """Write the best weights of a run on text to one file, in half precision, with measured facts:
task, program, steps, scores on whole test sets as it is stored, licence and attribution of the text.

Example: algoformer text export runs/tatoeba checkpoints/tatoeba_de_en.safetensors --packed tatoeba.packed
"""


@dataclass(frozen=True)
class TextExportOptions:
    """Options of `algoformer text export`."""

    run: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(help="A run folder or a checkpoint file.")]
    file: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(help="What to write.")]
    half: Annotated[bool, tyro.conf.arg(help="Store in half precision; measured as it will be read.")] = True
    packed: Annotated[Path | None, tyro.conf.arg(help="The text it was trained on, packed.")] = None
    data: Annotated[Path | None, tyro.conf.arg(help="Or the folder with the sets of text, or hub.")] = None
    device: Annotated[Literal["auto", "cpu", "cuda", "mps"], tyro.conf.arg(help="Where to measure.")] = "auto"


def run_text_export(arguments: list[str]) -> int:
    """Measure the model as it will be stored, and write it."""
    chosen = parse(TextExportOptions, arguments, command="text export", description=DESCRIPTION)
    refuse_existing(chosen.file)
    device = pick_device(chosen.device)
    checkpoint = open_text_model(chosen.run, device)
    if chosen.packed is not None:
        text = unpack(chosen.packed)
    else:
        settings = TextExperiment.from_data(checkpoint.card.get("experiment")).text
        text = read_corpus(settings, chosen.data)
    found = export_text(
        chosen.file,
        checkpoint,
        text,
        half=chosen.half,
        decoding=Decoding(batch=32 if device == "cpu" else 256),
        command=shlex.join(["algoformer", "text", "export", *arguments]),
    )
    say(measurement_table(found))
    print(f"{chosen.file}: {chosen.file.stat().st_size / 1e6:.1f} MB")
    return 0


def measurement_table(found: list[Measurement]) -> Table:
    """A row for each score."""
    rows = tuple(
        (one.split, one.rows, name, number.value, f"{number.low:.2f} – {number.high:.2f}")
        for one in found
        for name, number in one.scores.items()
    )
    return Table(columns=("split", "texts", "score", "value", "95 %"), rows=rows)
