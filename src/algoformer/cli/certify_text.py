"""The loop of a model of text as a map, for `algoformer certify`."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from algoformer.insight.instrument import LoopMap
from algoformer.insight.probabilities import ProbabilityCertificate, certify_probabilities
from algoformer.language.classifier import TextClassifier, masked_mean
from algoformer.language.scores import bleu
from algoformer.language.tokenizer import Tokenizer
from algoformer.language.translate import Decoding, Translator
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

    With a file of references, one for each line, translations are scored over depth.

    Raises:
        ValueError: there is no file, it has no text, or references do not match the texts.
    """
    if texts is None:
        raise ValueError("a model of text needs texts to run on; give a file with --texts, one text a line")
    lines = [line for line in texts.read_text(encoding="utf-8").splitlines() if line.strip()][:most]
    found = certify_probabilities(_loops(checkpoint, lines), reach=reach, setting={"texts": len(lines)})
    if references is None:
        return found
    wanted = [line for line in references.read_text(encoding="utf-8").splitlines() if line.strip()][:most]
    if len(wanted) != len(lines):
        raise ValueError(f"--references must have a line for each text, got {len(wanted)} for {len(lines)}")
    return replace(found, bleu=_bleu(checkpoint, lines, wanted, found))


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


def _loops(checkpoint: Checkpoint, lines: list[str]) -> Iterator[tuple[LoopMap, LoopMap]]:
    tokenizer = Tokenizer.from_json(checkpoint.tokenizer)
    single = copy.deepcopy(checkpoint.model).eval().requires_grad_(False)
    double = copy.deepcopy(single).double()
    for line in lines:
        input_ids = torch.tensor([tokenizer.encode(line)[:MOST_TOKENS]])
        yield _loop_map(single, input_ids), _loop_map(double, input_ids)


def _loop_map(model: Any, input_ids: Tensor) -> LoopMap:
    tokens = input_ids.shape[1]
    everything = torch.ones_like(input_ids, dtype=torch.bool)
    is_classifier = isinstance(model, TextClassifier)
    prefix = torch.tensor([tokens])
    context = token_context(everything) if is_classifier else model.context_of(input_ids, None, prefix)
    loop, here = model.body.traced_loop(context)
    with torch.no_grad():
        entry = model.body.before(model.trunk.embed(input_ids), context)

    def read(state: Tensor) -> Tensor:
        states = model.trunk.finish(model.body.after(loop.visible(state)[None], context))
        scores = (
            model.head(masked_mean(states, everything)) if is_classifier else model.scores(states[:, :, -1])
        )
        return scores[0].softmax(-1)[:, None]

    return LoopMap(
        start=loop.initial_state(entry),
        step=lambda state: loop.step(state, entry, here),
        read=read,
        read_rows=tuple(range(tokens)) if is_classifier else (tokens - 1,),
        trained_steps=loop.steps,
    )
