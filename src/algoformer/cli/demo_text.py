"""Text that the shipped language model writes, for the page and the terminal of `algoformer demo`."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from dataclasses import replace

from algoformer.checkpoint import load_checkpoint
from algoformer.common.terminal import filled, printable
from algoformer.language.sampling import Sampling, Writer
from algoformer.model.program import default_steps
from algoformer.report import Section
from algoformer.shipped import shipped_names, shipped_path

LANGUAGE_MODEL = "books"
"""The shipped language model that writes a few lines."""

PROMPT = "The old man looked at"
SAMPLING = Sampling(max_new_tokens=60, temperature=0.7, top_p=0.95, seed=1)


def written_by_depth() -> dict[int, str]:
    """Return a text of the shipped language model for several numbers of iterations, on one line each.

    The prompt and the random draws are the same for all. There is no text where the model or its tokenizer's
    package is missing.
    """
    if LANGUAGE_MODEL not in shipped_names() or importlib.util.find_spec("tokenizers") is None:
        return {}
    writer = Writer(load_checkpoint(shipped_path(LANGUAGE_MODEL)))
    trained = default_steps(writer.model.program)
    depths = sorted({1, max(1, trained // 2), trained})
    return {
        depth: one_line(PROMPT + writer.write(PROMPT, replace(SAMPLING, steps=depth))) for depth in depths
    }


def one_line(text: str) -> str:
    """Return a text without line breaks, in which no character can move the cursor."""
    return printable(" ".join(text.split()))


def text_section(texts: Mapping[int, str]) -> Section:
    """Return the section of the page that shows the texts."""
    return Section(
        title="A loop that writes",
        text=(
            f"The shipped language model {LANGUAGE_MODEL} was trained on English books, with "
            f"{max(texts)} iterations of its loop. It continues “{PROMPT}” (temperature "
            f"{SAMPLING.temperature}, top-p {SAMPLING.top_p}, seed {SAMPLING.seed}):",
            *(f"After {_iterations(depth)}: {text} …" for depth, text in texts.items()),
        ),
    )


def text_lines(texts: Mapping[int, str]) -> list[str]:
    """Return the texts as paragraphs for a terminal."""
    return [filled(f"{LANGUAGE_MODEL} after {_iterations(depth)}: {text} …") for depth, text in texts.items()]


def _iterations(depth: int) -> str:
    return f"{depth} iteration" if depth == 1 else f"{depth} iterations"
