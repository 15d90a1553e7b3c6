"""A classifier sees the real tokens, and nothing else."""

import pytest
import torch

from algoformer import Unroll, programs
from algoformer.language import TextClassifier
from algoformer.model import Layers, Loop, Program
from algoformer.model.stopping import Gate, ProbabilityShift, StateDifference, StoppingRule
from tests.language.small_models import VOCABULARY, alone, lively, padded

PROGRAMS = {
    "standard": programs.standard(3, heads=1, causal=False),
    "looped": programs.looped(heads=1, steps=3, causal=False),
    "algoformer": programs.algoformer(heads=1, steps=4, causal=False),
    "causal": programs.algoformer(heads=1, steps=4),
    "nested": programs.nested(heads=2, steps=2, inner_steps=2, causal=False),
}


def classifier(name: str) -> TextClassifier:
    torch.manual_seed(0)
    labels = ("sport", "world", "business")
    model = TextClassifier(PROGRAMS[name], labels=labels, vocabulary=VOCABULARY, context=16, width=8).eval()
    lively(model, scale=0.3)
    return model


@pytest.mark.parametrize("name", PROGRAMS)
def test_padding_changes_no_score(name: str) -> None:
    """Left, right, more of it, and with anything written in it: as if each text were alone."""
    model, unroll = classifier(name), Unroll(steps=5, window=3)
    for side in ("left", "right"):
        ids, real = padded((7, 2, 4), side)
        found = model(ids, real, unroll)
        more = torch.nn.functional.pad(ids, (2, 3), value=5), torch.nn.functional.pad(real, (2, 3))
        torch.testing.assert_close(model(*more, unroll), found, rtol=0, atol=1e-5)
        torch.testing.assert_close(model(ids.masked_fill(~real, 7), real, unroll), found, rtol=0, atol=1e-5)
        for row in range(3):
            text = alone(ids, real, row)
            expected = model(text, torch.ones_like(text, dtype=torch.bool), unroll)[:, 0]
            torch.testing.assert_close(found[:, row], expected, rtol=0, atol=1e-5)


def test_scores_come_from_the_mean_of_the_final_states() -> None:
    model = classifier("algoformer")
    ids = torch.tensor([[1, 2, 3]])
    real = torch.ones_like(ids, dtype=torch.bool)
    states = model.trunk(ids, Unroll(steps=4, window=2))
    expected = states.mean(dim=2) @ model.head.weight.T + model.head.bias
    torch.testing.assert_close(model(ids, real, Unroll(steps=4, window=2)), expected, rtol=0, atol=1e-6)


@pytest.mark.parametrize("name", ["looped", "algoformer", "causal", "nested"])
@torch.no_grad()
def test_a_stopping_rule_gives_each_text_the_scores_of_its_iteration(name: str) -> None:
    """The rule is applied by hand to the scores of all iterations of an ordinary forward pass."""
    model, steps = classifier(name), 8
    ids, real = padded((7, 2, 4, 1, 6), "right")
    every = model(ids, real, Unroll(steps=steps))
    shifts = every.softmax(dim=-1).diff(dim=0).abs().amax(dim=-1)  # (step - 1, batch)
    rule = ProbabilityShift(threshold=float(shifts[0].mean()), max_steps=steps)
    small = torch.cat([shifts < rule.threshold, torch.ones(1, len(ids), dtype=torch.bool)])
    expected = (small.int().argmax(dim=0) + 2).clamp(max=steps)
    scores, iterations = model.settle(ids, real, rule)
    assert iterations.tolist() == expected.tolist()
    assert len(set(expected.tolist())) > 1
    torch.testing.assert_close(scores, every[expected - 1, torch.arange(len(ids))], rtol=0, atol=1e-5)


@pytest.mark.parametrize("rule", [Gate(0.9, 9), StateDifference(0.05, 9), StateDifference(0.2, 9)], ids=str)
@pytest.mark.parametrize("side", ["left", "right"])
@torch.no_grad()
def test_padding_keeps_no_text_running(rule: StoppingRule, side: str) -> None:
    """Padding has states and gates too, which settle later than those of the text."""
    loop = Loop(Layers(1, 2, causal=False), 9, damp=0.4, halt="gate")
    torch.manual_seed(0)
    options = {"vocabulary": VOCABULARY, "context": 16, "width": 8}
    model = TextClassifier(Program(loop), labels=("one", "other"), **options).eval()
    lively(model, scale=0.4)
    ids, real = padded((1, 2, 3, 4, 5, 12), side)
    found = model.settle(ids, real, rule)
    texts = [alone(ids, real, row) for row in range(len(ids))]
    each = [model.settle(text, torch.ones_like(text, dtype=torch.bool), rule) for text in texts]
    assert found.iterations.tolist() == [int(one.iterations) for one in each]
    assert len(set(found.iterations.tolist())) > 1
    torch.testing.assert_close(found.output, torch.cat([one.output for one in each]), rtol=0, atol=1e-5)


def test_an_encoder_reads_in_both_directions() -> None:
    model = classifier("algoformer")
    one, other = torch.tensor([[1, 2, 3]]), torch.tensor([[1, 2, 4]])
    assert not torch.equal(model.trunk(one)[0, 0, 0], model.trunk(other)[0, 0, 0])


def test_a_text_without_tokens_has_scores_all_the_same() -> None:
    model = classifier("algoformer")
    ids = torch.tensor([[1, 2], [1, 2]])
    scores = model(ids, torch.tensor([[True, True], [False, False]]))
    torch.testing.assert_close(scores[0, 1], model.head.bias, rtol=0, atol=0)
    assert scores.isfinite().all()


@pytest.mark.parametrize("labels", [["one"], ["one", "one"]])
def test_labels_must_be_different_names(labels: list[str]) -> None:
    with pytest.raises(ValueError, match="two or more different names"):
        TextClassifier(PROGRAMS["looped"], labels=labels, vocabulary=5, context=8, width=8)
