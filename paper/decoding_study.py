"""What ways to decode cost and save, on a trained translator and its whole test set."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import torch

from algoformer.common.devices import device_name
from algoformer.evaluation import Cell, Table
from algoformer.language import (
    CachedDecoder,
    TokenModel,
    UncachedDecoder,
    cache_bytes,
)
from algoformer.language.batches import source_batch
from algoformer.language.cache import Policy
from algoformer.language.checkpoint import TextModelFile
from algoformer.language.packing import PackedText
from algoformer.language.scores import bleu
from algoformer.language.tokens import TokenPairs
from algoformer.language.translate import Decoding, Translator
from algoformer.model.program import traced_part
from algoformer.model.stopping import ProbabilityShift

THRESHOLDS = (0.3, 0.1, 0.03, 0.01)
"""Of early exit."""

SENTENCES, TOKENS = 32, 100
"""Of the comparison with decoding that has no cache."""


def ways(batch: int) -> dict[str, Decoding]:
    """The ways that are compared, by name."""
    greedy: dict[str, Any] = {"beam": 1, "batch": batch}
    exits = {
        f"greedy, early exit at {threshold:g}": Decoding(
            early_exit=ProbabilityShift(threshold=threshold), **greedy
        )
        for threshold in THRESHOLDS
    }
    return {
        "greedy": Decoding(**greedy),
        "greedy, cache of the last iteration": Decoding(policy="last", **greedy),
        **exits,
        "beam 4": Decoding(beam=4, batch=batch),
    }


def study(checkpoint: TextModelFile, text: PackedText, *, batch: int) -> dict[str, Any]:
    """Every way on the whole test split: BLEU, seconds, iterations a token, size of the cache.

    Returns:
        Plain data: `ways`, a row for each, `cached`, how much faster a cache is, and the `device`.
    """
    split = text.splits["test"]
    assert isinstance(split, TokenPairs)
    rows = []
    for name, how in ways(batch).items():
        translator = Translator(checkpoint, how)
        if traced_part(translator.model.program) is None and (how.early_exit or how.policy == "last"):
            continue  # there is no loop to shorten
        began = time.perf_counter()
        found = translator.translate_encoded([split.source[row].tolist() for row in range(len(split))])
        seconds = time.perf_counter() - began
        references = [translator.tokenizer.decode(split.target[row]) for row in range(len(split))]
        score = bleu(found, references, lowercase=translator.lowercase)
        rows.append(
            {
                "name": name,
                "BLEU": {"value": score.value, "low": score.low, "high": score.high},
                "signature": score.signature,
                "seconds": seconds,
                "iterations": translator.iterations,
                "cache_bytes": _cache(translator.model, how.policy) * how.beam,
            }
        )
    return {
        "ways": rows,
        "cached": cached_against_uncached(translator.model, split),
        "device": device_name(translator.model.output_weight.device),
    }


def _cache(model: TokenModel, policy: Policy) -> int:
    """Of one sequence as long as the model's context."""
    width = model.trunk.width
    return cache_bytes(model.program, width=width, batch=1, length=model.context, policy=policy)


@torch.no_grad()
def cached_against_uncached(model: TokenModel, split: TokenPairs) -> dict[str, int | float]:
    """Seconds for the same tokens of a batch, whatever ends a sentence, with a cache and without."""
    rows = np.flatnonzero(split.source.lengths < max(model.context // 2, model.context - TOKENS))[:SENTENCES]
    device = model.output_weight.device
    given = source_batch(split.source, rows).to(device)
    count = min(TOKENS, model.context - given.ids.shape[1])
    seconds: dict[str, float] = {}
    tokens: dict[str, torch.Tensor] = {}
    for name in ("cached", "uncached"):
        for counted in (2, count):  # the first time warms up
            length = given.ids.shape[1] + counted
            decoder: CachedDecoder | UncachedDecoder = (
                CachedDecoder(model, batch=len(rows), length=length)
                if name == "cached"
                else UncachedDecoder(model)
            )
            _wait(device)
            began = time.perf_counter()
            found = [decoder.prefill(given.ids, given.mask).argmax(dim=-1)]
            for _ in range(counted - 1):
                found.append(decoder.step(found[-1]).argmax(dim=-1))
            _wait(device)
            seconds[name], tokens[name] = time.perf_counter() - began, torch.stack(found)
    return {
        "sentences": len(rows),
        "tokens": count,
        "cached_seconds": seconds["cached"],
        "uncached_seconds": seconds["uncached"],
        "times": seconds["uncached"] / seconds["cached"],
        "same_tokens": float((tokens["cached"] == tokens["uncached"]).float().mean()),
    }


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def study_table(found: dict[str, Any], *, title: str) -> Table:
    """A row for each way to decode."""
    rows: list[tuple[Cell, ...]] = []
    first = found["ways"][0]
    for one in found["ways"]:
        score = one["BLEU"]
        rows.append(
            (
                one["name"],
                f"{score['value']:.2f}",
                f"{score['low']:.2f} – {score['high']:.2f}",
                f"{one['seconds']:.1f}",
                f"{first['seconds'] / one['seconds']:.2f}",
                f"{one['iterations']:.2f}",
                f"{one['cache_bytes'] / 1e6:.2f}",
            )
        )
    cached = found["cached"]
    return Table(
        columns=("decoding", "BLEU", "95 %", "seconds", "× greedy", "iterations", "MB a sentence"),
        rows=tuple(rows),
        title=title,
        note=(
            f"On {found['device']}. {cached['sentences']} sentences, {cached['tokens']} tokens: "
            f"{cached['times']:.1f} times as fast with a cache as without, "
            f"{100 * cached['same_tokens']:.2f} % of the tokens the same. MB: the cache of a sentence as "
            "long as the context, all its beams, in fp32."
        ),
    )
