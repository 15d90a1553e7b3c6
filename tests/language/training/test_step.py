"""The step on text beside the same written by hand."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from tests.language.training.small_text import LABELS, small_experiment, small_text

from algoformer.language import TextClassifier, TokenModel
from algoformer.language.tokenizer import EOS, TRANSLATE
from algoformer.language.training.experiment import build_text_model
from algoformer.language.training.step import TextStep, draws_of, make_batch
from algoformer.language.training.validation import validate
from algoformer.trace import Unroll


def test_the_loss_is_the_mean_over_iterations_and_tokens_of_translations() -> None:
    """Pair by pair without padding, token by token, with scores made as a whole."""
    text = small_text()
    experiment = small_experiment(text={"prefix_lm": True, "smoothing": 0.1})
    model = build_text_model(experiment, vocabulary=len(text.tokenizer))
    assert isinstance(model, TokenModel)
    step = TextStep(experiment, model, text.splits["train"])
    batch = make_batch(step.train, step.plan, 0)
    unroll = Unroll(steps=2, window=2)
    losses = []
    for row in batch.rows.tolist():
        source, target = step.train.source[row].tolist(), step.train.target[row].tolist()
        ids = torch.tensor([[*source, TRANSLATE, *target]])
        scores = model(ids, unroll, prefix=torch.tensor([len(source) + 1]))[:, 0, len(source) :]
        right = torch.tensor([*target, EOS])
        losses += [
            F.cross_entropy(scores[:, place].double(), word.expand(2), label_smoothing=0.1, reduction="none")
            for place, word in enumerate(right)
        ]
    expected = torch.stack(losses).mean(dim=0)
    found = step.loss(batch, unroll)
    torch.testing.assert_close(found.by_step.double(), expected, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(found.mean.double(), expected.mean(), rtol=1e-5, atol=1e-6)


def test_the_loss_of_labels_is_the_mean_over_iterations_and_texts() -> None:
    text, experiment = small_text("classification"), small_experiment("classification")
    model = build_text_model(experiment, vocabulary=len(text.tokenizer), labels=("bad", "good"))
    assert isinstance(model, TextClassifier)
    step = TextStep(experiment, model, text.splits["train"])
    batch, unroll = make_batch(step.train, step.plan, 0), Unroll(steps=2, window=2)
    expected = []
    for row in batch.rows.tolist():
        ids = torch.from_numpy(step.train.texts[row].astype("int64"))[None]
        scores = model(ids, torch.ones_like(ids, dtype=torch.bool), unroll)[:, 0]
        expected.append(-scores.log_softmax(dim=-1)[:, LABELS[row]])
    torch.testing.assert_close(step.loss(batch, unroll).mean, torch.stack(expected).mean())


def test_dropout_depends_on_seed_and_step_alone_and_disturbs_nobody() -> None:
    torch.manual_seed(5)
    wanted = torch.rand(3)
    torch.manual_seed(5)
    with draws_of(0, 7, torch.device("cpu")):
        first = torch.rand(4)
    assert torch.rand(3).equal(wanted)
    with draws_of(0, 7, torch.device("cpu")):
        torch.testing.assert_close(torch.rand(4), first, rtol=0, atol=0)
    with draws_of(0, 8, torch.device("cpu")):
        assert not torch.rand(4).equal(first)


@pytest.mark.parametrize("kind", ["translation", "classification"])
def test_bf16_gives_nearly_the_gradient_of_fp32(kind: str) -> None:
    text = small_text(kind)  # type: ignore[arg-type]
    labels = text.card["classes"]
    grads = []
    for precision in ("fp32", "bf16"):
        experiment = small_experiment(kind, precision=precision)  # type: ignore[arg-type]
        model = build_text_model(experiment, vocabulary=len(text.tokenizer), labels=labels)
        step = TextStep(experiment, model, text.splits["train"])
        step.loss(make_batch(step.train, step.plan, 0), Unroll(steps=2, window=2)).mean.backward()
        assert all(weight.grad is not None for weight in model.parameters())
        grads.append(torch.cat([weight.grad.flatten() for weight in model.parameters()]))
    assert F.cosine_similarity(grads[0], grads[1], dim=0) > 0.99
    assert not grads[0].equal(grads[1])


def test_validation_is_the_loss_over_all_rows_whatever_the_batches() -> None:
    text = small_text()
    found = []
    for budget in (48, 72, 500):
        experiment = small_experiment(text={"budget": budget, "dropout": 0.5})
        model = build_text_model(experiment, vocabulary=len(text.tokenizer))
        found.append(validate(model, text.splits["valid"], experiment.text))
        assert model.training
    # every token of the translations and six ends
    assert {one.loss.tokens for one in found} == {len(text.splits["valid"].target.ids) + 6}
    for one in found[1:]:
        assert one.loss.per_token == pytest.approx(found[0].loss.per_token, rel=1e-5)
