"""The explorer page of a text model: every token with its answer after each iteration of the loop."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from algoformer.checkpoint import Checkpoint
from algoformer.language.batches import source_batch
from algoformer.language.classifier import TextClassifier
from algoformer.language.lines import prepared
from algoformer.language.search import generate
from algoformer.language.tokenizer import EOS, SPECIALS, Tokenizer
from algoformer.language.tokens import TokenTable
from algoformer.language.translate import is_translator
from algoformer.language.trunk import token_context
from algoformer.model.program import default_steps
from algoformer.report import Page
from algoformer.report.explorer.answers import Answers, answers_of, answers_page
from algoformer.trace import Unroll

BEYOND = 2
"""Multiple of the trained depth that the page shows."""

EXAMPLES = {
    "dbpedia": (
        "The Danube is a river in Central and Eastern Europe that flows into the Black Sea.",
        "Abbey Road is the eleventh studio album by the English rock band the Beatles.",
        "He played as a goalkeeper for the national football team from 1982 to 1994.",
    ),
    "tatoeba_de_en": (
        "Ich habe gestern einen Brief von meiner Schwester bekommen.",
        "Wo ist der Bahnhof?",
        "Der Hund schläft unter dem Tisch.",
    ),
}
"""Lines shown for shipped models when none are given."""

VOTES = (
    "Each token votes for a class, and the text's answer, first in the row, is the mean of all votes. "
    "The answers were computed in Python for these lines. Choose a token to see all its iterations."
)
WORDS = (
    "Each token of the model's text is shown after the token before it, which is written above it. The text "
    "was generated with the trained number of iterations; the page shows what the model would write at "
    "each position after fewer or more. The answers were computed in Python for these lines."
)


def text_page(checkpoint: Checkpoint, name: str, lines: Sequence[str]) -> tuple[str, str]:
    """Return the page of a text model and its conclusion in words.

    Args:
        checkpoint: a classifier, a translator or a language model with its tokenizer.
        name: the name of the model.
        lines: the texts to show.

    Raises:
        ValueError: there is no line, or one has no words or too many.
    """
    lines = tuple(lines) or EXAMPLES.get(name, ())
    if not lines:
        raise ValueError(f"a page of the text model {name} needs lines to show; give them with --text LINE")
    if not checkpoint.tokenizer:
        raise ValueError("the checkpoint has no tokenizer, so it cannot read text")
    model: Any = checkpoint.model.eval()
    most = model.trunk.context // 2 - 1
    tokenizer, trained = Tokenizer.from_json(checkpoint.tokenizer), default_steps(model.program)
    spelling = {key: checkpoint.card.get(key) is True for key in ("lowercase", "only_words")}
    texts = [prepared(line, **spelling) for line in lines]
    make = _votes if isinstance(model, TextClassifier) else _next_tokens
    translates = is_translator(checkpoint)
    shown = []
    for line, text in zip(lines, texts, strict=True):
        ids = tokenizer.encode(text)
        if not 1 <= len(ids) <= most:
            raise ValueError(f"a line must have 1 to {most} tokens, got {len(ids)}: {line[:40]!r}")
        shown.append(make(model, tokenizer, ids, title=line, steps=BEYOND * trained, translates=translates))
    lead = _conclusion(shown, trained)
    page = Page(title=f"{name}: answers after every iteration", lead=lead)
    hint = VOTES if isinstance(model, TextClassifier) else WORDS
    return answers_page(page, shown, trained=trained, hint=hint), lead


@torch.no_grad()
def _votes(
    model: TextClassifier, tokenizer: Tokenizer, ids: list[int], *, title: str, steps: int, translates: bool
) -> Answers:
    """Return the class of a text and of each of its tokens; the text's scores are the mean of its tokens'."""
    given = torch.tensor([ids])
    states = model.trunk(given, Unroll(steps=steps), token_context(torch.ones_like(given, dtype=torch.bool)))
    votes = model.head(states)[:, 0]
    scores = torch.cat([votes.mean(dim=1, keepdim=True), votes], dim=1)
    return answers_of(scores, model.labels, title=title, names=["the text", *_pieces(tokenizer, ids)])


@torch.no_grad()
def _next_tokens(
    model: Any, tokenizer: Tokenizer, ids: list[int], *, title: str, steps: int, translates: bool
) -> Answers:
    """Return the next token at each position of a translation, or of the line itself for a language model."""
    prefix = None
    start, given = 0, torch.tensor([ids])
    if translates:
        source = source_batch(TokenTable.of([ids]), np.array([0]))
        start, longest = len(ids), min(2 * len(ids) + 8, model.trunk.context - len(ids) - 1)
        found = generate(model, source.ids, source.mask, eos_id=EOS, max_new_tokens=longest)
        given = torch.cat([source.ids, torch.tensor([found.texts()[0]], dtype=torch.int64)], dim=1)
        prefix = torch.tensor([start + 1])
    scores: Tensor = model(given, Unroll(steps=steps), prefix=prefix)[:, 0, start:]
    used = sorted(set(scores.argmax(dim=-1).flatten().tolist()))
    labels = dict(zip(used, _pieces(tokenizer, used), strict=True))
    names = _pieces(tokenizer, given[0, start:].tolist())
    return answers_of(scores, labels, title=title, names=names)


def _pieces(tokenizer: Tokenizer, ids: Sequence[int]) -> list[str]:
    """Return the text of each token; special tokens by their names, spaces as marks."""
    return [
        SPECIALS[token]
        if token < len(SPECIALS)
        else tokenizer.piece(token).decode("utf-8", "replace").replace(" ", "␣")
        for token in ids
    ]


def _conclusion(shown: Sequence[Answers], trained: int) -> str:
    exits = [exit for one in shown for exit in one.exits]
    early, first = sum(exit < trained for exit in exits), sum(exit == 1 for exit in exits)
    late = sum(exit > trained for exit in exits)
    text = f"{early} of {len(exits)} answers are settled before the last of {trained} trained iterations, "
    text += f"{first} of them after the first. When the loop runs on to {BEYOND * trained}, "
    changes = "1 answer still changes" if late == 1 else f"{late or 'no'} answers still change"
    return text + f"{changes}."
