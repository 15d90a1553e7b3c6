"""`algoformer classify`: the class of each line of a user's own text."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass

from algoformer.cli.lines_in_out import LineOptions, answer_lines
from algoformer.cli.parse import parse
from algoformer.common.terminal import printable

DESCRIPTION = """Print the class of each line, a tab, and its probability.

Every line gets one of the classes the model was trained with, even if it fits none of them. --classes lists
them. An empty line gives an empty line. Lines longer than the model's context are classified by their
beginning, and their number is printed to standard error.

Examples:
  algoformer classify dbpedia texts.txt
  echo "They lost the match." | algoformer classify dbpedia
"""


@dataclass(frozen=True)
class ClassifyOptions(LineOptions):
    """Options of `algoformer classify`."""

    classes: bool = False  # List the classes of the model and exit.
    batch_size: int = 64  # Lines in a batch.


def run_classify(arguments: list[str]) -> int:
    """Classify line by line."""
    chosen = parse(ClassifyOptions, arguments, command="classify", description=DESCRIPTION)
    from algoformer.language.classify import Classifier

    classifier = Classifier(
        chosen.load(), batch=chosen.batch_size, steps=chosen.iterations, early_exit=chosen.early_exit
    )
    if chosen.classes:
        print("\n".join(map(printable, classifier.model.labels)))
        return 0
    shortened = 0

    def answer(lines: list[str]) -> Iterator[tuple[str]]:
        nonlocal shortened
        for label in classifier.classify(lines):
            shortened += label is not None and label.shortened
            yield ("" if label is None else f"{label.name}\t{label.probability:.4f}",)

    at_once = classifier.batch * classifier.ahead
    answer_lines(chosen, answer, at_once=at_once, greeting="type text to classify")
    if shortened:
        words = "1 line was" if shortened == 1 else f"{shortened} lines were"
        context = classifier.model.context
        print(f"{words} longer than {context} tokens and classified by the beginning", file=sys.stderr)
    return 0
