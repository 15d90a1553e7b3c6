"""Early exit: exact when it never leaves, and what it leaves behind when it does."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from algoformer import Program, programs
from algoformer.language import CachedDecoder, generate
from algoformer.model.stopping import ProbabilityShift
from tests.language.small_models import PROGRAMS, padded, token_model
from tests.random_programs import programs as random_programs

LOOPS = ["looped", "algoformer", "algoformer_gate", "nested", "two_loops", "plain_branches"]
LOOPS += ["two_states", "step_signal"]


@pytest.mark.parametrize("policy", ["full", "last"])
@pytest.mark.parametrize("every", [1, 2])
@pytest.mark.parametrize("name", LOOPS)
def test_with_threshold_zero_it_never_leaves_and_changes_nothing(name: str, every: int, policy: str) -> None:
    model = token_model(PROGRAMS[name])
    ids, real = padded((5, 2, 4), "left")
    options = {"eos_id": 0, "max_new_tokens": 8, "beam": 2, "policy": policy}
    plain = generate(model, ids, real, **options)
    patient = generate(model, ids, real, **options, early_exit=ProbabilityShift(threshold=0, every=every))
    assert torch.equal(plain.tokens, patient.tokens)
    assert torch.equal(plain.scores, patient.scores)
    assert patient.iterations == plain.iterations


@settings(max_examples=8)
@given(random_programs(causal=True, loops=True, most=2), st.integers(1, 3))
def test_with_threshold_zero_it_changes_nothing_for_random_programs(program: Program, every: int) -> None:
    model = token_model(program, double=True)
    ids, real = padded((3, 1), "right")
    decoders = [
        CachedDecoder(model, batch=2, length=6, steps=3, early_exit=rule)
        for rule in (None, ProbabilityShift(threshold=0, every=every))
    ]
    for decoder in decoders:
        decoder.prefill(ids, real)
    for token in (1, 2, 3):
        one, other = (decoder.step(torch.tensor([token, token])) for decoder in decoders)
        assert torch.equal(one, other)


@pytest.mark.parametrize("name", ["looped", "algoformer", "nested"])
def test_leaving_at_the_second_look_is_running_two_iterations(name: str) -> None:
    """Threshold 1 leaves as soon as there are two distributions to compare."""
    model = token_model(PROGRAMS[name])
    ids = torch.tensor([[1, 2, 3]])
    steps = 5
    early = CachedDecoder(model, batch=1, length=6, steps=steps, early_exit=ProbabilityShift(threshold=1))
    short = CachedDecoder(model, batch=1, length=6, steps=2)
    for decoder in (early, short):
        decoder.prefill(ids)
    # the prefix was read with other numbers of iterations; give the short one the long one's first two
    for address, slot in short.cache.slots.items():
        slot.keys.copy_(early.cache.slots[address].keys)
        slot.values.copy_(early.cache.slots[address].values)
    torch.testing.assert_close(
        early.step(torch.tensor([4])), short.step(torch.tensor([4])), rtol=0, atol=1e-6
    )
    assert early.iterations.tolist() == [2]
    # and the iterations that were left out hold what the second one wrote
    for address, slot in early.cache.slots.items():
        for later in range(3, steps + 1):
            if address.startswith(f"loop[{later}]"):
                second = early.cache.slots[address.replace(f"loop[{later}]", "loop[2]")]
                assert torch.equal(slot.keys[:, :, 3], second.keys[:, :, 3])
                assert torch.equal(slot.values[:, :, 3], second.values[:, :, 3])


@pytest.mark.parametrize("policy", ["full", "last"])
@pytest.mark.parametrize("name", ["looped", "algoformer", "nested"])
def test_a_sequence_leaves_as_if_it_were_alone(name: str, policy: str) -> None:
    model = token_model(PROGRAMS[name])
    ids, real = padded((5, 2, 4, 3), "left")
    tokens = torch.tensor([[1, 2, 3, 4], [5, 6, 7, 8], [9, 1, 2, 3]])
    # a threshold in between: some leave, some do not
    rule = ProbabilityShift(threshold=0.02)
    sizes = {"length": 9, "steps": 8, "policy": policy, "early_exit": rule}
    together = CachedDecoder(model, batch=4, **sizes)
    together.prefill(ids, real)
    found, taken = [], []
    for token in tokens:
        found.append(together.step(token))
        taken.append(together.iterations)
    for row in range(4):
        single = CachedDecoder(model, batch=1, **sizes)
        single.prefill(ids[row : row + 1], real[row : row + 1])
        for place, token in enumerate(tokens):
            scores = single.step(token[row : row + 1])
            torch.testing.assert_close(scores[0], found[place][row], rtol=0, atol=1e-5)
            assert single.iterations[0] == taken[place][row]
    assert len(torch.stack(taken).unique()) > 1, "all took the same number of iterations: nothing was tested"


def test_it_saves_iterations_where_the_loop_converges() -> None:
    """A gated loop whose body adds nothing contracts; its distribution stops changing long before the end."""
    model = token_model(programs.looped(heads=2, steps=60, inject="gate"))
    with torch.no_grad():
        model.trunk.body.parts[0].injection.keep_gate.fill_(-2.0)
    ids, real = padded((5, 2), "left")
    full = generate(model, ids, real, eos_id=0, max_new_tokens=10)
    early = generate(
        model, ids, real, eos_id=0, max_new_tokens=10, early_exit=ProbabilityShift(threshold=1e-4)
    )
    assert full.iterations == 60
    assert early.iterations < 45
    assert torch.equal(full.tokens, early.tokens)


@pytest.mark.parametrize("name", ["standard", "parallel"])
def test_a_program_without_a_loop_of_its_own_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="early stopping needs a program whose last looping part is a Loop"):
        CachedDecoder(
            token_model(PROGRAMS[name]), batch=1, length=4, early_exit=ProbabilityShift(threshold=0.1)
        )


@pytest.mark.parametrize(("options", "words"), [({"threshold": -1}, "0..1, got -1"), ({"every": 0}, "every")])
def test_impossible_rules_are_refused(options: dict[str, int], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        ProbabilityShift(**{"threshold": 0.1, **options})
