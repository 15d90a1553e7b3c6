"""`algoformer generate`: continue a prompt with a language model."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from algoformer.cli.lines_in_out import LineOptions, answer_lines, print_answer
from algoformer.cli.parse import parse
from algoformer.common.terminal import printable

DESCRIPTION = """Continue a prompt with a language model; text is printed as it is written.

Without --prompt, prompts are read from a file or from standard input, one per line.

Examples:
  algoformer generate books --prompt "The old man" --temperature 0.7
  algoformer generate runs/books-looped-smoke-seed0 --prompt "Chapter 1"
"""


@dataclass(frozen=True)
class GenerateOptions(LineOptions):
    """Options of `algoformer generate`."""

    prompt: str | None = None  # The text to continue.
    max_new_tokens: int = 200  # Maximum number of new tokens.
    temperature: float = 0.8  # Sampling temperature; 0 is greedy decoding.
    top_k: int | None = None  # Sample from the k most probable tokens.
    top_p: float = 1.0  # Sample from the most probable tokens with this total probability.
    seed: int = 0  # Seed of the samples.
    stop_strings: tuple[str, ...] = ()  # End the text before the first of these strings.


def run_generate(arguments: list[str]) -> int:
    """Continue prompts."""
    chosen = parse(GenerateOptions, arguments, command="generate", description=DESCRIPTION)
    from algoformer.language.sampling import Sampling, Writer

    if chosen.prompt is not None and chosen.file is not None:
        raise ValueError(f"--prompt stands in place of a file, got both it and {chosen.file}; leave one out")
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
        yield _safe(prompt)
        yield from map(_safe, writer.stream(prompt, sampling))

    if chosen.prompt is not None:
        print_answer(written(chosen.prompt))
    else:
        answer_lines(chosen, lambda lines: map(written, lines), at_once=1, greeting="type a prompt")
    return 0


def _safe(text: str) -> str:
    """Escape control characters, but keep line breaks and tabs, which are part of a text."""
    return "".join(one if one in "\n\t" else printable(one) for one in text)
