"""The cache follows from the program: its slots, its memory."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from algoformer import Program, Unroll, programs
from algoformer.language import CachedDecoder, KeyValueCache, cache_bytes
from algoformer.language.cache import slots_of
from tests.language.small_models import PROGRAMS, token_model
from tests.random_programs import programs as random_programs


def test_every_occurrence_of_a_layer_has_a_slot() -> None:
    program = programs.nested(heads=2, steps=2, inner_steps=2)
    assert list(slots_of(program)) == [
        "pre/0",
        "loop[1]/outer/0",
        "loop[1]/inner[1]/0",
        "loop[1]/inner[2]/0",
        "loop[2]/outer/0",
        "loop[2]/inner[1]/0",
        "loop[2]/inner[2]/0",
        "post/0",
    ]
    assert list(slots_of(program, policy="last")) == ["pre/0", "loop/outer/0", "loop/inner/0", "post/0"]


@settings(max_examples=15)
@given(random_programs(causal=True), st.integers(1, 4))
def test_there_are_as_many_slots_as_layer_evaluations(program: Program, steps: int) -> None:
    model = token_model(program, double=True)
    work = []
    for module in model.modules():
        if type(module).__name__ == "Attention":
            module.register_forward_hook(lambda *_: work.append(1))
    model(torch.tensor([[1]]), Unroll(steps=steps, window=1))
    assert len(slots_of(program, steps=steps)) == len(work)


@settings(max_examples=15)
@given(random_programs(causal=True), st.integers(1, 4), st.sampled_from(("full", "last")))
def test_its_memory_is_the_formula(program: Program, steps: int, policy: str) -> None:
    sizes = {"width": 8, "batch": 3, "length": 5, "steps": steps, "policy": policy}
    cache = KeyValueCache(program, **sizes, dtype=torch.float16)
    allocated = 0
    for slot in cache.slots.values():
        for tensor in (slot.keys, slot.values):
            allocated += tensor.untyped_storage().nbytes()
    assert cache_bytes(program, **sizes, number_bytes=2) == cache.bytes == allocated


def test_the_policy_last_needs_as_little_as_a_model_without_iterations() -> None:
    """1 + 10 + 1 slots against 1 + 1 + 1, each 2 · 32 · 100 · 256 numbers of 4 bytes."""
    program = programs.algoformer(steps=10)
    sizes = {"width": 256, "batch": 32, "length": 100}
    slot = 2 * 32 * 100 * 256 * 4
    assert cache_bytes(program, **sizes) == 12 * slot
    assert cache_bytes(program, **sizes, policy="last") == 3 * slot


def test_a_decoder_allocates_nothing_later() -> None:
    model = token_model(PROGRAMS["parallel"])
    decoder = CachedDecoder(model, batch=2, length=8)
    before = decoder.cache.bytes
    decoder.prefill(torch.tensor([[1, 2], [3, 4]]))
    decoder.step(torch.tensor([1, 2]))
    assert decoder.cache.bytes == before == cache_bytes(model.program, width=8, batch=2, length=8)


def test_keys_can_be_kept_in_half_precision() -> None:
    model = token_model(PROGRAMS["algoformer"])
    found = []
    for dtype in (torch.float32, torch.bfloat16):
        decoder = CachedDecoder(model, batch=1, length=4, dtype=dtype)
        decoder.prefill(torch.tensor([[1, 2]]))
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=dtype == torch.bfloat16):
            found.append(decoder.step(torch.tensor([3])).float())
    torch.testing.assert_close(*found, rtol=0, atol=0.1)


@pytest.mark.parametrize("policy", ["full", "last"])
def test_an_iteration_can_take_over_the_one_before_it(policy: str) -> None:
    model = token_model(PROGRAMS["nested"])
    decoder = CachedDecoder(model, batch=2, length=3, policy=policy)  # all places are written
    decoder.prefill(torch.tensor([[1, 2], [4, 5]]))
    decoder.step(torch.tensor([3, 6]))
    cache = decoder.cache
    before = {name: slot.keys.clone() for name, slot in cache.slots.items()}
    cache.carry("loop", torch.tensor([1, 2]))
    for name, slot in cache.slots.items():
        if name.startswith("loop[2]"):
            earlier = before[name.replace("loop[2]", "loop[1]")]
            assert torch.equal(slot.keys[0, :, 2], earlier[0, :, 2])
            assert torch.equal(slot.keys[1], before[name][1])
            assert torch.equal(slot.keys[:, :, :2], before[name][:, :, :2])
        else:
            assert torch.equal(slot.keys, before[name])
