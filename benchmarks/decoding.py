"""Section `decoding`: tokens per second with a cache, with the last iteration only, and without one."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial

import torch
from torch import Tensor

from algoformer.common.devices import matmul_precision
from algoformer.language import CachedDecoder, TokenModel, UncachedDecoder
from algoformer.language.cache import Policy
from algoformer.training.config import Precision
from benchmarks.cases import Size, program_of
from benchmarks.setting import Row, Setting
from benchmarks.timing import clear, wait


def decoding_rows(setting: Setting) -> Iterator[Row]:
    """Every model and every way to decode it: greedily, for as many tokens whatever is said.

    Weights are random, because speed does not depend on them. What a cache of the last iteration costs in
    quality is therefore not to be read from `same_tokens`, which checks the full one.
    """
    models = dict.fromkeys(case.partition("_")[0] for case in setting.cases if case != "chain")
    for name in models:
        for precision in setting.precisions:
            for row in _model_rows(name, precision, setting):
                yield {"model": name, "precision": precision, **row}


def _model_rows(name: str, precision: Precision, setting: Setting) -> Iterator[Row]:
    size, device = setting.size, setting.device
    clear(device)
    model = decoding_model(name, size).to(device, torch.bfloat16 if precision == "bf16" else torch.float32)
    ids = torch.randint(size.vocabulary, (size.sequences, size.prefix), device=device)
    ways: dict[str, Callable[[], Decoder]] = {
        "uncached": partial(UncachedDecoder, model),
        "cached, last": partial(cached_decoder, model, size, "last"),
        "cached, full": partial(cached_decoder, model, size, "full"),
    }
    if device.type == "cuda":
        ways["cached, full, captured"] = partial(cached_decoder, model, size, "full", captured=True)
    slow, expected = 0.0, torch.empty(0)
    for way, make in ways.items():
        decoder = make()
        with matmul_precision(precision):
            seconds, tokens = time_generation(decoder, ids, size.generated)
        if way == "uncached":
            slow, expected = seconds, tokens
        yield {
            "decoder": way,
            "seconds": seconds,
            "tokens_per_second": tokens.numel() / seconds,
            "times_uncached": slow / seconds,
            "cache_mebibytes": None if isinstance(decoder, UncachedDecoder) else decoder.cache.bytes / 2**20,
            "same_tokens": float((tokens == expected).float().mean()),
        }


def decoding_model(name: str, size: Size) -> TokenModel:
    """Return a language model of a case with random weights, always the same."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        program = program_of(name, size, size.decoded_steps)
        context = size.prefix + size.generated
        return TokenModel(program, vocabulary=size.vocabulary, context=context, width=size.width).eval()


def cached_decoder(model: TokenModel, size: Size, policy: Policy, *, captured: bool = False) -> CachedDecoder:
    """Return a decoder with room for a prefix and what is generated."""
    # the last token is never read
    length = size.prefix + size.generated - 1
    return CachedDecoder(model, batch=size.sequences, length=length, policy=policy, captured=captured)


Decoder = CachedDecoder | UncachedDecoder


def time_generation(decoder: Decoder, ids: Tensor, count: int) -> tuple[float, Tensor]:
    """Seconds for all tokens, after some to warm up and to capture; and the tokens."""
    generate_greedily(decoder, ids, 4)
    if not isinstance(decoder, UncachedDecoder):
        decoder.cache.clear()
    wait(ids.device)
    began = time.perf_counter()
    tokens = generate_greedily(decoder, ids, count)
    wait(ids.device)
    return time.perf_counter() - began, tokens


@torch.no_grad()
def generate_greedily(decoder: Decoder, ids: Tensor, count: int) -> Tensor:
    """The most probable token, `count` times; no token ends a sequence."""
    found = [decoder.prefill(ids).argmax(dim=-1)]
    for _ in range(count - 1):
        found.append(decoder.step(found[-1]).argmax(dim=-1))
    return torch.stack(found, dim=1)
