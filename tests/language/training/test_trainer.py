"""Runs on text: they learn, they go on exactly where they stopped, and packed text is the same text."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from algoformer.language import load_text_model
from algoformer.language.classify import Classifying
from algoformer.language.packing import pack, unpack
from algoformer.language.scores import TokenLoss
from algoformer.language.training import load_text_experiment, train_text, trainer
from algoformer.language.training.measure import measure
from algoformer.language.training.text import prepare_text
from algoformer.language.training.trainer import BEST
from algoformer.language.training.validation import Validation
from algoformer.language.translate import Decoding
from algoformer.training import read_metrics
from tests.language.training.small_text import ENGLISH, small_experiment, small_text
from tests.training.small import same_weights, timeless

FULL = {"dropout": 0.1, "attention_dropout": 0.1, "smoothing": 0.1}


def test_a_handful_of_sentences_is_learned_by_heart() -> None:
    text = small_text()
    experiment = small_experiment(
        text={"budget": 200, "validate_every": 50}, steps=100, log_every=50, optimizer="muon"
    )
    run = train_text(experiment, text=text)
    for decoding in (Decoding(beam=1), Decoding(beam=3, batch=4)):
        (found,) = measure(run.checkpoint, text, decoding=decoding)
        assert found.hypotheses == ENGLISH
        assert found.scores["BLEU"].value == pytest.approx(100)


def test_labels_are_learned_by_heart() -> None:
    text = small_text("classification")
    experiment = small_experiment("classification", text={"budget": 100, "validate_every": 20}, steps=40)
    run = train_text(experiment, text=text)
    assert run.metrics[-1]["valid_accuracy"] == 1
    (found,) = measure(run.checkpoint, text)
    assert (found.rows, found.scores["accuracy"].value) == (8, 100)


@pytest.mark.parametrize(
    ("kind", "training"),
    [
        ("translation", {"optimizer": "muon", "ema": 0.9}),
        ("translation", {"precision": "bf16", "schedule": "cosine", "clip": 0.5}),
        ("classification", {"optimizer": "adamw", "weight_decay": 0.1}),
    ],
)
def test_a_run_in_two_parts_is_the_run_in_one(kind: Any, training: Any, tmp_path: Path) -> None:
    text, experiment = small_text(kind), small_experiment(kind, text=FULL, **training)
    whole = train_text(experiment, tmp_path / "whole", text=text)

    def stop(done: int, total: int, metrics: Any) -> None:
        if done == 4:
            raise RuntimeError("stop")

    with pytest.raises(RuntimeError):  # the checkpoint of step 4 is not written yet: another is
        train_text(replace(experiment), tmp_path / "parts", text=text, progress=stop)
    first = train_text(experiment, tmp_path / "parts", text=text, resume=True, max_minutes=1e-9)
    assert first.step < 8
    for _ in range(8):
        torch.rand(3)  # whatever is drawn elsewhere must not matter
        last = train_text(experiment, tmp_path / "parts", text=text, resume=True, max_minutes=1e-9)
    assert last.finished
    assert same_weights(whole.model, last.model)
    assert timeless(whole.metrics) == timeless(last.metrics) == timeless(read_metrics(tmp_path / "parts"))
    saved = [load_text_model(tmp_path / name / "checkpoint.safetensors") for name in ("whole", "parts")]
    assert saved[0].state.keys() == saved[1].state.keys()
    assert all(value.equal(saved[1].state[name]) for name, value in saved[0].state.items())
    assert (whole.best_step, load_text_experiment(tmp_path / "parts")) == (last.best_step, experiment)


def test_packed_text_trains_the_same_model(tmp_path: Path) -> None:
    text, experiment = small_text(), small_experiment(text=FULL)
    pack(tmp_path / "text", text)
    one = train_text(experiment, text=text)
    other = train_text(experiment, text=unpack(tmp_path / "text"))
    assert same_weights(one.model, other.model)


def test_the_best_translator_is_the_one_with_the_lowest_validation_loss(tmp_path: Path) -> None:
    # a rate that soon is far too high: it gets worse again
    experiment = small_experiment(steps=24, learning_rate=0.3, text={"validate_every": 2})
    run = train_text(experiment, tmp_path / "run", text=small_text())
    losses = {int(row["step"]): row["valid_loss"] for row in run.metrics}
    best = min(losses, key=lambda step: losses[step])
    card = load_text_model(tmp_path / "run" / BEST).card
    assert run.best_step == card["step"] == best
    assert card["valid_loss"] == losses[best]
    assert card["experiment"] == experiment.to_data()
    assert card["notes"] == ["made by hand"]


@pytest.mark.parametrize(("kind", "best"), [("classification", 6), ("translation", 8)])
def test_the_best_classifier_has_most_right_answers_then_the_lowest_loss(
    kind: Any, best: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # right answers and loss; of translations only the loss is known
    found = {2: (5, 1.0), 4: (7, 2.0), 6: (7, 1.5), 8: (6, 0.5)}
    steps = iter(found)

    def scripted(*_: Any, **__: Any) -> Validation:
        right, loss = found[next(steps)]
        loss_of_all = TokenLoss(nats=8 * loss, tokens=8)
        return Validation(loss=loss_of_all, right=right if kind == "classification" else None)

    def stop(done: int, total: int, metrics: Any) -> None:
        if done == 4:
            raise KeyboardInterrupt

    monkeypatch.setattr(trainer, "validate", scripted)
    text, experiment = small_text(kind), small_experiment(kind, text={"validate_every": 2})
    with pytest.raises(KeyboardInterrupt):
        train_text(experiment, tmp_path / "run", text=text, progress=stop)
    before = load_text_model(tmp_path / "run" / BEST).card["step"]
    assert before == (4 if kind == "classification" else 2)
    run = train_text(experiment, tmp_path / "run", text=text, resume=True)
    card = load_text_model(tmp_path / "run" / BEST).card
    assert run.best_step == card["step"] == best
    assert card["valid_loss"] == found[best][1]
    assert card.get("valid_accuracy") == (7 / 8 if kind == "classification" else None)


@pytest.mark.parametrize("only_words", [True, False])
def test_a_checkpoint_says_how_its_text_was_spelled(only_words: bool) -> None:
    text = small_text("classification")
    text = replace(text, card=dict(text.card) | {"spelling": {"lowercase": True, "only_words": only_words}})
    run = train_text(small_experiment("classification", steps=2, text={"validate_every": 2}), text=text)
    assert Classifying(run.checkpoint).only_words == only_words


def test_a_run_is_not_resumed_with_another_tokenizer(tmp_path: Path) -> None:
    experiment = small_experiment()
    train_text(experiment, tmp_path / "run", text=small_text(), max_minutes=1e-9)
    other = small_text()
    changed = replace(other, tokenizer=type(other.tokenizer)(other.tokenizer.merges[:-1]))
    with pytest.raises(ValueError, match="another tokenizer"):
        train_text(experiment, tmp_path / "run", text=changed, resume=True)


def test_what_is_no_number_ends_a_run_and_keeps_its_checkpoint(tmp_path: Path) -> None:
    experiment = small_experiment(steps=50, learning_rate=1e30, checkpoint_every=1)
    with pytest.raises(FloatingPointError, match="no longer a number"):
        train_text(experiment, tmp_path / "run", text=small_text())
    load_text_model(tmp_path / "run" / "checkpoint.safetensors")


def test_checkpoints_come_in_shards_where_asked_for(tmp_path: Path) -> None:
    text, experiment = small_text(), small_experiment()
    part = train_text(experiment, tmp_path / "run", text=text, shard_mb=0.02, max_minutes=1e-9)
    assert not part.finished
    run = train_text(experiment, tmp_path / "run", text=text, resume=True)
    files = list((tmp_path / "run").glob("*.safetensors"))
    assert len(files) > 4
    assert all(file.stat().st_size <= 20_000 for file in files)
    for name in ("checkpoint.safetensors", BEST):
        assert load_text_model(tmp_path / "run" / name).model.program == run.model.program
    assert same_weights(load_text_model(tmp_path / "run" / "checkpoint.safetensors").model, run.model)


def test_tokens_come_from_the_training_split_and_test_splits_stay_whole() -> None:
    pytest.importorskip("tokenizers", reason="the extra `text` is not installed")
    settings = small_experiment(text={"vocabulary": 400, "longest": 24}).text
    text = prepare_text(settings)
    assert len(text.splits["test"]) == 500
    longest = max(text.splits["train"].source.lengths.max(), text.splits["train"].target.lengths.max())
    assert longest <= 24
    assert text.splits["train"].notes[0].endswith("longer than 24 tokens")


def test_a_killed_run_goes_on(tmp_path: Path) -> None:
    """SIGKILL in the middle, then the rest: the same weights as without it."""
    text, experiment = small_text(), small_experiment(steps=40, checkpoint_every=2, text=FULL)
    pack(tmp_path / "text", text)
    code = (
        "import sys; from algoformer.language.packing import unpack;"
        "from algoformer.language.training import *; import json;"
        "e = TextExperiment.from_data(json.load(open(sys.argv[1])));"
        "train_text(e, sys.argv[2], text=unpack(sys.argv[3]), tensorboard=False)"
    )
    (tmp_path / "e.json").write_text(json.dumps(experiment.to_data()))
    words = [
        sys.executable,
        "-c",
        code,
        str(tmp_path / "e.json"),
        str(tmp_path / "run"),
        str(tmp_path / "text"),
    ]
    process = subprocess.Popen(words, env=dict(os.environ), stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 60
    while not (tmp_path / "run" / "checkpoint.safetensors").exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    rest = train_text(experiment, tmp_path / "run", text=text, resume=True)
    assert same_weights(rest.model, train_text(experiment, text=text).model)
