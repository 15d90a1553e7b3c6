"""Early exit: exact when it never leaves, and what it leaves behind when it does."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from algoformer import Layers, Loop, Program, programs
from algoformer.language import CachedDecoder, TokenModel, UncachedDecoder, generate
from algoformer.model.stopping import (
    Converged,
    Fixed,
    Gate,
    KLShift,
    ProbabilityShift,
    SameAnswer,
    StateDifference,
    StoppingRule,
)
from tests.language.small_models import PROGRAMS, padded, token_model
from tests.random_programs import programs as random_programs

LOOPS = ["looped", "algoformer", "algoformer_gate", "nested", "two_loops", "plain_branches"]
LOOPS += ["two_states", "step_signal"]

RULES: dict[str, StoppingRule] = {
    "fixed": Fixed(3),
    "converged": Converged(0.02),
    "same": SameAnswer(2),
    "shift": ProbabilityShift(threshold=0.004),
    "shift every 2": ProbabilityShift(threshold=0.01, every=2),
    "kl": KLShift(1e-4),
    "state": StateDifference(0.05),
    "gate": Gate(0.9),
}

WORDS = {"heads": 2}
HALTING = {
    "gate": Program(
        Layers(1, **WORDS, name="pre"),
        Loop(Layers(1, **WORDS), 8, "gate", name="loop", halt="gate"),
        Layers(1, **WORDS, name="post"),
    ),
    "nested": Program(
        Loop([Layers(1, **WORDS, name="outer"), Loop(Layers(1, **WORDS), 2)], 8, "gate", halt="gate")
    ),
    "act": Program(
        Loop(Layers(1, **WORDS), 8, "gate", step_signal="sinusoid", halt="act"), Layers(1, **WORDS)
    ),
    "ouro": programs.ouro(2, heads=2, steps=8, halt="gate"),
    "universal": programs.universal(heads=2, steps=8, halt="act"),
}


def halting_model(name: str) -> TokenModel:
    """A model whose tokens exit at different iterations."""
    model = token_model(HALTING[name], double=True)
    for key, parameter in model.named_parameters():
        if key.endswith("keep_gate"):
            parameter.data.fill_(-0.5)
        if key.endswith("halting.gate.bias"):
            parameter.data.fill_(-1.0)
    return model


@settings(max_examples=40)
@given(st.sampled_from(sorted(RULES)), st.sampled_from(sorted(HALTING)), st.data())
def test_the_rest_of_the_batch_changes_no_token(name: str, program: str, data: st.DataObject) -> None:
    """Random rows of a batch, some of them twice, against all rows."""
    model, rule = halting_model(program), RULES[name]
    policy = data.draw(st.sampled_from(["full", "last"]))
    ids, real = padded((5, 2, 4, 3, 1), "left")
    tokens = torch.tensor([[1, 2, 3, 4, 5], [5, 6, 7, 8, 9], [9, 1, 2, 3, 4]])
    rows = torch.tensor(data.draw(st.lists(st.integers(0, 4), min_size=1, max_size=6)))
    sizes = {"length": 9, "policy": policy, "early_exit": rule}
    whole, some = CachedDecoder(model, batch=5, **sizes), CachedDecoder(model, batch=len(rows), **sizes)
    whole.prefill(ids, real)
    some.prefill(ids[rows], real[rows])
    for token in tokens:
        expected, found = whole.step(token)[rows], some.step(token[rows])
        torch.testing.assert_close(found, expected, rtol=0, atol=1e-10)
        assert torch.equal(some.iterations, whole.iterations[rows])
    filled = some.cache.filled  # what lies behind was never written
    for address, slot in some.cache.slots.items():
        expected, found = whole.cache.slots[address].keys[rows, :, :filled], slot.keys[:, :, :filled]
        torch.testing.assert_close(found, expected, rtol=0, atol=1e-10)


@pytest.mark.parametrize("name", RULES)
def test_every_rule_lets_some_tokens_exit_before_others(name: str) -> None:
    ids, real = padded((5, 2, 4, 3, 1), "left")
    differ = []
    for program in HALTING:
        decoder = CachedDecoder(halting_model(program), batch=5, length=9, early_exit=RULES[name])
        decoder.prefill(ids, real)
        decoder.step(torch.tensor([1, 2, 3, 4, 5]))
        differ.append(len(decoder.iterations.unique()) > 1 and decoder.iterations.min() < 8)
    assert any(differ) or name == "fixed", "the tests above and below would test nothing"


@pytest.mark.parametrize("program", HALTING)
def test_with_a_fixed_number_of_iterations_it_is_the_model_itself(program: str) -> None:
    model, (ids, real) = halting_model(program), padded((5, 2, 4), "left")
    cached = CachedDecoder(model, batch=3, length=9, early_exit=Fixed(8))
    plain = UncachedDecoder(model)
    torch.testing.assert_close(cached.prefill(ids, real), plain.prefill(ids, real), rtol=0, atol=1e-10)
    for token in ([1, 2, 3], [4, 5, 6]):
        found, expected = (decoder.step(torch.tensor(token)) for decoder in (cached, plain))
        torch.testing.assert_close(found, expected, rtol=0, atol=1e-10)
    assert cached.iterations.tolist() == [8, 8, 8]


@pytest.mark.parametrize("policy", ["full", "last"])
def test_edited_states_do_not_change_who_exits_when(policy: str) -> None:
    """Edits keep stopped sequences in the batch, which then write nothing."""
    model, (ids, real) = halting_model("gate"), padded((5, 2, 4, 3), "left")
    results = []
    for edits in ({}, {"pre/0": lambda state: 1 * state}):
        decoder = CachedDecoder(model, batch=4, length=9, policy=policy, early_exit=KLShift(1e-4))
        decoder.prefill(ids, real)
        with model.edit(edits):
            scores = [decoder.step(torch.tensor(token)) for token in ([1, 2, 3, 4], [5, 6, 7, 8])]
        results.append((torch.stack(scores), decoder.iterations))
    torch.testing.assert_close(*(scores for scores, _ in results), rtol=0, atol=1e-10)
    assert torch.equal(*(iterations for _, iterations in results))
    assert len(results[0][1].unique()) > 1


def test_stopped_sequences_are_not_computed() -> None:
    model, (ids, real) = halting_model("gate"), padded((5, 2, 4, 3, 1), "left")
    decoder = CachedDecoder(model, batch=5, length=9, early_exit=StateDifference(0.05))
    decoder.prefill(ids, real)
    seen: list[int] = []
    loop = model.body.parts[1].body
    hook = loop.register_forward_pre_hook(lambda module, given: seen.append(len(given[0])))
    decoder.step(torch.tensor([1, 2, 3, 4, 5]))
    hook.remove()
    assert sum(seen) == decoder.iterations.sum()


def test_a_rule_that_reads_a_gate_needs_one() -> None:
    with pytest.raises(ValueError, match="reads an exit gate, and the loop has none"):
        CachedDecoder(token_model(PROGRAMS["looped"]), batch=1, length=4, early_exit=Gate(0.5))


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
    torch.testing.assert_close(plain.scores, patient.scores, rtol=0, atol=1e-5)
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
