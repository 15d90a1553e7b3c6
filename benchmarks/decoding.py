"""Tokens per second of generation: with a cache, with the last iteration only, and without one.

    PYTHONPATH=src python3 benchmarks/decoding.py                  the size of the translation models
    PYTHONPATH=src python3 benchmarks/decoding.py --quick          tiny sizes, anywhere
    ... --programs algoformer --device cuda --precision bf16 --json decoding.json

100 tokens are generated greedily for 32 prefixes of 32 tokens, from random weights: speed does not depend
on what is said. On CUDA the cached step is also timed as a captured graph.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from torch import Tensor

from algoformer import programs
from algoformer.language import CachedDecoder, KeyValueCache, TokenModel, UncachedDecoder, cache_bytes


@dataclass(frozen=True, kw_only=True)
class Size:
    """How large everything is."""

    batch: int = 32
    prefix: int = 32
    tokens: int = 100
    vocabulary: int = 8000
    width: int = 256
    heads: int = 8
    steps: int = 10
    layers: int = 12


QUICK = Size(batch=3, prefix=4, tokens=6, vocabulary=50, width=16, heads=2, steps=3, layers=3)


def known_programs(size: Size) -> dict[str, programs.Program]:
    """The models that are compared in the translation table."""
    return {
        "standard": programs.standard(size.layers, heads=size.heads),
        "looped": programs.looped(heads=size.heads, steps=size.steps),
        "algoformer": programs.algoformer(heads=size.heads, steps=size.steps),
    }


def benchmark_decoding(
    names: list[str], size: Size, device: torch.device, dtype: torch.dtype
) -> list[dict[str, object]]:
    """One row for every program and every way to decode it."""
    rows: list[dict[str, object]] = []
    for name in names:
        torch.manual_seed(0)
        sizes = {"vocabulary": size.vocabulary, "context": size.prefix + size.tokens, "width": size.width}
        model = TokenModel(known_programs(size)[name], **sizes).eval().to(device, dtype)
        ids = torch.randint(size.vocabulary, (size.batch, size.prefix), device=device)
        ways = {
            "uncached": lambda model=model: UncachedDecoder(model),
            "last": lambda model=model: cached(model, size, "last"),
            "full": lambda model=model: cached(model, size, "full"),
        }
        if device.type == "cuda":
            ways["full, captured"] = lambda model=model: Captured(cached(model, size, "full"))
        found = {way: time_generation(make, ids, size) for way, make in ways.items()}
        slow, expected = found["uncached"]
        for way, (seconds, tokens) in found.items():
            kept = 0
            if way != "uncached":
                policy = "last" if way == "last" else "full"
                kept = cache_bytes(
                    model.program,
                    width=size.width,
                    batch=size.batch,
                    length=size.prefix + size.tokens - 1,
                    policy=policy,
                    number_bytes=dtype.itemsize,
                )
            rows.append(
                {
                    "program": name,
                    "decoder": way,
                    "seconds": seconds,
                    "tokens_per_second": size.batch * size.tokens / seconds,
                    "times_uncached": slow / seconds,
                    "cache_mebibytes": kept / 2**20,
                    "same_tokens": float((tokens == expected).float().mean()),
                }
            )
    return rows


def cached(model: TokenModel, size: Size, policy: str) -> CachedDecoder:
    return CachedDecoder(model, batch=size.batch, length=size.prefix + size.tokens - 1, policy=policy)


class Captured:
    """A cached decoder whose step is one captured graph, from the second token on."""

    def __init__(self, decoder: CachedDecoder) -> None:
        self.decoder, self.model = decoder, decoder.model
        self.graph: torch.cuda.CUDAGraph | None = None

    @property
    def cache(self) -> KeyValueCache:
        return self.decoder.cache

    def prefill(self, ids: Tensor, real: Tensor | None = None) -> Tensor:
        if self.graph is None:
            self.tokens = torch.zeros(len(ids), dtype=torch.int64, device=ids.device)
        return self.decoder.prefill(ids, real)

    def step(self, tokens: Tensor) -> Tensor:
        self.tokens.copy_(tokens)
        if self.graph is None:
            scores = self.decoder.step(self.tokens)  # the first one warms up
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                self.scores = self.decoder.read(self.tokens)
            self.graph = graph
            return scores
        self.decoder.cache.reserve()
        self.graph.replay()
        return self.scores


Decoder = CachedDecoder | UncachedDecoder | Captured


def time_generation(make: Callable[[], Decoder], ids: Tensor, size: Size) -> tuple[float, Tensor]:
    """Seconds for all tokens, after two to warm up and to capture; the tokens."""
    decoder = make()
    generate(decoder, ids, 2)
    if not isinstance(decoder, UncachedDecoder):
        decoder.cache.clear()
    wait(ids.device)
    began = time.perf_counter()
    tokens = generate(decoder, ids, size.tokens)
    wait(ids.device)
    return time.perf_counter() - began, tokens


@torch.no_grad()
def generate(decoder: Decoder, ids: Tensor, count: int) -> Tensor:
    """The most probable token, `count` times; no token ends a sequence."""
    found = [decoder.prefill(ids).argmax(dim=-1)]
    for _ in range(count - 1):
        found.append(decoder.step(found[-1]).argmax(dim=-1))
    return torch.stack(found, dim=1)


def wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def main() -> None:
    arguments = parse()
    device = torch.device(arguments.device)
    size = QUICK if arguments.quick else Size()
    dtype = {"fp32": torch.float32, "bf16": torch.bfloat16}[arguments.precision]
    rows = benchmark_decoding(arguments.programs, size, device, dtype)
    print(f"{'program':<12}{'decoder':<16}{'seconds':>9}{'tokens/s':>10}", end="")
    print(f"{'× uncached':>12}{'cache MiB':>11}{'same':>8}")
    for row in rows:
        print(
            f"{row['program']:<12}{row['decoder']:<16}{row['seconds']:>9.2f}{row['tokens_per_second']:>10.0f}"
            f"{row['times_uncached']:>12.1f}{row['cache_mebibytes']:>11.1f}{row['same_tokens']:>8.1%}"
        )
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu"
    threads = torch.get_num_threads()
    print(f"{name}, {threads} thread(s), {arguments.precision}, torch {torch.__version__}")
    if arguments.json is not None:
        facts = {"device": name, "threads": threads, "precision": arguments.precision}
        record = {**facts, "torch": torch.__version__, "size": asdict(size), "rows": rows}
        arguments.json.parent.mkdir(parents=True, exist_ok=True)
        arguments.json.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
        print(f"→ {arguments.json}")


def parse() -> argparse.Namespace:
    known = list(known_programs(QUICK))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="tiny sizes, to see that it runs")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--precision", choices=["fp32", "bf16"], default="fp32")
    parser.add_argument("--programs", nargs="+", choices=known, default=known)
    parser.add_argument("--json", type=Path, help="where to write the numbers")
    return parser.parse_args()


if __name__ == "__main__":
    main()
