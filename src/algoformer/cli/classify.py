"""`algoformer classify`: the class of each line of a user's own text."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Annotated

import tyro

from algoformer.cli.lines_in_out import (
    DeviceOption,
    EncodingOption,
    ErrorsOption,
    FileOption,
    IterationsOption,
    ModelOption,
    answer_lines,
    open_text_model,
)
from algoformer.cli.parse import parse

DESCRIPTION = """Print the class of each line, a tab, and its probability.

Every line gets one of the classes the model was trained with, also a line that fits none of them;
--classes lists them. An empty line gives an empty line. Lines longer than the model's context are classified
by their beginning, and their number is printed to standard error.

Examples:
  algoformer classify dbpedia texts.txt
  echo "They lost the match." | algoformer classify dbpedia
"""


@dataclass(frozen=True)
class ClassifyOptions:
    """Options of `algoformer classify`."""

    model: ModelOption
    file: FileOption = None
    iterations: IterationsOption = None
    classes: Annotated[bool, tyro.conf.arg(help="List the classes of the model and exit.")] = False
    batch_size: Annotated[int, tyro.conf.arg(help="Lines in a batch.")] = 64
    encoding: EncodingOption = "utf-8"
    errors: ErrorsOption = "strict"
    device: DeviceOption = "auto"


def run_classify(arguments: list[str]) -> int:
    """Classify line by line."""
    chosen = parse(ClassifyOptions, arguments, command="classify", description=DESCRIPTION)
    from algoformer.common.devices import pick_device
    from algoformer.common.terminal import printable
    from algoformer.language.classify import Classifier

    checkpoint = open_text_model(chosen.model, pick_device(chosen.device))
    classifier = Classifier(checkpoint, batch=chosen.batch_size, steps=chosen.iterations)
    if chosen.classes:
        print("\n".join(map(printable, classifier.model.labels)))
        return 0
    shortened = 0

    def answer(lines: Iterable[str]) -> Iterator[str]:
        nonlocal shortened
        for label in classifier.classify(lines):
            shortened += label is not None and label.shortened
            yield "" if label is None else f"{label.name}\t{label.probability:.4f}"

    answer_lines(
        chosen.file,
        encoding=chosen.encoding,
        errors=chosen.errors,
        most=classifier.batch * classifier.ahead,
        answer=answer,
        greeting="type text to classify",
    )
    if shortened:
        words = "1 line was" if shortened == 1 else f"{shortened} lines were"
        context = classifier.model.trunk.context
        print(f"{words} longer than {context} tokens and classified by the beginning", file=sys.stderr)
    return 0
