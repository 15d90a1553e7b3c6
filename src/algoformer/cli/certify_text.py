"""The loop of a model of text as a map, for `algoformer certify`."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from algoformer.data.files import read_lines
from algoformer.insight.instrument import LoopMap
from algoformer.insight.probabilities import ProbabilityCertificate, certify_probabilities
from algoformer.language.classifier import TextClassifier, masked_mean
from algoformer.language.lines import prepared
from algoformer.language.scores import bleu
from algoformer.language.token_model import TokenModel
from algoformer.language.tokenizer import TRANSLATE, Tokenizer
from algoformer.language.translate import Decoding, Translator, is_translator
from algoformer.language.trunk import token_context
from algoformer.training import Checkpoint

MOST_TOKENS = 64
"""Texts are cut after this many tokens."""

BLEU_AT = (0.25, 0.5, 1, 2, 5, 10)
"""Depths at which translations are scored, in multiples of the trained depth; the farthest is added."""


def certify_text(
    checkpoint: Checkpoint, texts: Path | None, *, reach: int, most: int, references: Path | None = None
) -> ProbabilityCertificate:
    """Certify a translator, language model or classifier on the lines of a file.

    A translator's probabilities are read at the first word of the translation and, with a file of references,
    one for each line, at every word of them; translations are then scored over depth too. A language model's
    are read at every token, a classifier's once.
    """
    if texts is None:
        raise ValueError("a model of text needs texts to run on; give a file with --texts, one text a line")
    lines = _lines(texts, most, "--texts")
    wanted = None if references is None else _lines(references, most, "--references")
    if wanted is not None and not is_translator(checkpoint):
        raise ValueError("--references are for a translator; leave them out for another model of text")
    if wanted is not None and len(wanted) != len(lines):
        raise ValueError(f"--references must have a line for each text, got {len(wanted)} for {len(lines)}")
    setting = {"texts": len(lines)}
    found = certify_probabilities(_loops(checkpoint, lines, wanted), reach=reach, setting=setting)
    return found if wanted is None else replace(found, bleu=_bleu(checkpoint, lines, wanted, found))


def _lines(path: Path, most: int, option: str) -> list[str]:
    return [line for line in read_lines(path, option) if line.strip()][:most]


def _bleu(
    checkpoint: Checkpoint, lines: list[str], wanted: list[str], found: ProbabilityCertificate
) -> tuple[tuple[int, float, float, float], ...]:
    depths = sorted({*(max(1, round(found.trained * share)) for share in BLEU_AT), found.far})
    scored = []
    for depth in depths:
        translator = Translator(checkpoint, Decoding(beam=1, steps=depth, whole_lines=True))
        score = bleu(list(translator.translate(lines)), wanted)
        scored.append((depth, score.value, score.low, score.high))
    return tuple(scored)


def _loops(
    checkpoint: Checkpoint, lines: list[str], wanted: list[str] | None
) -> Iterator[tuple[LoopMap, LoopMap]]:
    tokenizer = Tokenizer.from_json(checkpoint.tokenizer)
    single = copy.deepcopy(checkpoint.model).eval().requires_grad_(False)
    double = copy.deepcopy(single).double()
    spelling = {name: checkpoint.card.get(name) is True for name in ("lowercase", "only_words")}
    for number, line in enumerate(lines):
        tokens, given = tokenizer.encode(prepared(line, **spelling))[:MOST_TOKENS], 1
        if isinstance(single, TokenModel) and is_translator(checkpoint):
            tokens, given = [*tokens, TRANSLATE], len(tokens) + 1
            if wanted is not None:  # the reference's own words are given one after another
                tokens += tokenizer.encode(prepared(wanted[number], **spelling))[:MOST_TOKENS]
        input_ids = torch.tensor([tokens[: checkpoint.model.context]])
        yield _loop_map(single, input_ids, given), _loop_map(double, input_ids, given)


def _loop_map(model: Any, input_ids: Tensor, given: int) -> LoopMap:
    """Return the loop on one text; probabilities are read at its tokens from the last given one on."""
    tokens = input_ids.shape[1]
    everything = torch.ones_like(input_ids, dtype=torch.bool)
    is_classifier = isinstance(model, TextClassifier)
    prefix = torch.tensor([given])
    context = token_context(everything) if is_classifier else model.context_of(input_ids, None, prefix)
    loop, here = model.body.traced_loop(context)
    with torch.no_grad():
        entry = model.body.before(model.trunk.embed(input_ids), context)

    def read(state: Tensor) -> Tensor:
        states = model.trunk.finish(model.body.after(loop.visible(state)[None], context))
        if is_classifier:
            return model.head(masked_mean(states, everything))[0].softmax(-1)[:, None]
        return model.scores(states[0, :, given - 1 :]).softmax(-1)

    return LoopMap(
        start=loop.initial_state(entry),
        step=lambda state: loop.step(state, entry, here),
        read=read,
        read_rows=tuple(range(0 if is_classifier else given - 1, tokens)),
        trained_steps=loop.steps,
    )
