"""`algoformer generate`: continue a prompt with a language model."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated

import tyro

from algoformer.cli.lines_in_out import LineOptions, answer_lines, print_answer
from algoformer.cli.parse import parse

DESCRIPTION = """Continue a prompt with a language model; text is printed as it is written.

Without --prompt, prompts are read from a file or from standard input, one per line.

Examples:
  algoformer generate runs/books-looped-smoke-seed0 --prompt "It was a dark"
  algoformer generate runs/books-looped-smoke-seed0 --prompt "Chapter 1" --temperature 0.7 --top-p 0.9
"""


@dataclass(frozen=True)
class GenerateOptions(LineOptions):
    """Options of `algoformer generate`."""

    prompt: Annotated[str | None, tyro.conf.arg(help="The text to continue.")] = None
    max_new_tokens: Annotated[int, tyro.conf.arg(help="Maximum number of new tokens.")] = 200
    temperature: Annotated[float, tyro.conf.arg(help="Sampling temperature; 0 is greedy decoding.")] = 0.8
    top_k: Annotated[int | None, tyro.conf.arg(help="Sample from the k most probable tokens.")] = None
    top_p: Annotated[
        float, tyro.conf.arg(help="Sample from the most probable tokens with this total probability.")
    ] = 1.0
    seed: Annotated[int, tyro.conf.arg(help="Seed of the samples.")] = 0
    stop_strings: Annotated[
        tuple[str, ...], tyro.conf.arg(help="End the text before the first of these strings.")
    ] = ()


def run_generate(arguments: list[str]) -> int:
    """Continue prompts."""
    chosen = parse(GenerateOptions, arguments, command="generate", description=DESCRIPTION)
    from algoformer.language.sampling import Sampling, Writer

    sampling = Sampling(
        max_new_tokens=chosen.max_new_tokens,
        temperature=chosen.temperature,
        top_k=chosen.top_k,
        top_p=chosen.top_p,
        stop=chosen.stop_strings,
        seed=chosen.seed,
        steps=chosen.iterations,
        early_exit=chosen.early_exit,
    )
    checkpoint = chosen.load()
    if checkpoint.data is not None and checkpoint.data.name == "translation":
        raise ValueError(f"{chosen.model} was trained to translate, not to continue text; use translate")
    writer = Writer(checkpoint)

    def written(prompt: str) -> Iterator[str]:
        yield prompt
        yield from map(_safe, writer.stream(prompt, sampling))

    if chosen.prompt is not None:
        print_answer(written(chosen.prompt))
    else:
        answer_lines(chosen, lambda lines: map(written, lines), at_once=1, greeting="type a prompt")
    return 0


def _safe(text: str) -> str:
    """Escape control characters, but keep line breaks and tabs, which are part of a text."""
    from algoformer.common.terminal import printable

    return "".join(one if one in "\n\t" else printable(one) for one in text)
