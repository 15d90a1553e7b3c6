"""Pages about models: cards of the shipped checkpoints, and diagrams of the named programs."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from pathlib import Path

from algoformer.cli.info import card_lines
from algoformer.model import presets
from algoformer.model.algoformer import AlgoFormer
from algoformer.model.program import Program
from algoformer.report.diagram import diagram
from algoformer.shipped import shipped_names
from algoformer.training import load

ROOT = Path(__file__).parents[2]
ABOUT = {
    "linear": (
        "Linear regression in context",
        "Reads 40 pairs (x, y) in 20 dimensions and predicts the next y. Its one-layer loop refines the "
        "answer at every iteration. [What happens inside the loop](../inside-the-loop.md) asks which "
        "algorithm it runs.",
        'model = af.load("linear").model',
    ),
    "representation": (
        "Regression with representation",
        "The labels are linear in a fixed nonlinear representation of x, which the model has learned.",
        'model = af.load("representation").model',
    ),
    "sudoku": (
        "9 × 9 Sudoku",
        "One layer that runs 32 times or more fills all cells of a board at once, without search. It solves "
        "more boards the longer it runs. [Its training](../results/puzzles/README.md) compares it with 32 "
        "distinct layers.",
        'model = af.load("sudoku").model',
    ),
    "tatoeba_de_en": (
        "German to English translation",
        "Trained on short everyday sentences, and unreliable on everything else: names, numbers, technical "
        "terms, long sentences. [Text models](../text-models.md) shows how to use it and how to train your "
        "own.",
        "algoformer translate tatoeba_de_en german.txt",
    ),
    "dbpedia": (
        "Topics of encyclopedia entries",
        "Sorts descriptions into the 14 classes of DBPedia. There is no class for anything else. "
        "[Text models](../text-models.md) shows how to use it and how to train your own.",
        "algoformer classify dbpedia entries.txt",
    ),
    "books": (
        "English prose",
        "Continues a text in the manner of old books. Its sentences are mostly English, and make little "
        "sense together. It is left out of the wheel: use a checkout of the repository. "
        "[Text models](../text-models.md) shows how to use it and how to train your own.",
        'algoformer generate books --prompt "The old man looked at"',
    ),
}
"""Title, description and first use of each shipped model."""

FAMILIES = {
    "The paper's models, and two beyond them": ("standard", "looped", "algoformer", "nested", "two_loops"),
    "Published loop models": tuple(presets.LOOP_MODELS),
}
"""Named programs in the order of the page of diagrams."""


def model_pages() -> Iterator[tuple[str, str]]:
    """Yield the place and the text of the cards of shipped models."""
    names = list(shipped_names())
    titles = {name: ABOUT.get(name, (name, "", ""))[0] for name in names}
    rows = [f"| [`{name}`]({name}.md) | {titles[name]} |" for name in names]
    table = "\n".join(["| model | what it does |", "|---|---|", *rows])
    intro = "`af.load(NAME)` loads one of these. `algoformer info NAME` prints its card."
    yield "models/index.md", f"# Shipped models\n\n{intro}\n\n{table}\n"
    for name in names:
        yield f"models/{name}.md", _card(name)


def _card(name: str) -> str:
    checkpoint = load(name)
    title, words, use = ABOUT.get(name, (name, "", f'model = af.load("{name}").model'))
    language = "console" if use.startswith("algoformer") else "python"
    first = "$ " if language == "console" else "import algoformer as af\n\n"
    facts = [re.split(r"\s{2,}", line, maxsplit=1) for line in card_lines(checkpoint)]
    rows = [f"| {_cell(label)} | {_cell(value)} |" for label, value in facts]
    table = "\n".join(["| | |", "|---|---|", *rows])
    use = f"```{language}\n{first}{use}\n```"
    explore = ""
    if isinstance(checkpoint.model, AlgoFormer):
        page = "[page in which it runs](../explorer.md)"
        explore = f"\n`algoformer explore {name}` writes a {page}.\n"
    drawing = _drawing(checkpoint.model.program)
    return f"# {title}: `{name}`\n\n{words}\n\n{use}\n{explore}\n{drawing}\n## Card\n\n{table}\n"


def _cell(words: str) -> str:
    escaped = re.sub(r"([|*_`<\[\]\\])", r"\\\1", words.strip())
    return escaped.replace("\n", " ")


def program_page() -> str:
    """Return the page with a diagram of every named program."""
    parts = [
        "# Program diagrams\n\nEvery named program of `algoformer.programs` at its default sizes. "
        "`algoformer.report.diagram.diagram(program)` draws your own. "
        "[Published loop models](loop-models.md) describes those from the literature."
    ]
    for family, names in FAMILIES.items():
        parts.append(f"## {family}")
        for name in names:
            build = getattr(presets, name)
            about = (inspect.getdoc(build) or "").split("\n\n")[0].replace("\n", " ")
            program = build()
            parts.append(f"### `{name}`\n\n{about}\n{_drawing(program)}\n```text\n{program}\n```")
    return "\n\n".join(parts) + "\n"


def _drawing(program: Program) -> str:
    svg = diagram(program).replace("\n", " ")
    return f'\n```{{raw}} html\n<div class="program">{svg}</div>\n```\n'
