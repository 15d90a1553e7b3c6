"""Stopping rules: by formula, against a plain loop, and whatever else is in the batch."""

import math
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from algoformer.model import (
    AlgoFormer,
    Converged,
    Fixed,
    Gate,
    KLShift,
    Layers,
    Loop,
    ProbabilityShift,
    Program,
    SameAnswer,
    StateDifference,
    StoppingRule,
    parse_stopping,
)
from algoformer.prompt import Prompt
from algoformer.trace import Unroll

STEPS = 12
RULES: dict[str, StoppingRule] = {
    "fixed": Fixed(5),
    "converged": Converged(0.03),
    "converged every 2": Converged(0.03, every=2),
    "same": SameAnswer(3),
    "shift": ProbabilityShift(threshold=0.01),
    "shift twice": ProbabilityShift(threshold=0.02, times=2),
    "kl": KLShift(1e-4),
    "kl every 3": KLShift(1e-3, every=3),
    "state": StateDifference(0.02),
    "state every 2": StateDifference(0.15, every=2, times=2),
    "gate": Gate(0.8),
}


def model(halt: str = "gate", *, post: bool = True) -> AlgoFormer:
    """A contracting loop, so that there is something to converge to, at a pace that depends on the prompt."""
    words = {"heads": 2, "norm": False, "final_norm": False}
    loop = Loop(Layers(1, **words), STEPS, "gate", name="loop", halt=halt)
    after = [Layers(1, **words, name="post")] if post else []
    built = AlgoFormer(
        Program(Layers(1, **words, name="pre"), loop, *after), dim=4, out=3, context=8, width=8
    ).double()
    numbers = torch.Generator().manual_seed(5)
    constants = {"keep_gate": -0.5, "input_gate": 1.0, "halting.gate.bias": -2.0}
    for name, parameter in built.named_parameters():
        noise = 0.25 * torch.randn(parameter.shape, generator=numbers, dtype=torch.float64)
        fixed = [value for word, value in constants.items() if name.endswith(word)]
        if fixed:
            parameter.data.fill_(fixed[0])
        else:
            parameter.data = 2 * noise if name.endswith("halting.gate.weight") else noise
    return built


def prompt(batch: int = 6, seed: int = 0) -> Prompt:
    numbers = torch.Generator().manual_seed(seed)
    size = torch.logspace(-2, 0.8, batch, dtype=torch.float64)[:, None, None]
    xs = size * torch.randn(batch, 3, 4, generator=numbers, dtype=torch.float64)
    return Prompt.of_pairs(xs, torch.randn(batch, 3, 3, generator=numbers, dtype=torch.float64))


def states_of(built: AlgoFormer, shown: Prompt) -> Tensor:
    """The state of the loop before the first and after each iteration."""
    keep = tuple(f"loop[{number}]" for number in range(1, STEPS + 1))
    states = built(shown, Unroll(steps=STEPS, keep=keep)).states
    found = [states[name] for name in keep]
    return torch.stack([torch.zeros_like(found[0]), *found])


def kl(now: Tensor, before: Tensor) -> float:
    """The largest divergence, number by number."""
    new, old = now.softmax(-1).flatten(0, -2), before.softmax(-1).flatten(0, -2)
    return max(
        sum(p * math.log(p / q) for p, q in zip(one.tolist(), other.tolist(), strict=True))
        for one, other in zip(new, old, strict=True)
    )


def stop_by_hand(rule: StoppingRule, outputs: Tensor, states: Tensor, gates: Tensor) -> int:
    """The iteration at which a rule stops one prompt, from everything that it could ever read."""
    if isinstance(rule, Fixed):
        return rule.max_steps
    if isinstance(rule, Gate):
        for step in range(1, STEPS + 1):
            stay = [math.prod(1 - 1 / (1 + math.exp(-g)) for g in one) for one in gates[:step].T.tolist()]
            if all(1 - one >= rule.probability for one in stay):
                return step
        return STEPS
    read = [step for step in range(1, STEPS + 1) if step % rule.every == 0]
    if isinstance(rule, StateDifference):
        read = [0, *read]
    streak = 0
    for before, now in pairwise(read):
        old, new = outputs[before - 1], outputs[now - 1]
        if isinstance(rule, Converged):
            still = (new - old).abs().max().item() <= rule.tolerance
        elif isinstance(rule, SameAnswer):
            still = bool((new.argmax(-1) == old.argmax(-1)).all())
        elif isinstance(rule, ProbabilityShift):
            still = (new.softmax(-1) - old.softmax(-1)).abs().max().item() < rule.threshold
        elif isinstance(rule, KLShift):
            still = kl(new, old) < rule.threshold
        else:
            assert isinstance(rule, StateDifference)
            change = (states[now] - states[before]).norm(dim=-1) / states[now].norm(dim=-1)
            still = change.max().item() <= rule.tolerance
        streak = streak + 1 if still else 0
        if streak == rule.times:
            return now
    return STEPS


@pytest.mark.parametrize("name", RULES)
@pytest.mark.parametrize("post", [True, False])
def test_every_rule_stops_where_a_plain_loop_would(name: str, post: bool) -> None:
    built, shown, rule = model(post=post), prompt(), RULES[name]
    full, states = built(shown, Unroll(steps=STEPS)), states_of(built, shown)
    assert full.halting is not None
    trace = built(shown, stop=rule)
    assert trace.iterations is not None
    for place in range(shown.batch):
        by_hand = stop_by_hand(
            rule, full.predictions[:, place], states[:, place], full.halting[:, place].detach()
        )
        assert trace.iterations[place] == by_hand
        torch.testing.assert_close(
            trace.final[place], full.predictions[by_hand - 1, place].detach(), rtol=0, atol=1e-12
        )
    if name != "fixed":
        assert len(set(trace.iterations.tolist())) > 1, "all stopped together: nothing was tested"


@settings(max_examples=25)
@given(st.sampled_from(sorted(RULES)), st.sampled_from(["gate", "act"]), st.data())
def test_the_rest_of_the_batch_changes_nothing(name: str, halt: str, data: st.DataObject) -> None:
    built, shown = model(halt), prompt(8)
    together = built(shown, stop=RULES[name])
    rows = data.draw(st.lists(st.integers(0, 7), min_size=1, max_size=10))
    some = Prompt(rows=shown.rows[rows], targets=shown.targets[rows], reads=shown.reads, parts=shown.parts)
    found = built(some, stop=RULES[name])
    assert found.iterations is not None
    assert together.iterations is not None
    assert torch.equal(found.iterations, together.iterations[rows])
    torch.testing.assert_close(found.final, together.final[rows], rtol=0, atol=1e-12)


def test_the_output_is_read_once_where_a_rule_does_not_need_it(monkeypatch: pytest.MonkeyPatch) -> None:
    built, shown, reads = model(), prompt(), []
    plain = built.body.after

    def after(states: Tensor, context: object) -> Tensor:
        reads.append(states.shape[1])
        return plain(states, context)

    monkeypatch.setattr(built.body, "after", after)
    for rule in (StateDifference(0.02), Gate(0.8)):
        reads.clear()
        built(shown, stop=rule)
        assert reads == [shown.batch]


def test_a_rule_of_ones_own_reads_the_output_by_default() -> None:
    class Never:
        max_steps, every, times = 3, 1, 1

        def summary(self, output: Tensor) -> Tensor:
            assert output.shape[1:] == (3, 3)
            return output.flatten(1)

        def unchanged(self, before: Tensor, now: Tensor) -> Tensor:
            return torch.zeros(len(now), dtype=torch.bool)

    trace = model()(prompt(), stop=Never())
    assert trace.iterations is not None
    assert trace.iterations.tolist() == [3] * 6

    class Wrong(Never):
        reads = "mind"

    with pytest.raises(ValueError, match="reads must be one of output, state, gate, got 'mind'"):
        model()(prompt(), stop=Wrong())


def test_a_gate_is_needed_to_stop_by_it() -> None:
    with pytest.raises(ValueError, match=r"reads an exit gate, and the loop has none.*halt=\"gate\""):
        model("none")(prompt(), stop=Gate(0.5))


def test_states_that_blow_up_or_vanish() -> None:
    rule = StateDifference(0.1)
    before = torch.tensor([[[1.0, 0.0]], [[1.0, 0.0]], [[0.0, 0.0]], [[1.0, 1.0]]])
    now = torch.tensor([[[math.inf, 0.0]], [[math.nan, 0.0]], [[0.0, 0.0]], [[1.05, 1.0]]])
    assert rule.unchanged(before, now).tolist() == [False, False, True, True]


def test_a_divergence_with_impossible_choices() -> None:
    rule = KLShift(0.5)
    scores = torch.tensor([[0.0, -math.inf, 0.0], [0.0, 0.0, -math.inf], [0.0, 0.0, math.nan]])
    was = torch.tensor([[0.0, -math.inf, 0.1], [0.0, -math.inf, 0.0], [0.0, 0.0, 0.0]])
    found = rule.unchanged(rule.summary(was), rule.summary(scores))
    assert found.tolist() == [True, False, False]
    same = rule.summary(scores[:1])
    assert not KLShift(0.0).unchanged(same, same).item(), "threshold 0 never stops"


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("fixed:7", Fixed(7)),
        ("converged:1e-3", Converged(1e-3, 9)),
        ("state:0.03", StateDifference(0.03, 9)),
        ("same:2", SameAnswer(2, 9)),
        ("shift:0.01", ProbabilityShift(threshold=0.01, max_steps=9)),
        ("shift:0.01:4", ProbabilityShift(threshold=0.01, every=4, max_steps=9)),
        ("kl:1e-3", KLShift(1e-3, max_steps=9)),
        ("kl:1e-3:2", KLShift(1e-3, every=2, max_steps=9)),
        ("gate:0.9", Gate(0.9, 9)),
    ],
)
def test_rules_are_read_from_the_command_line(text: str, rule: StoppingRule) -> None:
    assert parse_stopping(text, max_steps=9) == rule


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("soon", "unknown stopping rule 'soon'; write fixed:STEPS, "),
        ("gate:0.9:2", "unknown stopping rule"),
        ("gate", "unknown stopping rule"),
        ("gate:2", "probability must be above 0 and at most 1, got 2.0; write gate:PROBABILITY"),
        ("state:x", "cannot read the stopping rule 'state:x'"),
        ("state:-1", "tolerance must not be negative, got -1.0"),
        ("kl:-1", "cannot be negative, got -1.0"),
        ("kl:1:0", "every must be at least 1, got 0"),
    ],
)
def test_rules_that_make_no_sense_are_refused(text: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        parse_stopping(text)


@pytest.mark.parametrize("rule", [Fixed, lambda count: Converged(0.1, max_steps=count)])
@pytest.mark.usefixtures("as_a_user")
def test_iterations_are_whole_numbers(rule: Callable[[Any], StoppingRule]) -> None:
    for count in (2.5, True, "3"):
        with pytest.raises(ValueError, match="must be a whole number, got"):
            rule(count)


@pytest.mark.usefixtures("as_a_user")
def test_a_number_is_not_a_stopping_rule() -> None:
    program = Program(Loop(Layers(1, heads=1), steps=2))
    model = AlgoFormer(program, dim=1, out=1, context=4, width=2)
    shown = Prompt.of_pairs(torch.ones(1, 2, 1), torch.ones(1, 2, 1))
    with pytest.raises(ValueError, match=r"such as Fixed\(8\) for 8 iterations, got 5 of type int"):
        model(shown, stop=5)  # type: ignore[arg-type]
