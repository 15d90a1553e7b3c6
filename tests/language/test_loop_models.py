"""The published loop models as language models: a cache changes no scores while decoding."""

import pytest
import torch

from algoformer.language import CachedDecoder, TokenModel, UncachedDecoder
from algoformer.language.cache import cache_bytes
from algoformer.model.loop_models import LOOP_MODELS
from tests.model.test_loop_models import small
from tests.model.test_words import WORDS


@pytest.mark.parametrize("name", [*LOOP_MODELS, *WORDS])
def test_cached_decoding_is_uncached_decoding(name: str) -> None:
    torch.manual_seed(0)
    program = small(name) if name in LOOP_MODELS else WORDS[name]
    model = TokenModel(program, vocabulary=19, context=16, width=8).double().eval()
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(0.1 * torch.randn_like(weight))
    tokens = torch.randint(19, (3, 9))
    mask = torch.ones(3, 5, dtype=torch.bool)
    mask[0, :2] = False
    cached, uncached = CachedDecoder(model, batch=3, length=9), UncachedDecoder(model)
    found, expected = cached.prefill(tokens[:, :5], mask), uncached.prefill(tokens[:, :5], mask)
    for place in range(5, 9):
        torch.testing.assert_close(found, expected, rtol=0, atol=1e-10)
        found, expected = cached.step(tokens[:, place]), uncached.step(tokens[:, place])
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-10)
    assert cached.cache.bytes == cache_bytes(program, width=8, batch=3, length=9, number_bytes=8)
