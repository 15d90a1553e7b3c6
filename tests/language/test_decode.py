"""Decoding with a cache is decoding without one."""

from itertools import cycle
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from algoformer import Program, Unroll, programs
from algoformer.language import CachedDecoder, TokenModel, UncachedDecoder, beam_search, greedy_search
from algoformer.model.driver import ForwardContext
from algoformer.model.stopping import ProbabilityShift
from tests.language.small_models import PROGRAMS, VOCABULARY, alone, padded, token_model
from tests.random_programs import programs as random_programs

SINGLE = {"rtol": 0, "atol": 1e-5}
LENGTHS = (5, 2, 7, 1)


def next_tokens(steps: int, batch: int) -> Tensor:
    return torch.randint(VOCABULARY, (steps, batch), generator=torch.Generator().manual_seed(7))


def assert_same_scores(
    model: TokenModel, ids: Tensor, real: Tensor | None, steps: int | None, **options: Any
) -> None:
    cached = CachedDecoder(model, batch=len(ids), length=ids.shape[1] + 4, steps=steps, **options)
    uncached = UncachedDecoder(model, steps=steps, inner=options.get("inner"))
    close = SINGLE if model.output_weight.dtype == torch.float32 else {"rtol": 1e-9, "atol": 1e-9}
    torch.testing.assert_close(cached.prefill(ids, real), uncached.prefill(ids, real), **close)
    for tokens in next_tokens(4, len(ids)):
        torch.testing.assert_close(cached.step(tokens), uncached.step(tokens), **close)


@pytest.mark.parametrize("prefix_lm", [False, True])
@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_cache_changes_no_score_for_any_program(name: str, side: str, prefix_lm: bool) -> None:
    model = token_model(PROGRAMS[name], prefix_lm=prefix_lm)
    ids, real = padded(LENGTHS, side)
    assert_same_scores(model, ids, real, None)


@pytest.mark.parametrize("steps", [1, 5])
@pytest.mark.parametrize("name", ["looped", "nested", "two_loops", "parallel"])
def test_a_cache_changes_no_score_for_any_number_of_iterations(name: str, steps: int) -> None:
    assert_same_scores(token_model(PROGRAMS[name]), *padded(LENGTHS, "left"), steps)


@pytest.mark.parametrize("early", [None, ProbabilityShift(threshold=0)], ids=["all", "early"])
@pytest.mark.parametrize(
    ("name", "inner"),
    [
        ("nested", {"inner": 1}),
        ("nested", {"inner": 5}),
        ("two_loops", {"features": 4}),
        ("two_states", {"low": 3}),
    ],
)
def test_a_cache_changes_no_score_for_any_number_of_inner_iterations(
    name: str, inner: dict[str, int], early: ProbabilityShift | None
) -> None:
    model = token_model(PROGRAMS[name])
    ids, real = padded(LENGTHS, "left")
    assert_same_scores(model, ids, real, None, inner=inner, early_exit=early)
    plain, changed = (UncachedDecoder(model, inner=one).prefill(ids, real) for one in (None, inner))
    assert not torch.allclose(plain, changed)
    with pytest.raises(ValueError, match="no inner loop is named 'outer'"):
        CachedDecoder(model, batch=4, length=8, inner={"outer": 2})


@settings(max_examples=15)
@given(random_programs(causal=True), st.booleans(), st.sampled_from(("left", "right")), st.integers(1, 4))
def test_a_cache_changes_no_score_for_random_programs(
    program: Program, prefix_lm: bool, side: str, steps: int
) -> None:
    model = token_model(program, double=True, prefix_lm=prefix_lm, tied=False)
    assert_same_scores(model, *padded((3, 1, 4), side), steps)


@pytest.mark.parametrize("prefix_lm", [False, True])
@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_sequences_are_decoded_as_if_they_were_alone(name: str, side: str, prefix_lm: bool) -> None:
    """Against a forward pass over one unpadded sequence: positions and masks are right, not only alike."""
    model = token_model(PROGRAMS[name], prefix_lm=prefix_lm)
    ids, real = padded(LENGTHS, side)
    decoder = CachedDecoder(model, batch=4, length=11)
    found = [decoder.prefill(ids, real)] + [decoder.step(tokens) for tokens in next_tokens(4, 4)]
    for row in range(4):
        prefix = alone(ids, real, row)
        whole = torch.cat([prefix, next_tokens(4, 4)[None, :, row]], dim=1)
        expected = model(whole, prefix=torch.tensor([prefix.shape[1]]))[-1, 0, prefix.shape[1] - 1 :]
        torch.testing.assert_close(torch.stack([scores[row] for scores in found]), expected, **SINGLE)


def test_without_padding_no_mask_is_needed_and_nothing_changes() -> None:
    model = token_model(PROGRAMS["algoformer"])
    ids, real = padded((5, 5), "right")
    plain, marked = (CachedDecoder(model, batch=2, length=8) for _ in range(2))
    torch.testing.assert_close(plain.prefill(ids), marked.prefill(ids, real), **SINGLE)
    torch.testing.assert_close(plain.step(ids[:, 0]), marked.step(ids[:, 0]), **SINGLE)


def test_sequences_can_change_places_and_multiply() -> None:
    model = token_model(PROGRAMS["nested"])
    ids, real = padded((4, 2, 3), "left")
    rows = torch.tensor([2, 0, 0, 1])
    cached, uncached = CachedDecoder(model, batch=3, length=9), UncachedDecoder(model)
    for decoder in (cached, uncached):
        decoder.prefill(ids, real)
        decoder.step(torch.tensor([1, 2, 3]))
        decoder.select(rows)
    torch.testing.assert_close(cached.step(rows), uncached.step(rows), **SINGLE)
    swap = torch.tensor([1, 0, 3, 2])
    for decoder in (cached, uncached):
        decoder.select(swap)
    torch.testing.assert_close(cached.step(rows), uncached.step(rows), **SINGLE)


def test_beams_of_one_prefix_can_change_places_without_moving_it() -> None:
    model = token_model(PROGRAMS["algoformer"])
    ids, real = padded((4, 2), "right")
    decoders = [CachedDecoder(model, batch=2, length=9) for _ in range(2)]
    for decoder, same in zip(decoders, (True, False), strict=True):
        decoder.prefill(ids, real)
        decoder.select(torch.tensor([0, 0, 1, 1]))
        decoder.step(torch.tensor([1, 2, 3, 4]))
        decoder.select(torch.tensor([1, 1, 3, 2]), same_prefix=same)
    found = [decoder.step(torch.tensor([5, 6, 7, 8])) for decoder in decoders]
    torch.testing.assert_close(*found, rtol=0, atol=0)


@pytest.mark.parametrize("policy", ["full", "last"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_beams_that_share_a_cache_score_like_sequences_of_their_own(name: str, policy: str) -> None:
    model = token_model(PROGRAMS[name])
    ids, real = padded((5, 2, 4), "right")
    shared, single = (CachedDecoder(model, batch=3, length=10, policy=policy) for _ in range(2))
    for decoder in (shared, single):
        decoder.prefill(ids, real)
    shared.fork(2)
    single.select(torch.tensor([0, 0, 1, 1, 2, 2]))
    moves = [[0, 0, 3, 2, 4, 5], [1, 0, 2, 2, 5, 5], [4, 5, 1, 1], [3, 2]]  # the last two leave sequences out
    numbers = torch.Generator().manual_seed(0)
    for rows in moves:
        for decoder in (shared, single):
            decoder.select(torch.tensor(rows), same_prefix=True)
        tokens = torch.randint(13, (len(rows),), generator=numbers)
        torch.testing.assert_close(shared.step(tokens), single.step(tokens), rtol=0, atol=1e-5)
    assert shared.cache.bytes < single.cache.bytes


def test_sequences_fork_once_and_at_the_right_time() -> None:
    model = token_model(PROGRAMS["algoformer"])
    decoder = CachedDecoder(model, batch=1, length=6)
    decoder.prefill(torch.tensor([[1, 2]]))
    decoder.step(torch.tensor([3]))
    with pytest.raises(ValueError, match="directly after their prefix"):
        decoder.fork(2)
    decoder.cache.clear()
    decoder.prefill(torch.tensor([[1, 2]]))
    decoder.fork(2)
    with pytest.raises(ValueError, match="fork once"):
        decoder.fork(2)
    with pytest.raises(ValueError, match="make a new one"):
        decoder.cache.clear()


def test_a_step_keeps_its_tensors_where_they_are() -> None:
    """What a captured graph needs: the same addresses at every step, also when sequences change places."""
    model = token_model(PROGRAMS["algoformer"])
    decoder = CachedDecoder(model, batch=2, length=12)
    decoder.prefill(*padded((3, 2), "left"))

    def addresses() -> list[int]:
        cache = decoder.cache
        slots = [tensor for slot in cache.slots.values() for tensor in (slot.keys, slot.values)]
        return [tensor.data_ptr() for tensor in (*slots, cache.visible, cache.positions, cache.places)]

    before = addresses()
    for tokens in next_tokens(3, 2):
        decoder.step(tokens)
        decoder.select(torch.tensor([1, 0]))
    assert addresses() == before


def test_a_cleared_cache_is_as_good_as_new() -> None:
    model = token_model(PROGRAMS["algoformer"])
    decoder = CachedDecoder(model, batch=2, length=12)
    decoder.prefill(*padded((7, 6), "left", seed=1))
    decoder.step(torch.tensor([1, 2]))
    decoder.cache.clear()
    fresh = CachedDecoder(model, batch=2, length=12)
    ids, real = padded((2, 3), "right")
    assert torch.equal(decoder.prefill(ids, real), fresh.prefill(ids, real))
    assert torch.equal(decoder.step(ids[:, 0]), fresh.step(ids[:, 0]))


@pytest.mark.parametrize(("name", "side"), list(zip(PROGRAMS, cycle(("left", "right")), strict=False)))
def test_greedy_search_finds_the_same_tokens_with_and_without_a_cache(name: str, side: str) -> None:
    model = token_model(PROGRAMS[name])
    ids, real = padded(LENGTHS, side)
    cached = greedy_search(CachedDecoder(model, batch=4, length=18), ids, real, eos_id=0, max_new_tokens=12)
    uncached = greedy_search(UncachedDecoder(model), ids, real, eos_id=0, max_new_tokens=12)
    assert torch.equal(cached.tokens, uncached.tokens)
    torch.testing.assert_close(cached.scores, uncached.scores, **SINGLE)


def test_the_policy_last_reads_the_last_iteration_of_past_tokens() -> None:
    """By hand, for one looped layer: iteration t of a token sees past tokens as iteration T left them."""
    steps = 3
    model = token_model(programs.looped(heads=2, steps=steps))
    ids = torch.tensor([[1, 2, 3]])
    decoder = CachedDecoder(model, batch=1, length=6, policy="last")
    torch.testing.assert_close(decoder.prefill(ids), model(ids)[-1, :, -1], **SINGLE)  # a prefix is exact
    found = decoder.step(torch.tensor([4]))[0]

    module = model.trunk.body.parts[0].body.parts[0]
    layer, table = module.layers[0], module.positions.table
    entry = model.trunk.embedding.weight[torch.tensor([1, 2, 3, 4])]
    past = torch.zeros(3, 8)
    for _ in range(steps):
        sequence = past + entry[:3] + table[:3]
        past_in = layer.attention_norm(sequence)  # what the last iteration's keys and values are made of
        past = module.final_norm(layer(sequence[None])[0])
    state = torch.zeros(1, 8)
    for _ in range(steps):
        now = state + entry[3:] + table[3:4]
        seen = torch.cat([past_in, layer.attention_norm(now)])
        now = now + layer.attention(seen[None])[0, -1:]
        state = module.final_norm(now + layer.feedforward(layer.feedforward_norm(now)[None])[0])
    torch.testing.assert_close(found, model.scores(state)[0], **SINGLE)


def test_the_policy_last_is_exact_without_a_loop_and_for_one_iteration() -> None:
    for name, steps in (("standard", None), ("algoformer", 1)):
        model = token_model(PROGRAMS[name])
        ids, real = padded(LENGTHS, "left")
        found = []
        for policy in ("full", "last"):
            decoder = CachedDecoder(model, batch=4, length=9, steps=steps, policy=policy)
            decoder.prefill(ids, real)
            found.append(decoder.step(ids[:, 0]))
        assert torch.equal(*found)


def test_a_generated_token_does_not_see_beyond_its_prefix_in_full() -> None:
    """With prefix_lm the first prefix token sees the last one; without, it does not."""
    ids = torch.tensor([[1, 2, 3]])
    prefix = torch.tensor([3])
    for prefix_lm in (True, False):
        model = token_model(PROGRAMS["algoformer"], prefix_lm=prefix_lm)
        one, other = (model(torch.tensor([[1, 2, last]]), prefix=prefix) for last in (3, 4))
        assert torch.equal(one[:, :, :2], other[:, :, :2]) is not prefix_lm
        long = model(torch.cat([ids, ids[:, :1]], dim=1), prefix=prefix)
        torch.testing.assert_close(long[:, :, :3], one, **SINGLE)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda model: CachedDecoder(model, batch=1, length=25), "context=24"),
        (lambda model: CachedDecoder(model, batch=0, length=5), "batch must be at least 1, got 0"),
        (lambda model: CachedDecoder(model, batch=1, length=5, steps=0), "steps must be at least 1"),
        (lambda model: CachedDecoder(model, batch=1, length=5, policy="first"), "full, last"),
        (lambda model: decoder_of(model).prefill(torch.tensor([[13]])), "0..12, got 13..13"),
        (lambda model: decoder_of(model).prefill(torch.zeros(1, 9, dtype=torch.int64)), "does not fit"),
        (lambda model: decoder_of(model).prefill(torch.zeros(2, 1, dtype=torch.int64)), "batch=1"),
        (lambda model: decoder_of(model).prefill(torch.zeros(1, 0, dtype=torch.int64)), "at least one token"),
        (
            lambda model: decoder_of(model).prefill(torch.tensor([[1]]), torch.tensor([[False]])),
            "nothing but padding",
        ),
    ],
)
@pytest.mark.usefixtures("as_a_user")
def test_what_cannot_be_decoded_is_refused(call: object, words: str) -> None:
    model = token_model(PROGRAMS["looped"])
    with pytest.raises(ValueError, match=words):
        call(model)  # type: ignore[operator]


def decoder_of(model: TokenModel) -> CachedDecoder:
    return CachedDecoder(model, batch=1, length=3)


def test_a_full_cache_and_a_used_one_say_so() -> None:
    decoder = CachedDecoder(token_model(PROGRAMS["looped"]), batch=1, length=2)
    decoder.prefill(torch.tensor([[1]]))
    decoder.step(torch.tensor([1]))
    with pytest.raises(ValueError, match="length=2 tokens and is full"):
        decoder.step(torch.tensor([1]))
    with pytest.raises(ValueError, match=r"clear\(\)"):
        decoder.prefill(torch.tensor([[1]]))


def test_a_model_that_drops_out_is_not_decoded() -> None:
    model = token_model(PROGRAMS["looped"], dropout=0.1)
    CachedDecoder(model, batch=1, length=2)
    with pytest.raises(ValueError, match=r"model\.eval\(\)"):
        CachedDecoder(model.train(), batch=1, length=2)


def test_a_cache_holds_one_iteration_and_says_so() -> None:
    model = token_model(PROGRAMS["algoformer"])
    decoder = CachedDecoder(model, batch=1, length=4)
    decoder.cache.begin(torch.tensor([[True]]))
    context = ForwardContext(cache=decoder.cache.slot)
    with pytest.raises(ValueError, match="window=1"):
        model.trunk(torch.tensor([[1]]), Unroll(steps=4, window=2), context)


def test_on_a_cpu_nothing_is_captured() -> None:
    model = token_model(PROGRAMS["looped"])
    assert not CachedDecoder(model, batch=1, length=4).captured
    with pytest.raises(ValueError, match="only steps on CUDA without early exit can be captured"):
        CachedDecoder(model, batch=1, length=4, captured=True)


@pytest.mark.parametrize("name", PROGRAMS)
def test_steps_that_attend_to_all_places_as_on_cuda_give_the_same_scores(name: str) -> None:
    """There a mask of numbers hides the places that were not written yet."""
    model = token_model(PROGRAMS[name])
    ids, real = padded(LENGTHS, "left")
    cached, uncached = CachedDecoder(model, batch=len(ids), length=ids.shape[1] + 4), UncachedDecoder(model)
    cached.cache.reads_all = True
    for slot in cached.cache.slots.values():
        slot.keys.zero_()
        slot.values.zero_()
    torch.testing.assert_close(cached.prefill(ids, real), uncached.prefill(ids, real), **SINGLE)
    for tokens in next_tokens(4, len(ids)):
        torch.testing.assert_close(cached.step(tokens), uncached.step(tokens), **SINGLE)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")
@pytest.mark.parametrize("name", PROGRAMS)
def test_captured_steps_are_the_uncached_ones(name: str) -> None:
    """Also after a cache was cleared, and after sequences have changed places and multiplied."""
    model = token_model(PROGRAMS[name], prefix_lm=True).cuda()
    ids, real = (one.cuda() for one in padded(LENGTHS, "right"))
    cached = CachedDecoder(model, batch=len(ids), length=ids.shape[1] + 9)
    assert cached.captured
    for _ in range(2):
        uncached = UncachedDecoder(model)
        cached.cache.clear()
        torch.testing.assert_close(cached.prefill(ids, real), uncached.prefill(ids, real), **SINGLE)
        for tokens in next_tokens(4, len(ids)).cuda():
            torch.testing.assert_close(cached.step(tokens), uncached.step(tokens), **SINGLE)
    rows = torch.tensor([0, 0, 3, 2, 1, 1], device="cuda")
    for decoder in (cached, uncached):
        decoder.select(rows)
    for tokens in next_tokens(4, len(rows)).cuda():
        torch.testing.assert_close(cached.step(tokens), uncached.step(tokens), **SINGLE)
    found = [
        beam_search(decoder, ids, real, eos_id=0, max_new_tokens=8, beam=3)
        for decoder in (CachedDecoder(model, batch=len(ids), length=ids.shape[1] + 8), UncachedDecoder(model))
    ]
    assert torch.equal(found[0].tokens, found[1].tokens)
