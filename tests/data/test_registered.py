"""Corpora and metrics that are registered from outside are used by name, from training to scores."""

from collections.abc import Iterator, Sequence
from importlib import metadata

import pytest

from algoformer import Experiment, TrainConfig, programs, train
from algoformer.common import names
from algoformer.data import LabelledData, TranslationData
from algoformer.language import (
    Corpus,
    LabelledText,
    load_labelled,
    load_parallel,
    register_corpus,
    register_metric,
)
from algoformer.language.corpora import CORPORA
from algoformer.language.scores import METRICS
from paper.corpora import register_corpora

pytest.importorskip("tokenizers", reason="the extra `text` is not installed")


def colors() -> Corpus[LabelledText]:
    texts = tuple(f"this {thing} is {color}" for thing in ("car", "sky", "dog") for color in ("red", "blue"))
    split = LabelledText(texts=texts * 4, labels=(0, 1) * 12)
    return Corpus(name="colors", train=split, valid=split, test=split, classes=("warm", "cold"))


def errors(hypotheses: Sequence[str], references: Sequence[str], *, lowercase: bool) -> float:
    assert not lowercase
    return float(sum(one != other for one, other in zip(hypotheses, references, strict=True)))


@pytest.fixture(autouse=True)
def registered() -> Iterator[None]:
    register_corpora()
    register_corpus("colors", colors)
    register_metric("errors", errors)
    yield
    del CORPORA["colors"], METRICS["errors"]


def test_a_registered_corpus_is_trained_on_and_scored_by_a_registered_metric() -> None:
    data = LabelledData(corpus="colors", vocabulary=270, max_length=32, batch_tokens=64)
    training = TrainConfig(steps=2, window=1)
    program = programs.looped(heads=1, steps=2, causal=False)
    model = train(Experiment(program, data, width=8, training=training)).model
    (found,) = data.evaluate(model, metrics=("accuracy", "errors"))
    # 24 texts: the metric counts the wrong ones, the accuracy the others
    assert found.scores["errors"].value == pytest.approx(24 * (1 - found.scores["accuracy"].value / 100))
    assert str(found.scores["errors"]) == f"{found.scores['errors'].value:.2f}"


def test_an_unknown_name_meets_the_nearest_registered_one() -> None:
    with pytest.raises(ValueError, match=r"unknown corpus 'colours' \(did you mean 'colors'\?\).*ag_news"):
        load_labelled("colours")
    data = LabelledData(corpus="colors", vocabulary=270, max_length=32)
    model = data.build_model(programs.looped(heads=1, causal=False), 8, TrainConfig())
    with pytest.raises(ValueError, match=r"unknown metric 'erors' \(did you mean 'errors'\?\)"):
        data.evaluate(model, metrics=("erors",))


def test_a_corpus_of_another_kind_is_refused() -> None:
    with pytest.raises(ValueError, match="'colors' is a corpus for classification; give --data labels"):
        load_parallel("colors")
    with pytest.raises(ValueError, match="'ag_news' is a corpus for classification"):
        _ = TranslationData(corpus="ag_news").text


def test_names_of_the_library_cannot_be_taken() -> None:
    for name in ("small_topics", "imdb", "colors"):
        with pytest.raises(ValueError, match=f"the corpus '{name}' is registered already"):
            register_corpus(name, lambda: colors())
    register_corpus("colors", colors)


def test_an_installed_package_offers_corpora_by_entry_point(monkeypatch: pytest.MonkeyPatch) -> None:
    offered = metadata.EntryPoint(name="ours", value=f"{__name__}:colors", group="algoformer.corpora")
    monkeypatch.setattr(names, "entry_points", lambda group: [offered] if group == offered.group else [])
    assert load_labelled("ours").classes == ("warm", "cold")
    assert "ours" in CORPORA.names()
