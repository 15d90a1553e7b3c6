"""The explorer page of a text model, which reads typed lines in the browser."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from algoformer.language.checkpoint import TextModelFile
from algoformer.language.classifier import TextClassifier
from algoformer.language.lines import prepared
from algoformer.language.search import generate
from algoformer.language.token_model import TokenModel
from algoformer.language.tokenizer import EOS, TRANSLATE, Tokenizer
from algoformer.language.translate import is_translator
from algoformer.language.trunk import TextModel
from algoformer.model.program import Loop, Program, default_steps, traced_part
from algoformer.model.stopping import SameAnswer
from algoformer.report import Page
from algoformer.report.explorer import Text, pack_program, text_page
from algoformer.report.explorer.pack import INSTEAD
from algoformer.report.explorer.text import NEW_TOKENS
from algoformer.trace import Unroll

EXAMPLES = {
    "books": ("The old man looked at", "In the morning the king said to", "Once upon a time there was"),
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


def page_of_text(checkpoint: TextModelFile, name: str, lines: Sequence[str]) -> tuple[str, str]:
    """Return the page of a classifier, translator or language model and its conclusion in words."""
    from algoformer.cli.explore_pages import facts_of

    lines = lines or EXAMPLES.get(name, ())
    if not lines:
        raise ValueError(f"a page of the text model {name} needs lines to show; give them with --text LINE")
    model: Any = checkpoint.model.eval()
    text = _text(checkpoint, tuple(lines))
    pack = pack_text(model, instead=f"use this model with algoformer {text.kind}")
    tokenizer = Tokenizer.from_json(text.tokenizer)
    if len(tokenizer) != model.vocabulary:
        raise ValueError(f"the tokenizer has {len(tokenizer)} tokens, the model {model.vocabulary}")
    encoded = [_encoded(line, text, tokenizer) for line in lines]
    lead = _classified(model, encoded) if text.labels else _written(model, text, encoded)
    does = {"classify": "classifies", "translate": "translates", "generate": "continues"}[text.kind]
    page = Page(title=f"{name} {does} what you type", lead=lead, facts=facts_of(model, pack))
    return text_page(pack, model.program, text, page), lead


def pack_text(model: TextModel, *, instead: str = INSTEAD) -> dict[str, Any]:
    """Return a text model as plain JSON types; refuses what `pack_program` refuses."""
    trunk = model.trunk
    sizes = {
        "vocabulary": trunk.vocabulary,
        "context": trunk.context,
        "width": trunk.width,
        "prefix_lm": isinstance(model, TokenModel) and model.prefix_lm,
        "end": EOS,
    }
    dtype = trunk.embedding.weight.dtype
    return {**pack_program(model.program, model.state_dict(), dtype, sizes, instead=instead), "text": True}


def _text(checkpoint: TextModelFile, lines: tuple[str, ...]) -> Text:
    model: Any = checkpoint.model
    spelling: dict[str, Any] = {key: checkpoint.card.get(key) is True for key in ("lowercase", "only_words")}
    tokenizer = checkpoint.tokenizer
    if isinstance(model, TextClassifier):
        longest, labels = model.context, model.labels
        return Text(tokenizer=tokenizer, lines=lines, longest=longest, labels=labels, **spelling)
    translates = is_translator(checkpoint)
    return Text(
        tokenizer=tokenizer,
        lines=lines,
        longest=(model.context - 1) // 2 if translates else model.context - 1,
        plain=translates,
        lowercase=translates and spelling["lowercase"],
        mark=TRANSLATE if translates else None,
        empty=None if translates else EOS,
        stops=_stops(model.program),
    )


def _stops(program: Program) -> bool:
    """Return whether single tokens can leave the traced loop, which must be a plain `Loop`."""
    index = traced_part(program)
    return index is not None and type(program.parts[index]) is Loop


def _encoded(line: str, text: Text, tokenizer: Tokenizer) -> list[int]:
    spelled = prepared(line, lowercase=text.lowercase, only_words=text.only_words) if text.plain else line
    ids = tokenizer.encode(spelled)
    if not ids and text.empty is not None:
        return [text.empty]
    if not 1 <= len(ids) <= text.longest:
        raise ValueError(f"a line must have 1 to {text.longest} tokens, got {len(ids)}: {line[:40]!r}")
    return ids


@torch.no_grad()
def _classified(model: TextClassifier, encoded: Sequence[list[int]]) -> str:
    trained, same = default_steps(model.program), 0
    for ids in encoded:
        given = torch.tensor([ids])
        scores = model(given, torch.ones_like(given, dtype=torch.bool), Unroll(steps=trained))[:, 0]
        same += int(scores[0].argmax() == scores[-1].argmax())
    if trained == 1:
        return f"The model classifies a text of up to {model.context} tokens in one pass."
    return f"On {_lines(same, len(encoded))} the class after one iteration is the class after all {trained}."


def _written(model: TokenModel, text: Text, encoded: Sequence[list[int]]) -> str:
    trained, same, used, tokens = default_steps(model.program), 0, 0.0, 0
    if not text.stops:
        return "The model writes token by token; single tokens cannot leave its program early."
    for ids in encoded:
        given = ids if text.mark is None else [*ids, text.mark]
        most = NEW_TOKENS if text.mark is None else 2 * len(given) + 8
        most = min(most, model.context - len(given) + 1)
        whole, early = (
            generate(model, torch.tensor([given]), eos_id=EOS, max_new_tokens=most, early_exit=rule)
            for rule in (None, SameAnswer())
        )
        same += int(early.texts() == whole.texts())
        used += early.iterations * int(early.lengths.sum())
        tokens += int(early.lengths.sum())
    return (
        "If a token leaves the loop when its answer is the same twice, it takes "
        f"{used / tokens:.1f} of {trained} iterations on average; "
        f"on {_lines(same, len(encoded))} the text is the same as with all iterations."
    )


def _lines(count: int, all_lines: int) -> str:
    return f"{count} of {all_lines} line{'' if all_lines == 1 else 's'}"
