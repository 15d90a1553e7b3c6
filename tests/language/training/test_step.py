"""The step on text beside the same written by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from algoformer.language import TextClassifier, TokenModel
from algoformer.language.tokenizer import EOS, TRANSLATE
from algoformer.language.training import train_text
from algoformer.language.training.experiment import Kind, build_text_model
from algoformer.language.training.step import (
    TextStep,
    draws_of,
    make_batch,
    open_text_engine,
    plan_text_engine,
)
from algoformer.language.training.validation import validate
from algoformer.trace import Unroll
from algoformer.training.engine import Plan
from tests.language.training.small_text import LABELS, small_experiment, small_text
from tests.training.small import same_weights
from tests.training.test_engine import PretendCuda


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


@pytest.mark.usefixtures("as_a_user")
@pytest.mark.parametrize("kind", ["translation", "classification"])
def test_captured_steps_are_made_once_a_shape_and_take_the_same_steps(
    kind: Kind, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = small_text(kind)
    experiment = small_experiment(kind, text={"budget": 48, "dropout": 0.1, "word_dropout": 0.2}, steps=12)
    steps = []
    for _ in range(2):
        model = build_text_model(experiment, vocabulary=len(text.tokenizer), labels=("bad", "good"))
        steps.append(TextStep(experiment, model, text.splits["train"]))
    step, plain = steps
    pretended = PretendCuda(monkeypatch, step)
    kinds = set()
    with open_text_engine(step, Plan(engine="graph", reason="a test")) as run:
        for number in range(12):
            run(number)
            plain.run(number)
            kinds.add(plain.prepare(number))
            assert step.read_sums() == plain.read_sums()
    assert same_weights(step.model, plain.model)
    assert pretended.captures == len(kinds) > (kind == "translation")


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")
@pytest.mark.parametrize("kind", ["translation", "classification"])
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_on_a_gpu_captured_steps_are_the_eager_ones(kind: Kind, precision: Any) -> None:
    """Dropout included: what is left out is a function of the step's number, captured or not."""
    text = small_text(kind)
    shares = {"dropout": 0.1, "attention_dropout": 0.1, "word_dropout": 0.1, "smoothing": 0.1}
    experiment = small_experiment(
        kind, text={"budget": 48, **shares}, steps=12, log_every=1, ema=0.9, precision=precision
    )
    eager = train_text(experiment, text=text, device="cuda", engine="eager")
    graph = train_text(experiment, text=text, device="cuda", engine="graph")
    on_cpu = train_text(
        replace(experiment, text=replace(experiment.text, **dict.fromkeys(shares, 0.0))), text=text
    )
    without = train_text(on_cpu.experiment, text=text, device="cuda")
    close = 1e-5 if precision == "fp32" else 1e-2
    for one, other in ((eager, graph), (on_cpu, without)):
        for row, same in zip(one.metrics, other.metrics, strict=True):
            assert row["loss"] == pytest.approx(same["loss"], rel=close)


@pytest.mark.usefixtures("as_a_user")
def test_engines_that_text_does_not_have_are_refused() -> None:
    with pytest.raises(ValueError, match="engine must be one of auto, eager, graph, got 'fused'"):
        plan_text_engine("fused", torch.device("cpu"))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="needs a CUDA device, got cpu"):
        plan_text_engine("graph", torch.device("cpu"))
    assert plan_text_engine("auto", torch.device("cuda")).engine == "graph"


def test_word_dropout_leaves_out_whole_embeddings() -> None:
    text, experiment = small_text(), small_experiment(text={"word_dropout": 0.5})
    model = build_text_model(experiment, vocabulary=len(text.tokenizer)).train()
    ids = torch.randint(len(text.tokenizer), (20, 30), generator=torch.Generator().manual_seed(0))
    torch.manual_seed(0)
    found, whole = model.trunk.embed(ids), model.trunk.embedding(ids)
    left_out = (found == 0).all(dim=-1)
    assert torch.equal(found[~left_out], whole[~left_out])
    assert 0.4 < left_out.float().mean() < 0.6
    assert torch.equal(model.eval().trunk.embed(ids), whole)
