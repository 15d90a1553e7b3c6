"""Experiments on text as data, and what they refuse."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from algoformer.language.training import PRESETS, TextExperiment, text_preset
from algoformer.language.training.experiment import TextSettings, build_text_model
from algoformer.language.training.text import check_text
from algoformer.model.cost import parameters
from algoformer.model.program import default_steps
from algoformer.training import Ramp
from tests.language.training.small_text import small_experiment, small_text


@pytest.mark.parametrize("size", ["small", "paper", "tuned", "shipped"])
@pytest.mark.parametrize("program", PRESETS)
@pytest.mark.parametrize("kind", ["translation", "classification"])
def test_a_preset_comes_back_from_its_json(kind: Any, program: str, size: Any) -> None:
    preset = text_preset(kind, program, size)
    assert TextExperiment.from_data(json.loads(json.dumps(preset.to_data()))) == preset


@pytest.mark.usefixtures("as_a_user")
@pytest.mark.parametrize("wrong", ["kind", "program", "size"])
def test_a_preset_that_there_is_not_is_refused_by_name(wrong: str) -> None:
    named: dict[str, Any] = {wrong: "huge"}
    with pytest.raises(ValueError, match=rf"{wrong} must be one of .*, got 'huge'"):
        text_preset(**named)


def test_the_papers_sizes_are_the_papers() -> None:
    run = text_preset("translation", "algoformer", "paper")
    assert (run.width, run.training.window, default_steps(run.program)) == (256, 10, 10)
    # three layers of 12 w² + 13 w numbers, their positions and norms
    inside = sum(parameters(part, width=256, context=run.text.context) for part in run.program)
    assert inside == 3 * (12 * 256**2 + 13 * 256 + 2 * 256 + run.text.context * 256)


@pytest.mark.parametrize(
    ("text", "training", "words"),
    [
        ({"corpora": ()}, {}, "corpora must name a set"),
        ({"budget": 40}, {}, "budget must hold"),
        ({"smoothing": 1.0}, {}, "smoothing is a share"),
        ({"dropout": -0.1}, {}, "dropout is a share"),
        ({"longest": 0}, {}, "longest must be"),
        ({"validate_every": 3}, {}, "multiple of log_every"),
        ({"multiple": 0}, {}, "multiple must be a whole number of at least 1, got 0"),
        ({"word_dropout": 1.0}, {}, "word_dropout is a share"),
        ({}, {"batch": 32}, "a batch is text.budget tokens"),
        ({}, {"dims": Ramp(start=1, increment=1)}, "text has no such curriculum"),
        ({}, {"loss": "log"}, "it is the cross-entropy"),
        ({}, {"window": 5}, "window must lie in 1..2"),
    ],
)
def test_settings_without_meaning_are_refused(text: Any, training: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        small_experiment(text=text, **training)


def test_a_classifier_reads_one_set_of_text() -> None:
    with pytest.raises(ValueError, match="only one to classify"):
        TextSettings(kind="classification", corpora=("a", "b"))


@pytest.mark.parametrize("data", [None, [], {}, {"program": 1, "width": 2, "text": 3, "training": 4}])
def test_other_data_are_refused(data: Any) -> None:
    with pytest.raises(ValueError, match=r"experiment on text|program"):
        TextExperiment.from_data(data)


def test_the_seed_alone_decides_the_first_weights() -> None:
    one, other = small_experiment(), small_experiment(seed=1)
    first, again, third = (
        build_text_model(run, vocabulary=50).trunk.embedding.weight for run in (one, one, other)
    )
    assert first.equal(again)
    assert not first.equal(third)


def test_text_that_was_made_with_other_settings_is_refused() -> None:
    text, settings = small_text(), small_experiment().text
    check_text(text, settings)
    for change in ({"vocabulary": 300}, {"lowercase": True}, {"corpora": ("a",)}, {"longest": 21}):
        with pytest.raises(ValueError, match=f"made with {next(iter(change))}="):
            check_text(text, replace(settings, **change))
    empty = replace(text, splits={"train": text.splits["train"]})
    with pytest.raises(ValueError, match="split 'valid'"):
        check_text(empty, settings)
    with pytest.raises(ValueError, match="made with kind="):
        check_text(text, TextSettings(kind="classification"))
