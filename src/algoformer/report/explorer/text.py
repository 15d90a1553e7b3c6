"""The page of a text model: it reads typed lines in the browser and classifies or continues them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

from algoformer.model import Program
from algoformer.model.program import default_steps, traced_part
from algoformer.report.explorer.page import ABOUT, ENGINE, RUNNING, page_data, scripts
from algoformer.report.page import Page, render

TEXT_ENGINE = (*ENGINE[:-1], "decode", ENGINE[-1])
"""Scripts that run a text model; the last one starts the Web Worker."""

TEXT_SCRIPTS = (*RUNNING, "cells", "tokenizer", "text")
"""Scripts of a page of text."""

Kind = Literal["classify", "translate", "generate"]
"""The command that uses a text model without a page."""

HINTS: Mapping[Kind, str] = {
    "classify": (
        "Type a line. Each token votes for a class, and the text's answer, first in the row, is the mean of "
        "all votes."
    ),
    "translate": (
        "Type a sentence. The model translates it token by token and always takes the most probable one."
    ),
    "generate": (
        "Type the beginning of a text. The model continues it token by token and always takes the most "
        "probable one."
    ),
}
NEW_TOKENS = 40
"""The most tokens with which a language model continues a line in the page."""

CELLS = (
    " The slider shows what each answer was after fewer iterations. The bar below an answer is its "
    "probability, and the small number is the iteration at which it settled or left the loop."
)
RULES = {
    "": "after all iterations",
    "same:1": "when its answer is the same twice",
    "kl:0.001": "when its distribution has settled",
    "state:0.03": "when its state moves by less than 3 %",
}
"""Stopping rules of the page, as `algoformer generate --stop` reads them, in words."""

LABELS: Mapping[Kind, str] = {"classify": "Text", "translate": "Sentence", "generate": "Beginning"}


@dataclass(frozen=True, kw_only=True)
class Text:
    """The settings with which a text model reads lines and answers them.

    Attributes:
        tokenizer: the tokenizer as the JSON text of a checkpoint.
        lines: lines to begin with.
        longest: the maximum number of tokens of a line.
        plain: whether lines are spelled in NFC with single spaces before they are read.
        lowercase: whether lines are read in lower case.
        only_words: whether signs that belong to no word are left out.
        labels: the names of the classes; None for a model that writes.
        mark: the token after a sentence to translate; None for a model that continues the line itself.
        empty: the token that is read in place of an empty line; None refuses empty lines.
        stops: whether single tokens can leave the loop early.
    """

    tokenizer: str
    lines: tuple[str, ...]
    longest: int
    plain: bool = True
    lowercase: bool = False
    only_words: bool = False
    labels: tuple[str, ...] | None = None
    mark: int | None = None
    empty: int | None = None
    stops: bool = False

    def __post_init__(self) -> None:
        if not self.lines:
            raise ValueError("lines must hold at least one line to begin with, got none")

    @property
    def kind(self) -> Kind:
        """The task of the model: to classify a line, to translate it or to continue it."""
        return "classify" if self.labels else "generate" if self.mark is None else "translate"


def text_page(pack: Mapping[str, Any], program: Program, text: Text, page: Page) -> str:
    """Return one self-contained HTML file in which a text model runs.

    Args:
        pack: the model as `pack_program` returns it, with the names of `language.Trunk` for its weights.
        program: the program of the model.
        text: how the model reads and answers lines.
        page: title, lead, further sections and facts.
    """
    trained = default_steps(program)
    settings = asdict(text) | {
        "tokenizer": json.loads(text.tokenizer),
        "spelling": {name: getattr(text, name) for name in ("plain", "lowercase", "only_words")},
        "new_tokens": NEW_TOKENS,
        "trained": trained,
        "depth": trained,
        "looping": traced_part(program) is not None,
        "lead": page.lead,
    }
    texts = {
        "template": "explorer/page/text.html",
        "hint": HINTS[text.kind] + CELLS,
        "label": LABELS[text.kind],
        "command": text.kind,
        "rules": RULES,
        "about": ABOUT,
        "engine": scripts(TEXT_ENGINE),
        "scripts": scripts(TEXT_SCRIPTS),
        "data": page_data({**pack, **settings}),
        "classifies": text.kind == "classify",
        "no_rule": not text.stops,
        "no_loop": traced_part(program) is None,
    }
    return render(page, texts)
