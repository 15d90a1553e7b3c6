"""Runs on text: they learn, they go on exactly where they stopped, and the best weights are kept."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from algoformer.checkpoint import BEST
from algoformer.common.files import read_tensors, write_tensors
from algoformer.data.protocol import Share
from algoformer.language.classify import Classifier
from algoformer.language.packing import pack, unpack
from algoformer.language.tokenizer import EOS, TRANSLATE
from algoformer.language.tokens import TokenPairs, TokenTexts
from algoformer.language.translate import Decoding, Translator
from algoformer.model.program import default_steps
from algoformer.model.stopping import ProbabilityShift, StateDifference
from algoformer.trace import Unroll
from algoformer.training import (
    TrainConfig,
    build_model,
    load_checkpoint,
    load_experiment,
    read_metrics,
    train,
)
from algoformer.training.engine import Plan, open_engine, plan_for
from algoformer.training.step import Step
from tests.data.small_text import ENGLISH, GERMAN, LABELS, Kind, small_data, small_experiment, small_text
from tests.training.small import loss_at, same_weights, timeless, told
from tests.training.test_engine import PretendCuda

FULL = {"dropout": 0.1, "attention_dropout": 0.1, "label_smoothing": 0.1}


def test_a_handful_of_sentences_is_learned_by_heart() -> None:
    experiment = small_experiment(data={"batch_tokens": 200}, steps=100, log_every=50, validate_every=50)
    experiment = replace(experiment, training=replace(experiment.training, optimizer="muon"))
    run = train(experiment)
    for decoding in ({"beam": 1}, {"beam": 3, "batch": 4}):
        (found,) = experiment.data.evaluate(run.model, **decoding)
        assert found.hypotheses == ENGLISH
        assert found.scores["BLEU"].value == pytest.approx(100)


def test_labels_are_learned_by_heart() -> None:
    run = train(small_experiment("labels", data={"batch_tokens": 100}, steps=40, validate_every=20))
    assert run.metrics[-1]["valid_accuracy"] == 1
    (found,) = run.experiment.data.evaluate(run.model)
    assert (found.rows, found.scores["accuracy"].value) == (8, 100)


@pytest.mark.parametrize(
    ("kind", "training"),
    [
        ("translation", {"optimizer": "muon", "ema": 0.9}),
        ("translation", {"precision": "bf16", "schedule": "cosine", "clip_norm": 0.5}),
        ("labels", {"optimizer": "adamw", "weight_decay": 0.1}),
    ],
)
def test_a_run_in_two_parts_is_the_run_in_one(kind: Kind, training: Any, tmp_path: Path) -> None:
    experiment = small_experiment(kind, data=FULL, **training)
    whole = train(experiment, tmp_path / "whole")

    def stop(done: int, total: int, metrics: Any) -> None:
        if done == 4:
            raise RuntimeError("stop")

    with pytest.raises(RuntimeError):  # the checkpoint of step 4 is not written yet: that of step 0 is
        train(experiment, tmp_path / "parts", callbacks=told(stop))
    assert load_checkpoint(tmp_path / "parts" / "checkpoint.safetensors").card["step"] == 0
    first = train(experiment, tmp_path / "parts", resume=True, max_minutes=1e-9)
    assert first.step < 8
    for _ in range(8):
        torch.rand(3)  # whatever is drawn elsewhere must not matter
        last = train(experiment, tmp_path / "parts", resume=True, max_minutes=1e-9)
    assert last.finished
    assert same_weights(whole.model, last.model)
    assert timeless(whole.metrics) == timeless(last.metrics) == timeless(read_metrics(tmp_path / "parts"))
    saved = [load_checkpoint(tmp_path / name / "checkpoint.safetensors") for name in ("whole", "parts")]
    assert saved[0].state.keys() == saved[1].state.keys()
    assert all(value.equal(saved[1].state[name]) for name, value in saved[0].state.items())
    assert (whole.best, load_experiment(tmp_path / "parts")) == (last.best, experiment)


def test_packed_text_trains_the_same_model(tmp_path: Path) -> None:
    pack(tmp_path / "text", small_text())
    one = train(small_experiment(data=FULL))
    other = train(small_experiment(data={**FULL, "packed": unpack(tmp_path / "text")}))
    assert same_weights(one.model, other.model)


def test_the_best_translator_is_the_one_with_the_lowest_validation_loss(tmp_path: Path) -> None:
    # a rate that soon is far too high: it gets worse again
    experiment = small_experiment(steps=24, lr=0.3, validate_every=2)
    run = train(experiment, tmp_path / "run")
    losses = {int(row["step"]): row["valid_loss"] for row in run.metrics}
    best = min(losses, key=lambda step: losses[step])
    card = load_checkpoint(tmp_path / "run" / BEST).card
    assert run.best is not None
    assert run.best["step"] == card["step"] == best
    assert card["valid_loss"] == losses[best]
    assert card["experiment"] == experiment.to_data()
    assert card["notes"] == ["made by hand"]


@pytest.mark.parametrize(("kind", "best"), [("labels", 6), ("translation", 8)])
def test_the_best_classifier_has_most_right_answers_then_the_lowest_loss(
    kind: Kind, best: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # accuracy and loss; of translations only the loss is known
    found = {2: (5 / 8, 1.0), 4: (7 / 8, 2.0), 6: (7 / 8, 1.5), 8: (6 / 8, 0.5)}
    experiment, steps = small_experiment(kind, validate_every=2), iter(found)

    def scripted(*_: Any, **__: Any) -> dict[str, float]:
        accuracy, loss = found[next(steps)]
        return {"valid_loss": loss} | ({"valid_accuracy": accuracy} if kind == "labels" else {})

    def stop(done: int, total: int, metrics: Any) -> None:
        if done == 4:
            raise KeyboardInterrupt

    monkeypatch.setattr(type(experiment.data), "validate", scripted)
    with pytest.raises(KeyboardInterrupt):
        train(experiment, tmp_path / "run", callbacks=told(stop))
    assert load_checkpoint(tmp_path / "run" / BEST).card["step"] == (4 if kind == "labels" else 2)
    run = train(experiment, tmp_path / "run", resume=True)
    card = load_checkpoint(tmp_path / "run" / BEST).card
    assert run.best is not None
    assert run.best["step"] == card["step"] == best
    assert card["valid_loss"] == found[best][1]
    assert card.get("valid_accuracy") == (7 / 8 if kind == "labels" else None)


def test_a_run_stops_when_validation_has_not_improved_for_its_patience(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    losses = iter([3.0, 2.0, 2.5, 2.4, 1.0])
    experiment = small_experiment(validate_every=2, patience=2, steps=20)
    monkeypatch.setattr(type(experiment.data), "validate", lambda *_, **__: {"valid_loss": next(losses)})
    run = train(experiment, tmp_path / "run")
    assert (run.step, run.stopped_early, run.finished) == (8, True, True)
    assert run.best == {"step": 4, "valid_loss": 2.0}
    again = train(experiment, tmp_path / "run", resume=True)
    assert (again.step, again.stopped_early) == (8, True)


@pytest.mark.parametrize("only_words", [True, False])
def test_a_checkpoint_says_how_its_text_was_spelled(only_words: bool) -> None:
    text = small_text("labels")
    text = replace(text, card=dict(text.card) | {"spelling": {"lowercase": True, "only_words": only_words}})
    run = train(small_experiment("labels", data={"packed": text}, steps=2, validate_every=2))
    assert Classifier(run.checkpoint).only_words == only_words


def test_a_translator_that_reads_from_left_to_right_is_scored_and_used_like_any_other() -> None:
    experiment = small_experiment(data={"prefix_lm": False}, steps=2, validate_every=2)
    run = train(experiment)
    (found,) = experiment.data.evaluate(run.model, beam=1)
    assert found.hypotheses == tuple(Translator(run.checkpoint, Decoding(beam=1)).translate(GERMAN))


@pytest.mark.parametrize("kind", ["translation", "labels"])
def test_a_stopping_rule_is_scored_with_the_iterations_it_took(kind: Kind) -> None:
    experiment = small_experiment(kind, steps=4)
    run, steps = train(experiment), default_steps(experiment.program)
    (full,) = experiment.data.evaluate(run.model)
    assert full.iterations is None
    (patient,) = experiment.data.evaluate(run.model, early_exit=ProbabilityShift(threshold=0))
    assert patient.iterations == steps
    assert patient.hypotheses == full.hypotheses
    assert patient.scores == full.scores
    (hasty,) = experiment.data.evaluate(run.model, early_exit=StateDifference(1e9))
    assert 1 <= hasty.iterations < steps
    assert hasty.to_data()["iterations"] == hasty.iterations


def test_a_run_is_not_resumed_with_other_text(tmp_path: Path) -> None:
    experiment = small_experiment()
    train(experiment, tmp_path / "run", max_minutes=1e-9)
    text = small_text()
    other = replace(text, tokenizer=type(text.tokenizer)(text.tokenizer.merges[:-1]))
    swapped = type(text.splits["train"])(
        source=text.splits["train"].target, target=text.splits["train"].source
    )
    for changed in (other, replace(text, splits={**text.splits, "train": swapped})):
        with pytest.raises(ValueError, match="not the one that the run began with"):
            train(small_experiment(data={"packed": changed}), tmp_path / "run", resume=True)


def test_a_run_is_not_resumed_with_other_labels(tmp_path: Path) -> None:
    train(small_experiment("labels"), tmp_path / "run", max_minutes=1e-9)
    text = small_text("labels")
    split: Any = text.splits["train"]
    turned = TokenTexts(texts=split.texts, labels=1 - split.labels)
    changed = small_experiment(
        "labels", data={"packed": replace(text, splits={**text.splits, "train": turned})}
    )
    with pytest.raises(ValueError, match="the labels are not those that the run began with"):
        train(changed, tmp_path / "run", resume=True)
    assert train(small_experiment("labels"), tmp_path / "run", resume=True).finished


def test_a_run_from_before_labels_had_a_digest_goes_on(tmp_path: Path) -> None:
    whole = train(small_experiment("labels"), tmp_path / "whole")
    train(small_experiment("labels"), tmp_path / "run", max_minutes=1e-9)
    file = tmp_path / "run" / "checkpoint.safetensors"
    header, tensors = read_tensors(file, lambda *content: content, what="checkpoint")
    assert len(header["data"].pop("labels_digest")) == 64
    write_tensors(file, header, tensors)
    stored = load_checkpoint(file)
    assert stored.data.header()["labels_digest"] == ""  # type: ignore[union-attr]
    last = train(small_experiment("labels"), tmp_path / "run", resume=True)
    assert same_weights(last.model, whole.model)
    again = load_checkpoint(file).data
    assert again.header()["labels_digest"] == small_data("labels").train_labels_digest  # type: ignore[union-attr]


def test_the_error_of_a_classifier_is_the_share_of_wrong_labels() -> None:
    metrics = {"valid_accuracy": 0.75, "valid_loss": 2.0}
    assert small_data("labels").merit(metrics) == (-0.25, -2.0)


@pytest.mark.parametrize("kind", ["translation", "labels"])
def test_a_run_is_not_evaluated_with_other_text(kind: Kind) -> None:
    data = small_data(kind)
    model = data.build_model(small_experiment(kind).program, 16, TrainConfig())
    stored, text = type(data).from_header(data.header()), small_text(kind)
    assert len(replace(stored, packed=text).evaluate(model)) == 1
    fewer = {**text.splits, "train": _changed(text.splits["train"])}
    with pytest.raises(ValueError, match="not the one that the run was trained on"):
        replace(stored, packed=replace(text, splits=fewer)).evaluate(model)


def _changed(split: Any) -> Any:
    if isinstance(split, TokenTexts):
        return TokenTexts(texts=split.texts.take([1, 0]), labels=split.labels[:2])
    return TokenPairs(source=split.target, target=split.source)


def test_the_loss_is_the_mean_over_iterations_and_tokens_of_translations() -> None:
    """Pair by pair without padding, token by token, with scores made as a whole."""
    experiment = small_experiment(data={"prefix_lm": True, "label_smoothing": 0.1})
    step = Step(experiment, build_model(experiment))
    model: Any = step.model
    split: Any = experiment.data.text.splits["train"]
    unroll = Unroll(steps=2, window=2)
    losses = []
    for row in step.batches.plan.rows(0)[1].tolist():  # type: ignore[attr-defined]
        source, target = split.source[row].tolist(), split.target[row].tolist()
        ids = torch.tensor([[*source, TRANSLATE, *target]])
        scores = model(ids, unroll, prefix=torch.tensor([len(source) + 1]))[:, 0, len(source) :]
        losses += [
            F.cross_entropy(scores[:, place].double(), word.expand(2), label_smoothing=0.1, reduction="none")
            for place, word in enumerate(torch.tensor([*target, EOS]))
        ]
    expected = torch.stack(losses).mean(dim=0)
    step.prepare(0)
    found = step.loss(step.batches.current(), unroll)
    torch.testing.assert_close(found.value.double(), expected.mean(), rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(found.sums[1].double(), expected[-1], rtol=1e-5, atol=1e-6)


def test_the_loss_of_labels_is_the_mean_over_iterations_and_texts() -> None:
    experiment = small_experiment("labels")
    step = Step(experiment, build_model(experiment))
    model: Any = step.model
    unroll, split, expected = Unroll(steps=2, window=2), experiment.data.text.splits["train"], []
    for row in step.batches.plan.rows(0)[1].tolist():  # type: ignore[attr-defined]
        ids = torch.from_numpy(split.texts[row].astype("int64"))[None]
        scores = model(ids, torch.ones_like(ids, dtype=torch.bool), unroll)[:, 0]
        expected.append(-scores.log_softmax(dim=-1)[:, LABELS[row]])
    step.prepare(0)
    found = step.loss(step.batches.current(), unroll)
    torch.testing.assert_close(found.value, torch.stack(expected).mean())


@pytest.mark.parametrize("kind", ["translation", "labels"])
def test_the_mean_loss_of_two_processes_is_that_of_one(kind: Kind) -> None:
    experiment = small_experiment(kind)
    step = Step(experiment, build_model(experiment))
    for number in range(4):
        step.prepare(number)
        whole = step.loss(step.batches.current(), step.unroll)
        parts = []
        for rank in range(2):
            batches = experiment.data.batches(step.model, experiment.training, Share(rank, 2))
            batches.select(number)
            parts.append(step.loss(batches.current(), step.unroll))
        for place in range(3):
            mean = (parts[0].sums[place] + parts[1].sums[place]) / 2
            torch.testing.assert_close(mean, whole.sums[place])


def test_dropout_depends_on_seed_and_step_alone_and_disturbs_nobody() -> None:
    experiment = small_experiment()
    step = Step(experiment, build_model(experiment))
    torch.manual_seed(5)
    wanted = torch.rand(3)
    torch.manual_seed(5)
    with step.draws(7):
        first = torch.rand(4)
    assert torch.rand(3).equal(wanted)
    with step.draws(7):
        assert torch.rand(4).equal(first)
    with step.draws(8):
        assert not torch.rand(4).equal(first)


@pytest.mark.parametrize("kind", ["translation", "labels"])
def test_bf16_gives_nearly_the_gradient_of_fp32(kind: Kind) -> None:
    grads = []
    for precision in ("fp32", "bf16"):
        experiment = small_experiment(kind, precision=precision)
        step = Step(experiment, build_model(experiment))
        loss_at(step).backward()
        assert all(weight.grad is not None for weight in step.model.parameters())
        grads.append(torch.cat([weight.grad.flatten() for weight in step.model.parameters()]))
    assert F.cosine_similarity(grads[0], grads[1], dim=0) > 0.99
    assert not grads[0].equal(grads[1])


def test_validation_is_the_loss_over_all_rows_whatever_the_batches() -> None:
    found = []
    for batch_tokens in (48, 72, 500):
        experiment = small_experiment(data={"batch_tokens": batch_tokens, "dropout": 0.5})
        model = build_model(experiment)
        split: Any = experiment.data.text.splits["valid"]
        found.append(experiment.data.split_loss(model, split))
        assert model.training
    # every token of the translations and six ends
    assert {one.tokens for one in found} == {len(split.target.ids) + 6}
    for one in found[1:]:
        assert one.per_token == pytest.approx(found[0].per_token, rel=1e-5)


@pytest.mark.usefixtures("as_a_user")
@pytest.mark.parametrize("kind", ["translation", "labels"])
def test_captured_steps_are_made_once_a_shape_and_take_the_same_steps(
    kind: Kind, monkeypatch: pytest.MonkeyPatch
) -> None:
    experiment = small_experiment(
        kind, data={"batch_tokens": 48, "dropout": 0.1, "word_dropout": 0.2}, steps=12
    )
    step, plain = (Step(experiment, build_model(experiment)) for _ in range(2))
    pretended = PretendCuda(monkeypatch, step)
    monkeypatch.setattr(step, "device", torch.device("cuda"))
    monkeypatch.setattr(step, "draws", plain.draws)
    kinds = set()
    with open_engine(step, Plan(engine="graph", reason="a test")) as run:
        for number in range(12):
            run(number)
            plain.run(number)
            kinds.add(plain.prepare(number))
            assert step.read_sums() == plain.read_sums()
    assert same_weights(step.model, plain.model)
    assert pretended.captures == len(kinds) > (kind == "translation")


def test_text_has_engines_and_kernels_are_for_prompts() -> None:
    cuda = torch.device("cuda")
    assert plan_for(small_experiment(), "auto", device=cuda).engine == "graph"
    assert plan_for(small_experiment(), "compiled", device=torch.device("cpu")).engine == "compiled"
    with pytest.raises(ValueError, match="they are for models of prompts, not translation"):
        plan_for(small_experiment(precision="bf16"), "fused", device=cuda)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"batch_size": 8}, "a batch is batch_tokens of the data"),
        ({"loss": "log"}, "that of text is the cross-entropy"),
    ],
)
def test_settings_without_meaning_for_text_are_refused(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        small_experiment(**settings)


def test_an_initial_text_model_is_trained_further() -> None:
    first = train(small_experiment())
    more = train(small_experiment(lr=1e-12, steps=1), initial=first.model)
    for one, other in zip(first.model.parameters(), more.model.parameters(), strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-9)
    with pytest.raises(ValueError, match="another program or width"):
        train(small_experiment(), initial=train(small_experiment("labels", steps=1)).model)


def test_data_of_text_comes_back_from_its_header() -> None:
    for kind in ("translation", "labels"):
        data = small_data(kind, dropout=0.25)
        found = type(data).from_header(data.header())
        assert found == data
        assert found.known_tokenizer == data.known_tokenizer
        assert found.train_digest == data.train_digest
        assert type(data).from_header(data.settings()) == data
        with pytest.raises(ValueError, match="and no others"):
            type(data).from_header({"settings": {"packed": 1}})
