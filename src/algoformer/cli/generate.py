"""`algoformer generate`: continue a prompt with a language model."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Annotated

import tyro

from algoformer.cli.lines_in_out import DeviceOption, IterationsOption, ModelOption, open_text_model
from algoformer.cli.parse import parse

DESCRIPTION = """Continue a prompt with a language model; text is printed as it is written.

Without --prompt, prompts are read from standard input, one per line.

Examples:
  algoformer generate runs/books-looped-smoke-seed0 --prompt "It was a dark"
  algoformer generate runs/books-looped-smoke-seed0 --prompt "Chapter 1" --temperature 0.7 --top-p 0.9
"""


@dataclass(frozen=True)
class GenerateOptions:
    """Options of `algoformer generate`."""

    model: ModelOption
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
    iterations: IterationsOption = None
    stop: Annotated[
        str | None,
        tyro.conf.arg(help="Leave the loop early for a token: state:0.03, kl:1e-3, same:2 or gate:0.9."),
    ] = None
    device: DeviceOption = "auto"


def run_generate(arguments: list[str]) -> int:
    """Continue prompts."""
    chosen = parse(GenerateOptions, arguments, command="generate", description=DESCRIPTION)
    from algoformer.common.devices import pick_device
    from algoformer.language.sampling import Sampling, Writer
    from algoformer.model.stopping import parse_stopping

    sampling = Sampling(
        max_new_tokens=chosen.max_new_tokens,
        temperature=chosen.temperature,
        top_k=chosen.top_k,
        top_p=chosen.top_p,
        stop=chosen.stop_strings,
        seed=chosen.seed,
        steps=chosen.iterations,
        early_exit=None if chosen.stop is None else parse_stopping(chosen.stop),
    )
    checkpoint = open_text_model(chosen.model, pick_device(chosen.device))
    if checkpoint.data is not None and checkpoint.data.name == "translation":
        raise ValueError(f"{chosen.model} was trained to translate, not to continue text; use translate")
    writer = Writer(checkpoint)
    if chosen.prompt is None and sys.stdin is not None and sys.stdin.isatty():
        print("type a prompt; one line at a time, Ctrl-D to end", file=sys.stderr)
    prompts = [chosen.prompt] if chosen.prompt is not None else (line.rstrip("\n") for line in sys.stdin)
    for prompt in prompts:
        sys.stdout.write(prompt)
        for piece in writer.stream(prompt, sampling):
            sys.stdout.write(_safe(piece))
            sys.stdout.flush()
        sys.stdout.write("\n")
    return 0


def _safe(text: str) -> str:
    """Escape control characters, but keep line breaks and tabs, which are part of a text."""
    from algoformer.common.terminal import printable

    return "".join(one if one in "\n\t" else printable(one) for one in text)
