"""Section `exits`: what stopping rules save when the shipped translator decodes, and what they change."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator

import torch
from torch import Tensor

from algoformer.language import CachedDecoder, TokenModel, load_parallel
from algoformer.language.tokenizer import TRANSLATE, Tokenizer
from algoformer.model.stopping import StoppingRule, parse_stopping
from algoformer.shipped import load
from benchmarks.setting import Row, Setting
from benchmarks.timing import wait

RULES = ("same:1", "shift:0.1", "kl:1e-3", "kl:1e-3:4", "state:0.03", "state:0.1")
"""The thresholds 1e-3 and 0.03 are Huginn's."""

DEPTHS = (4, 16)
"""Iterations of the loop: as trained, and four times as many."""

SENTENCES, TOKENS, ROUNDS = 32, 8, 3


def exit_rows(setting: Setting) -> Iterator[Row]:
    """Continue sentences greedily by a number of tokens, with and without each rule in turns.

    Only the tokens after the first are timed: prefixes always take all iterations. The median round counts.
    On a CPU it is the time that the process had on it, which other processes do not change.
    """
    checkpoint = load("tatoeba_de_en")
    model: TokenModel = checkpoint.model.to(setting.device).eval()
    ids, mask = _prefixes(checkpoint)
    ids, mask = ids.to(setting.device), mask.to(setting.device)
    names = ("none", *RULES)
    for steps in DEPTHS:
        found = {name: [] for name in names}  # type: dict[str, list[tuple[float, float, Tensor]]]
        for _ in range(ROUNDS):
            for name in names:
                rule = None if name == "none" else parse_stopping(name)
                found[name].append(_continue(model, ids, mask, steps, rule))
        seconds = {name: statistics.median(taken for taken, _, _ in runs) for name, runs in found.items()}
        expected = found["none"][0][2]
        for name in names:
            _, iterations, tokens = found[name][0]
            yield {
                "rule": name,
                "steps": steps,
                "iterations": iterations,
                "tokens_per_second": tokens[:, 1:].numel() / seconds[name],
                "times_without_rule": seconds["none"] / seconds[name],
                "same_tokens": float((tokens == expected).float().mean()),
            }


def _prefixes(checkpoint: object) -> tuple[Tensor, Tensor]:
    """Return German sentences with the mark of a translation, padded on the left."""
    tokenizer = Tokenizer.from_json(checkpoint.tokenizer)  # type: ignore[attr-defined]
    lines = load_parallel("small_de_en").splits()["test"].source[:SENTENCES]
    encoded = [[*tokens, TRANSLATE] for tokens in tokenizer.encode_all(list(lines))]
    longest = max(map(len, encoded))
    ids = torch.tensor([[0] * (longest - len(tokens)) + tokens for tokens in encoded])
    lengths = torch.tensor(list(map(len, encoded)))
    return ids, torch.arange(longest) >= longest - lengths[:, None]


@torch.no_grad()
def _continue(
    model: TokenModel, ids: Tensor, mask: Tensor, steps: int, rule: StoppingRule | None
) -> tuple[float, float, Tensor]:
    """Return the seconds of all tokens but the first, their mean iterations, and all tokens."""
    length = ids.shape[1] + TOKENS
    decoder = CachedDecoder(model, batch=len(ids), length=length, steps=steps, early_exit=rule)
    tokens, iterations = [decoder.prefill(ids, mask).argmax(dim=-1)], []
    began = _now(ids.device)
    for _ in range(TOKENS):
        tokens.append(decoder.step(tokens[-1]).argmax(dim=-1))
        iterations.append(decoder.iterations.mean())
    seconds = _now(ids.device) - began
    return seconds, float(torch.stack(iterations).mean()), torch.stack(tokens, dim=1)


def _now(device: torch.device) -> float:
    wait(device)
    return time.process_time() if device.type == "cpu" else time.perf_counter()
