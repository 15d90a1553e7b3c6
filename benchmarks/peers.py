"""Section `peers`: GPT-2 of `transformers` beside the same model here, in training and in decoding."""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from algoformer.common.devices import matmul_precision
from algoformer.language import TokenModel
from algoformer.training import Experiment
from algoformer.training.engine import plan_for, why_not_experiment
from benchmarks.cases import Size
from benchmarks.contestants import Contestant, Engine, Ours
from benchmarks.decoding import cached_decoder, decoding_model, generate_greedily
from benchmarks.gpt2 import Served, Theirs, gpt2_experiment
from benchmarks.setting import Row, Setting
from benchmarks.timing import clear, time_block, wait

ROUNDS = 5
"""How often everything is decoded, in turns, after two times to compile and to capture."""

Decode = Callable[[], Tensor]
"""Generates tokens for all prefixes."""


def peer_rows(setting: Setting) -> Iterator[Row]:
    """Time training steps of GPT-2, then cached decoding, each in turns with `transformers`.

    Ratios are to the fastest way in which `transformers` trains GPT-2 or decodes with it.
    """
    yield from training_rows(setting)
    yield from generation_rows(setting)


def training_rows(setting: Setting) -> Iterator[Row]:
    """Time whole training steps, block by block in turns: batch, loss, gradient, clipping, AdamW."""
    size, device, precision = setting.size, setting.device, setting.precisions[0]
    tokens = size.gpt_batch * size.gpt_context
    clear(device)
    contestants: dict[str, Any] = {}
    facts: dict[str, Row] = {}
    with tempfile.TemporaryDirectory(prefix="algoformer-bench-") as folder, ExitStack() as stack:
        timed = gpt2_experiment(size, precision, Path(folder))
        for name, make in _contestants(timed, setting).items():
            before = _start_counting(device)
            contestants[name] = stack.enter_context(closing(make()))
            facts[name] = _warm_up(contestants[name], device, before)
        times: dict[str, list[float]] = {name: [] for name in contestants}
        for _ in range(size.blocks):
            for name, contestant in contestants.items():
                times[name].append(time_block(contestant, size.block, device))
    medians = {name: statistics.median(found) for name, found in times.items()}
    theirs = min(ms for name, ms in medians.items() if name.startswith("transformers"))
    for name, ms in medians.items():
        yield {
            "task": "training",
            "way": name,
            "precision": precision,
            "tokens": tokens,
            "ms": ms,
            "ms_fastest": min(times[name]),
            "ms_slowest": max(times[name]),
            "tokens_per_second": 1000 * tokens / ms,
            "times_transformers": theirs / ms,
            **facts[name],
        }


def _warm_up(contestant: Any, device: torch.device, before: int) -> Row:
    """Take a step, and two more; return the size, how long the first one took, and the most memory in use."""
    contestant.take(1)
    wait(device)
    ready = time.perf_counter() - contestant.began
    contestant.take(2)
    wait(device)
    model = contestant.training.model if isinstance(contestant, Ours) else contestant.model
    return {
        "parameters": sum(weight.numel() for weight in model.parameters()),
        "ready_seconds": ready,
        "peak_mebibytes": _peak(device, before),
    }


def _contestants(timed: Experiment, setting: Setting) -> dict[str, Callable[[], Contestant]]:
    device = setting.device
    found: dict[str, Callable[[], Contestant]] = {
        f"algoformer, {engine}": partial(Ours, timed, engine, device) for engine in engines_of(timed, setting)
    }
    found["transformers, eager"] = partial(Theirs, timed, device)
    if device.type == "cuda" or setting.size.cpu_compiled:
        found["transformers, compiled"] = partial(Theirs, timed, device, compiled=True)
        found["transformers, compiled, tuned"] = partial(Theirs, timed, device, compiled=True, tuned=True)
    return found


def engines_of(timed: Experiment, setting: Setting) -> list[Engine]:
    """Return the requested engines that cover the model; if there is none, the one that `train` chooses."""
    covered = why_not_experiment(timed) is None
    fitting = [engine for engine in setting.engines if engine != "fused" or covered]
    return fitting or [plan_for(timed, "auto", device=setting.device).engine]


def _start_counting(device: torch.device) -> int:
    if device.type != "cuda":
        return 0
    torch.cuda.reset_peak_memory_stats(device)
    return torch.cuda.memory_allocated(device)


def _peak(device: torch.device, before: int) -> float | None:
    return (torch.cuda.max_memory_allocated(device) - before) / 2**20 if device.type == "cuda" else None


def generation_rows(setting: Setting) -> Iterator[Row]:
    """Time greedy decoding with a cache: programs here, and GPT-2 of `transformers`.

    GPT-2 has the weights of the standard model here. The looped programs are decoded a second time by
    `transformers`, as the models that `to_hf` returns.
    """
    size, device, precision = setting.size, setting.device, setting.precisions[0]
    clear(device)
    dtype = torch.bfloat16 if precision == "bf16" else torch.float32
    cases = [case.partition("_")[0] for case in setting.cases if case != "chain"]
    names = dict.fromkeys(["standard", *cases])
    models = {name: decoding_model(name, size).to(device, dtype) for name in names}
    ids = torch.randint(size.vocabulary, (size.sequences, size.prefix), device=device)
    peer = Served(models["standard"], "gpt2", ids, size)
    ways: dict[tuple[str, str], Decode] = {
        ("standard", "transformers GPT-2, static cache"): peer.generate,
        ("standard", "transformers GPT-2, static cache kept"): peer.generate_with_kept_cache,
    }
    ours = {(name, "algoformer"): _cached(model, ids, size) for name, model in models.items()}
    with matmul_precision(precision):
        found = _timed({**ours, **ways}, device)
        base = min(statistics.median(found[way][0]) for way in ways)
        expected = {name: found[name, "algoformer"][1] for name in names}
        facts: Row = {"task": "decoding", "precision": precision}
        for (name, way), (seconds, tokens) in found.items():
            compiled = None if way == "algoformer" else peer.is_compiled
            row = _generation_row(seconds, tokens, expected[name], base)
            yield {**facts, "model": name, "way": way, "compiled_by_them": compiled, **row}
        for name in [name for name in names if name != "standard"]:
            served = Served(models[name], "algoformer", ids, size)
            way = "transformers, to_hf, static cache"
            seconds, tokens = _timed({(name, way): served.generate}, device)[name, way]
            row = _generation_row(seconds, tokens, expected[name], base)
            yield {**facts, "model": name, "way": way, "compiled_by_them": served.is_compiled, **row}


def _cached(model: TokenModel, ids: Tensor, size: Size) -> Decode:
    decoder = cached_decoder(model, size, "full", captured=ids.is_cuda)

    def decode() -> Tensor:
        decoder.cache.clear()
        return generate_greedily(decoder, ids, size.generated)

    return decode


def _timed(
    ways: dict[tuple[str, str], Decode], device: torch.device
) -> dict[tuple[str, str], tuple[list[float], Tensor]]:
    """Return the seconds of each round and the tokens of each way; ways take turns."""
    for decode in ways.values():
        for _ in range(2):
            decode()
    seconds: dict[tuple[str, str], list[float]] = {way: [] for way in ways}
    tokens = {}
    for _ in range(ROUNDS):
        for way, decode in ways.items():
            wait(device)
            began = time.perf_counter()
            tokens[way] = decode()
            wait(device)
            seconds[way].append(time.perf_counter() - began)
    return {way: (seconds[way], tokens[way]) for way in ways}


def _generation_row(seconds: list[float], tokens: Tensor, expected: Tensor, base: float) -> Row:
    median = statistics.median(seconds)
    return {
        "seconds": median,
        "seconds_fastest": min(seconds),
        "seconds_slowest": max(seconds),
        "tokens_per_second": tokens.numel() / median,
        "times_transformers": base / median,
        "same_tokens": float((tokens == expected).float().mean()),
    }
