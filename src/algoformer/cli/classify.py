"""`algoformer classify`: the class of each line of a user's own text."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Annotated, Literal

import tyro

from algoformer.cli.parse import parse
from algoformer.cli.text_files import (
    CheckpointOption,
    EncodingOption,
    ErrorsOption,
    FileOption,
    answer_lines,
    open_text_model,
)
from algoformer.common.devices import pick_device
from algoformer.language.classify import Classifying

DESCRIPTION = """Name the class of each line: its label, a tab, its probability.

An empty line gives an empty line. Lines longer than the model's context are judged by their beginning, and
a note on standard error says how many there were.

Examples:
  algoformer classify runs/small_topics-algoformer texts.txt
  echo "They lost the match." | algoformer classify model.safetensors
"""


@dataclass(frozen=True)
class ClassifyOptions:
    """Options of `algoformer classify`."""

    checkpoint: CheckpointOption
    file: FileOption = None
    batch: Annotated[int, tyro.conf.arg(help="Lines at a time.")] = 64
    encoding: EncodingOption = "utf-8"
    errors: ErrorsOption = "strict"
    device: Annotated[Literal["auto", "cpu", "cuda", "mps"], tyro.conf.arg(help="Where it runs.")] = "auto"


def run_classify(arguments: list[str]) -> int:
    """Classify line by line."""
    chosen = parse(ClassifyOptions, arguments, command="classify", description=DESCRIPTION)
    checkpoint = open_text_model(chosen.checkpoint, pick_device(chosen.device))
    classifying = Classifying(checkpoint, batch=chosen.batch)
    shortened = 0

    def answer(lines: Iterable[str]) -> Iterator[str]:
        nonlocal shortened
        for label in classifying.classify(lines):
            shortened += label is not None and label.shortened
            yield "" if label is None else f"{label.name}\t{label.probability:.4f}"

    answer_lines(
        chosen.file,
        encoding=chosen.encoding,
        errors=chosen.errors,
        most=classifying.batch * classifying.ahead,
        answer=answer,
    )
    if shortened:
        most = classifying.model.trunk.context
        words = "1 line was" if shortened == 1 else f"{shortened} lines were"
        print(f"{words} judged by the first {most} tokens", file=sys.stderr)
    return 0
