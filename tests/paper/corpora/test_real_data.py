"""The real sets, where ALGOFORMER_DATA names their folder: whole, known, and as hard as is said."""

import os
from pathlib import Path

import pytest

from algoformer.language import load_labelled, load_parallel
from paper.corpora import register_corpora
from paper.naive_bayes import naive_bayes_accuracy

register_corpora()

FOLDER = os.environ.get("ALGOFORMER_DATA", "")
pytestmark = pytest.mark.skipif(
    not (FOLDER and Path(FOLDER).is_dir()), reason="ALGOFORMER_DATA names no folder with the real sets"
)


def needs(name: str) -> None:
    if not (Path(FOLDER) / name).is_dir():
        pytest.skip(f"{name} is not in {FOLDER}")


@pytest.mark.parametrize(
    ("name", "test"), [("iwslt14_de_en", 6750), ("multi30k_de_en", 1000), ("tatoeba_de_en", 4236)]
)
def test_test_sets_are_whole(name: str, test: int) -> None:
    needs(name)
    corpus = load_parallel(name, strict=True)
    assert len(corpus.test) == test
    assert not any("&apos;" in text for text in corpus.train.target)


# what multinomial naive Bayes on single words reaches there, measured with other code and other word borders
@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "test", "known"),
    [
        ("ag_news", 7600, 89.8),
        ("dbpedia", 7600, 95.2),
        ("imdb", 25000, 81.1),
        ("yelp_full", 2500, 51.7),
        ("newsgroups20", 7516, 79.6),
    ],
)
def test_naive_bayes_reaches_its_known_score(name: str, test: int, known: float) -> None:
    needs(name)
    corpus = load_labelled(name, strict=True)
    assert len(corpus.test) == test
    assert naive_bayes_accuracy(corpus).value == pytest.approx(known, abs=1)
