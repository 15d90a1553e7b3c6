"""Section `exits`: what stopping rules save when the shipped translator decodes, and what they change."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator

import torch

from algoformer.language import load_parallel
from algoformer.language.translate import Decoding, Translator
from algoformer.model.stopping import parse_stopping
from algoformer.shipped import load
from benchmarks.setting import Row, Setting
from benchmarks.timing import wait

RULES = ("same:1", "shift:0.1", "kl:1e-3", "state:0.03", "state:0.1", "fixed:2")
"""The thresholds are Huginn's where it has one."""

SENTENCES, BATCH, ROUNDS = 128, 32, 3
DEPTHS = (4, 12)
"""Iterations of the loop: as trained, and three times as many."""


def exit_rows(setting: Setting) -> Iterator[Row]:
    """Translate sentences greedily with and without each rule, in turns; the median round counts.

    On a CPU it is the time that the process had on it, which other processes do not change.
    """
    checkpoint = load("tatoeba_de_en")
    checkpoint.model.to(setting.device)
    lines = list(load_parallel("small_de_en").splits()["test"].source[:SENTENCES])
    for steps in DEPTHS:
        names = ("none", *RULES)
        seconds: dict[str, list[float]] = {name: [] for name in names}
        found: dict[str, Translator] = {}
        texts: dict[str, list[str]] = {}
        for _ in range(ROUNDS):
            for name in names:
                rule = None if name == "none" else parse_stopping(name)
                decoding = Decoding(beam=1, batch=BATCH, steps=steps, early_exit=rule)
                found[name] = Translator(checkpoint, decoding)  # type: ignore[arg-type]
                began = _now(setting.device)
                texts[name] = found[name].translate_block(lines)
                seconds[name].append(_now(setting.device) - began)
        for name in names:
            taken = statistics.median(seconds[name])
            same = [one == other for one, other in zip(texts[name], texts["none"], strict=True)]
            yield {
                "rule": name,
                "steps": steps,
                "iterations": found[name].iterations,
                "tokens_per_second": found[name].generated / taken,
                "times_without_rule": statistics.median(seconds["none"]) / taken,
                "same_sentences": sum(same) / len(same),
            }


def _now(device: torch.device) -> float:
    wait(device)
    return time.process_time() if device.type == "cpu" else time.perf_counter()
