"""Words of programs that the page knows: each equals PyTorch's own functions."""

import json
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from algoformer import programs
from algoformer.report.explorer.pack import FORMAT, checked_words, known_words, pack_weights
from report.explorer.browser import Page
from report.explorer.conftest import Open
from report.explorer.models import random_model, relative_error
from report.explorer.reference import ACTIVATIONS, injected, run_layers, shapes

WIDTH, ROWS = 12, [[0.3], [-1.2], [0.8], [0.5], [-0.4], [1.1], [0.9]]
PLAIN: dict[str, Any] = {
    **{"part": "layers", "count": 2, "heads": 3, "causal": True, "norm": "layer", "scaled": True},
    **{"activation": "gelu", "bias": False, "positions": "none", "final_norm": True, "name": ""},
}
LAYERS: dict[str, dict[str, Any]] = {
    **{f"activation {name}": {"activation": name} for name in ACTIVATIONS},
    "rms norm": {"norm": "rms", "norm_eps": 1e-3},
    "rms norm without weights": {"norm": "plain"},
    "no norm": {"norm": "none", "final_norm": False},
    "norm out": {"norm": "rms", "norm_at": ["out"]},
    "norm after": {"norm_at": ["after"]},
    "norm in and out": {"norm": "rms", "norm_at": ["in", "out"]},
    "norm in and after": {"norm": "plain", "norm_at": ["in", "after"]},
    "rope": {"positions": "rope", "rope_base": 500.0},
    "sinusoid": {"positions": "sinusoid"},
    "gated": {"gated": True, "activation": "silu", "hidden": 10},
    "grouped heads": {"heads": 4, "kv_heads": 2, "head_width": 6, "positions": "rope"},
    "norm of each head": {"norm": "rms", "qk_norm": "head", "positions": "rope"},
    "norm of all heads": {"norm": "rms", "qk_norm": "full", "heads": 4, "kv_heads": 2},
    "weightless norm of each head": {"norm": "plain", "qk_norm": "head"},
    "gate on heads": {"gate": True},
    "bias of queries, keys and values": {"bias": "qkv"},
}


def draw(found: dict[str, tuple[int, ...]], seed: int = 0) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    whole = {"read_in.maps.0.weight": (WIDTH, 1), "read_out.weight": (1, WIDTH), **found}
    return {name: 0.5 * torch.randn(shape, generator=generator) for name, shape in whole.items()}


def predicted(page: Page, program: list[Any], weights: dict[str, Tensor], steps: int) -> list[list[float]]:
    sizes = {"dim": 1, "out": 1, "context": 9, "width": WIDTH, "row_maps": 1, "blanks": [0, 0]}
    pack = {"format": FORMAT, "program": program, "words": checked_words(program)}
    pack |= {"sizes": {**sizes, "exact_context": False}, **pack_weights(weights, torch.float32)}
    reads = list(range(len(ROWS)))
    return page.run(f"algoformer.predict({json.dumps(pack)}, {ROWS}, {reads}, {steps})")["answers"]


def entry(weights: dict[str, Tensor]) -> Tensor:
    return F.linear(torch.tensor(ROWS), weights["read_in.maps.0.weight"])


def test_every_word_of_a_layer_is_that_of_pytorch(open_page: Open) -> None:
    page = open_page(random_model(programs.looped(heads=2)))
    for name, words in LAYERS.items():
        part = PLAIN | words
        weights = draw(shapes(part, WIDTH, "body.parts.0"))
        found = predicted(page, [part], weights, 1)
        stream = run_layers(part, weights, "body.parts.0", entry(weights))
        expected = F.linear(stream, weights["read_out.weight"]).T
        assert relative_error(found, expected) < 1e-4, name


LOOPS: dict[str, dict[str, tuple[int, ...]]] = {
    "add": {},
    "concat": {"mix.weight": (WIDTH, 2 * WIDTH)},
    "decay": {"step_size": (WIDTH,), "log_rate": (WIDTH,), "input_map.weight": (WIDTH, WIDTH)},
}


@pytest.mark.parametrize("start", ["auto", "input", "zeros", "vector"])
def test_every_injection_and_start_is_that_of_pytorch(start: str, open_page: Open) -> None:
    page = open_page(random_model(programs.looped(heads=2)))
    body = PLAIN | {"count": 1}
    for inject, extra in LOOPS.items():
        loop = {"part": "loop", "steps": 2, "inject": inject, "start": start, "name": "", "body": [body]}
        own = {f"body.parts.0.injection.{name}": shape for name, shape in extra.items()}
        own |= {"body.parts.0.start.vector": (WIDTH,)} if start == "vector" else {}
        weights = draw(shapes(body, WIDTH, "body.parts.0.body.parts.0") | own)
        stream = entry(weights)
        state = {
            "input": stream,
            "vector": weights.get("body.parts.0.start.vector", stream).expand_as(stream),
        }.get(start, torch.zeros_like(stream))
        expected = []
        for _ in range(4):
            state = injected(inject, weights, "body.parts.0.injection", state, stream)
            state = run_layers(body, weights, "body.parts.0.body.parts.0", state)
            expected.append(F.linear(state, weights["read_out.weight"])[:, 0])
        assert relative_error(predicted(page, [loop], weights, 4), torch.stack(expected)) < 1e-4, inject


def test_every_word_that_the_page_claims_to_know_is_tested() -> None:
    words = known_words()["layers"]
    tested = [PLAIN, *LAYERS.values()]
    for field in ("norm", "activation", "qk_norm", "positions"):
        seen = {part[field] for part in tested if field in part}
        missing = {word for word in words[field] if isinstance(word, str)} - seen
        # learned positions and layers without these norms are in the library, and tested with it
        assert missing <= {"learned", "none"}
    assert {place for part in tested for place in part.get("norm_at", ["in"])} == set(words["norm_at"])
    assert {"add", "none", "gate", *LOOPS} == set(known_words()["loop"]["inject"])
