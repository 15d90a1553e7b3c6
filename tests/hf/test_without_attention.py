"""Programs without an attention layer are decoded with a KV cache, which counts the tokens."""

import pytest
import torch

pytest.importorskip("transformers")

from algoformer.hf import to_hf
from algoformer.model import Layers, Loop, Parallel, Program
from tests.hf.families import transformers
from tests.hf.test_model import decoded, prompts, token_model

SINUSOID = Layers(0, positions="sinusoid")
PROGRAMS = {
    "positions alone": Program(Layers(0)),
    "a loop": Program(Loop(Layers(0, norm="rms"), steps=3)),
    "two kinds": Program(Loop(SINUSOID, steps=2, inject="decay"), Layers(0)),
    "parallel": Program(Parallel(Loop(Layers(0), steps=2), SINUSOID)),
}
EVERY = pytest.mark.parametrize("name", PROGRAMS)


@EVERY
@torch.no_grad()
def test_every_way_to_generate_gives_the_tokens_of_decoding_without_a_cache(name: str) -> None:
    model = to_hf(token_model(PROGRAMS[name]))
    greedy = decoded(model, use_cache=False)
    assert torch.equal(decoded(model, use_cache=True), greedy)
    assert torch.equal(decoded(model, cache_implementation="static"), greedy)
    assert torch.equal(decoded(model, steps=5), decoded(model, steps=5, use_cache=False))
    assert torch.equal(decoded(model, num_beams=3), decoded(model, num_beams=3, use_cache=False))
    one = {"input_ids": prompts()["input_ids"][1:2], "max_new_tokens": 7, "do_sample": False}
    expected = model.generate(**one, use_cache=False)
    assert torch.equal(model.generate(**one, prompt_lookup_num_tokens=3), expected)


@EVERY
@torch.no_grad()
def test_logits_token_by_token_are_those_of_the_whole_sequence(name: str) -> None:
    model, tokens = to_hf(token_model(PROGRAMS[name])), prompts()["input_ids"]
    whole = model(tokens, use_cache=False).logits
    settings = {"config": model.config, "max_cache_len": 12}
    for cache in (None, transformers.DynamicCache(), transformers.StaticCache(**settings)):
        found = []
        for token in tokens.split(1, dim=1):
            output = model(token, past_key_values=cache, use_cache=True)
            cache = output.past_key_values
            found.append(output.logits)
        assert int(cache.get_seq_length()) == 8
        torch.testing.assert_close(torch.cat(found, dim=1), whole, rtol=0, atol=1e-6)
