"""`algoformer translate`: a user's own text through a trained translator, line by line."""

from __future__ import annotations

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
from algoformer.language.cache import Policy
from algoformer.language.early_exit import EarlyExit
from algoformer.language.translate import Decoding, Translator

DESCRIPTION = """Translate text line by line: as many lines come out as go in, in their order.

Empty lines stay empty. A line of several sentences is translated sentence by sentence; --whole-lines is for
models that were trained on paragraphs. What is longer than the model's context is translated part by part.
A line that is not in the encoding is refused with its number, after those before it.

Examples:
  algoformer translate runs/small_de_en-algoformer german.txt > english.txt
  echo "Der Hund schläft." | algoformer translate model.safetensors --beam 1
"""


@dataclass(frozen=True)
class TranslateOptions:
    """Options of `algoformer translate`."""

    checkpoint: CheckpointOption
    file: FileOption = None
    beam: Annotated[int, tyro.conf.arg(help="Sequences that are kept; 1 is greedy.")] = 4
    length_penalty: Annotated[float, tyro.conf.arg(help="0 favors short translations, 1 is neutral.")] = 1.0
    whole_lines: Annotated[
        bool, tyro.conf.arg(help="A line of several sentences in one go, not one by one.")
    ] = False
    batch: Annotated[int, tyro.conf.arg(help="Sentences at a time.")] = 32
    policy: Annotated[Policy, tyro.conf.arg(help="What the cache keeps of a loop: full is exact.")] = "full"
    early_exit: Annotated[
        float | None, tyro.conf.arg(help="Leave the loop when no probability moves by this much.")
    ] = None
    encoding: EncodingOption = "utf-8"
    errors: ErrorsOption = "strict"
    device: Annotated[Literal["auto", "cpu", "cuda", "mps"], tyro.conf.arg(help="Where it runs.")] = "auto"


def run_translate(arguments: list[str]) -> int:
    """Translate line by line."""
    chosen = parse(TranslateOptions, arguments, command="translate", description=DESCRIPTION)
    decoding = Decoding(
        beam=chosen.beam,
        length_penalty=chosen.length_penalty,
        policy=chosen.policy,
        early_exit=None if chosen.early_exit is None else EarlyExit(threshold=chosen.early_exit),
        whole_lines=chosen.whole_lines,
        batch=chosen.batch,
    )
    translator = Translator(open_text_model(chosen.checkpoint, pick_device(chosen.device)), decoding)
    answer_lines(
        chosen.file,
        encoding=chosen.encoding,
        errors=chosen.errors,
        most=decoding.batch * decoding.ahead,
        answer=translator.translate,
    )
    return 0
