"""`algoformer translate`: a user's own text through a trained translator, line by line."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from algoformer.cli.lines_in_out import LineOptions, answer_lines
from algoformer.cli.parse import parse

DESCRIPTION = """Translate text line by line: one line out for each line in, in the same order.

A line of several sentences is translated sentence by sentence; --whole-lines is for models trained on
paragraphs. A small model translates the kind of text it was trained on; for other text it writes fluent
nonsense. A line whose score, the mean log-probability per token, is below --flag-below is reported on
standard error.

Examples:
  algoformer translate tatoeba_de_en german.txt > english.txt
  echo "Der Hund schläft." | algoformer translate tatoeba_de_en --beam 1
  algoformer translate tatoeba_de_en german.txt --iterations 8 --scores
"""


@dataclass(frozen=True)
class TranslateOptions(LineOptions):
    """Options of `algoformer translate`."""

    beam: int = 4  # Beam width; 1 is greedy search.
    length_penalty: float = 1.0  # 0 favors short translations, 1 compares mean log-probabilities.
    scores: bool = False  # Print each line's score and a tab before it.
    flag_below: float = -0.5  # Report lines with a lower score.
    whole_lines: bool = False  # Translate a line of several sentences at once.
    batch_size: int = 32  # Sentences in a batch.
    cache: Literal["full", "last"] = (
        "full"  # KV cache of all iterations of a loop (exact), or of the last one.
    )


def run_translate(arguments: list[str]) -> int:
    """Translate line by line."""
    chosen = parse(TranslateOptions, arguments, command="translate", description=DESCRIPTION)
    from algoformer.language.translate import Decoding, Translator

    decoding = Decoding(
        beam=chosen.beam,
        length_penalty=chosen.length_penalty,
        policy=chosen.cache,
        steps=chosen.iterations,
        early_exit=chosen.early_exit,
        whole_lines=chosen.whole_lines,
        batch=chosen.batch_size,
        flag_below=chosen.flag_below,
    )
    translator = Translator(chosen.load(), decoding)
    flagged: list[int] = []
    number = 0

    def answer(lines: list[str]) -> Iterator[tuple[str]]:
        nonlocal number
        for translation in translator.translations(lines):
            number += 1
            if translation.flagged:
                flagged.append(number)
            yield (f"{translation.score:.3f}\t{translation.text}" if chosen.scores else translation.text,)

    at_once = decoding.batch * decoding.ahead
    answer_lines(chosen, answer, at_once=at_once, greeting="type text to translate")
    if flagged:
        some = ", ".join(map(str, flagged[:10])) + (", ..." if len(flagged) > 10 else "")
        words = "1 line is" if len(flagged) == 1 else f"{len(flagged)} lines are"
        wrong = f"probably wrong, with a score below {chosen.flag_below:g}"
        print(f"{words} {wrong}: line {some}", file=sys.stderr)
    return 0
